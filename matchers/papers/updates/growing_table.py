"""The subscriptions of an updatable index by number: new ones at the end, deleted ones marked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchers.contract.tables import Float64, Int32, Int64, SubscriptionTable
from matchers.errors import MatchingError
from matchers.kernels.bitsets import set_bits
from matchers.kernels.growing import with_room
from matchers.kernels.rows import Rows

FEWEST_INTERVALS = 256  # intervals, from which on a rebuild is worth its fixed cost


def nbytes(*arrays: Any) -> int:
    """The size of those that are arrays."""
    return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


class GrowingTable:
    """n numbers and I intervals, in arrays with room for more. Numbers ascend, so the intervals stay sorted."""

    n: int
    subscription: Int32  # [I and room]
    column: Int32
    low: Float64
    high: Float64

    def __init__(self, table: SubscriptionTable) -> None:
        self.n_columns = table.n_columns
        self._gone = np.empty(0, np.bool_)  # [n and room]: whether a number is deleted
        self.gone_bits = np.empty(0, np.uint64)  # the same as bits
        self.any_gone = False
        self._several = np.empty(0, np.bool_)
        self._clear()
        self.append(table)
        self._at_build = self.n_intervals

    def _clear(self) -> None:
        self.n = self.n_intervals = self._deleted = 0  # _deleted: intervals of deleted subscriptions
        self.subscription, self.column = np.empty(0, np.int32), np.empty(0, np.int32)
        self.low, self.high = np.empty(0), np.empty(0)
        self.start: Int64 = np.zeros(1, np.int64)  # [n + 1 and room]
        self._any_several = False

    def append(self, table: SubscriptionTable) -> int:
        """Returns the number of the first. Raises MatchingError."""
        if table.n_columns != self.n_columns:
            raise MatchingError(f"the table must have {self.n_columns} columns as the index has, not {table.n_columns}")
        first, begin = self.n, self.n_intervals
        self.n += table.n_subscriptions
        self.n_intervals += len(table.low)
        self.subscription = with_room(self.subscription, self.n_intervals)
        self.column = with_room(self.column, self.n_intervals)
        self.low = with_room(self.low, self.n_intervals)
        self.high = with_room(self.high, self.n_intervals)
        self.start = with_room(self.start, self.n + 1)
        self._several = with_room(self._several, self.n)
        self._gone = with_room(self._gone, self.n)
        self.gone_bits = with_room(self.gone_bits, -(-self.n // 64))
        new = slice(begin, self.n_intervals)
        self.subscription[new] = table.subscription + np.int32(first)
        self.column[new], self.low[new], self.high[new] = table.column, table.low, table.high
        self.start[first : self.n + 1] = begin + table.start
        several = self.subscription[new][~table.begins]
        self._several[several] = True
        self._any_several |= len(several) > 0
        return first

    def delete(self, subscriptions: ArrayLike) -> Int64:
        """Mark them as deleted; returns them ascending. Raises MatchingError."""
        numbers = np.sort(np.array(subscriptions, np.int64).ravel())
        wrong = (numbers < 0) | (numbers >= self.n)
        wrong[~wrong] = self._gone[numbers[~wrong]]
        wrong[1:] |= numbers[1:] == numbers[:-1]
        if wrong.any():
            raise MatchingError(f"cannot delete {numbers[wrong][0]}: no such subscription")
        self._gone[numbers] = True
        self.any_gone |= len(numbers) > 0
        set_bits(self.gone_bits, numbers)
        self._deleted += int((self.start[numbers + 1] - self.start[numbers]).sum())
        return numbers

    @property
    def gone(self) -> NDArray[np.bool_]:
        """[n]"""
        return self._gone[: self.n]

    @property
    def outgrown(self) -> bool:
        """Whether an index of it is to be built anew: the intervals have doubled, or half of them are deleted."""
        limit = max(self._at_build, FEWEST_INTERVALS)
        return self.n_intervals > 2 * limit or (
            self.n_intervals > FEWEST_INTERVALS and 2 * self._deleted > self.n_intervals
        )

    def compact(self) -> SubscriptionTable:
        """Drop the intervals of deleted subscriptions, which keep their numbers; returns the table for a new build."""
        table = self.rows_of(np.arange(self.n), ~self.gone)
        self._clear()
        self.append(table)
        self._at_build = self.n_intervals
        return table

    def rows_of(self, numbers: Int64, kept: NDArray[np.bool_] | None = None) -> SubscriptionTable:
        """Some subscriptions, ascending, numbered anew from 0; without intervals where they are not `kept`."""
        at, length = self.intervals_of(numbers)
        of = np.repeat(np.arange(len(numbers), dtype=np.int32), length)
        if kept is not None:
            at, of = at[kept[of]], of[kept[of]]
        return SubscriptionTable.of_sorted(
            of,
            self.column[at],
            self.low[at],
            self.high[at],
            n_subscriptions=len(numbers),
            n_columns=self.n_columns,
        )

    def intervals_of(self, numbers: Int64) -> tuple[Int64, Int64]:
        """The places of the intervals of some subscriptions, and how many each has."""
        begin = self.start[numbers]
        length = self.start[numbers + 1] - begin
        return np.arange(length.sum()) + np.repeat(begin - np.cumsum(length) + length, length), length

    @property
    def rows(self) -> Rows:
        """The table as kernels take it. Its types are those of a `SubscriptionTable`, so kernels compile once."""
        n = self.n_intervals
        column, low, high = self.column[:n], self.low[:n], self.high[:n]
        column.flags.writeable = low.flags.writeable = high.flags.writeable = False
        return Rows(self.start[: self.n + 1], column, low, high, self._several[: self.n], self._any_several)

    def memory_bytes(self) -> int:
        return nbytes(*vars(self).values())
