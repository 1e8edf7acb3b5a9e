"""Insert subscriptions into REIN's bucket lists and delete them from there (sec. IV C, V C and V D).

A subscription of k constraints is 2k pairs (constraint value, subID), one in a bucket of each of its lists, whatever
the width of the constraints. To insert it is to map each value to its bucket and to store the pair there; to delete it,
to find its 2k pairs, each in one bucket. A deleted subID has no pair that could mark it, so its bit is set before an
event is matched.

Where ours differs: a constraint without a bound has no pair in the list of highs, and one in no cell in that of lows.
Numbers ascend, so new subscriptions are all in the last block, and only its buckets have free places (rein_buckets.py).
When a bucket there is full, this block is laid out again with room for half more in each bucket; when the block is
full, it is laid out without room and a new one begins. So an insertion moves the pairs of a block at most, until the
intervals have doubled and all is built anew.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchers.algorithms.predicates import Predicates
from matchers.contract.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable, offsets_of
from matchers.kernels.growing import with_room
from matchers.papers import rein
from matchers.papers.rein.kernel import BLOCK, NOBODY, BucketLists
from matchers.papers.updates.growing_table import GrowingTable, nbytes
from matchers.papers.updates.rein_buckets import delete_pairs, insert_pairs, spread

FREE = 2  # places of a bucket that is laid out with room, and half of its size


class UpdatableRein:
    """REIN's index, whose arrays change in place."""

    _lists: BucketLists  # with room
    _low_size: Int32  # [buckets and room] pairs in each
    _high_size: Int32
    _blocks: int

    def __init__(self, table: SubscriptionTable, buckets: int | None = None) -> None:
        """Options as for `rein.build`, but for `blocks`. Raises MatchingError."""
        self._buckets = buckets
        self._table = GrowingTable(table)
        self._build()

    def match(self, events: EventBatch) -> MatchBatch:
        table = self._table
        gone = table.gone_bits[: -(-table.n // 64)] if table.any_gone else table.gone_bits[:0]
        return rein.matches(events, self._lists, table.rows, gone)

    def memory_bytes(self) -> int:
        return self._table.memory_bytes() + nbytes(*self._lists, self._low_size, self._high_size)

    def insert(self, table: SubscriptionTable) -> int:
        first = self._table.append(table)
        if self._table.outgrown:
            self._build()
            return first
        new = Predicates.of(table)
        number = new.subscription + np.int32(first)
        for block in range(first // BLOCK, -(-self._table.n // BLOCK)):
            if block == self._blocks:
                self._begin_block()
            begin, end = np.searchsorted(number, [block * BLOCK, (block + 1) * BLOCK])
            while begin < end:
                sizes = self._low_size, self._high_size
                begin = insert_pairs(begin, end, number, new.column, new.low, new.high, self._lists, *sizes)
                if begin < end:
                    self._lay_out_last_block(room=True)
        return first

    def delete(self, subscriptions: ArrayLike) -> None:
        numbers = self._table.delete(subscriptions)
        if self._table.outgrown:
            self._build()
            return
        old = Predicates.of(self._table.rows_of(numbers))
        number = numbers[old.subscription].astype(np.int32)
        delete_pairs(number, old.column, old.low, old.high, self._lists, self._low_size, self._high_size)

    def _build(self) -> None:
        self._lists = rein.build(self._table.compact(), self._buckets, blocks=True).lists
        self._low_size = np.diff(self._lists.low_start).astype(np.int32)
        self._high_size = np.diff(self._lists.high_start).astype(np.int32)
        self._blocks = -(-self._table.n // BLOCK)
        if self._blocks:
            self._lay_out_last_block(room=True)

    def _begin_block(self) -> None:
        """Add the empty buckets of one more block."""
        if self._blocks:
            self._lay_out_last_block(room=False)
        columns, n = self._table.n_columns, self._lists.n
        self._low_size = with_room(self._low_size, (self._blocks + 1) * columns * (n + 1))
        self._high_size = with_room(self._high_size, (self._blocks + 1) * columns * n)
        self._lists = self._lists._replace(
            low_start=_one_more(self._lists.low_start, self._blocks * columns * (n + 1), columns * (n + 1)),
            high_start=_one_more(self._lists.high_start, self._blocks * columns * n, columns * n),
        )
        self._blocks += 1

    def _lay_out_last_block(self, room: bool) -> None:
        lists, columns = self._lists, self._table.n_columns
        low, high = columns * (lists.n + 1), columns * lists.n  # buckets of a block
        before = self._blocks - 1
        bounds, ids = _laid_out(
            before * low, low, room, lists.low_start, self._low_size, lists.low, lists.low_subscription
        )
        highs, high_ids = _laid_out(
            before * high, high, room, lists.high_start, self._high_size, lists.high, lists.high_subscription
        )
        self._lists = lists._replace(low=bounds, low_subscription=ids, high=highs, high_subscription=high_ids)


def _one_more(start: Int64, buckets: int, added: int) -> Int64:
    """The starts of buckets, with so many empty ones behind them."""
    start = with_room(start, buckets + added + 1)
    start[buckets + 1 : buckets + added + 1] = start[buckets]
    return start


def _laid_out(
    first: int, buckets: int, room: bool, start: Int64, size: Int32, bound: Float64, subscription: NDArray[np.uint16]
) -> tuple[Float64, NDArray[np.uint16]]:
    """Lay out so many buckets from `first` on, which are the last ones; returns the arrays of all pairs."""
    own = slice(first, first + buckets)
    new_start = offsets_of(size[own] + (size[own] // 2 + FREE if room else 0))
    new_bound = np.zeros(new_start[-1])
    new_subscription = np.full(new_start[-1], NOBODY, np.uint16)
    spread(start[own], size[own], bound, subscription, new_start, new_bound, new_subscription)
    new_start += start[first]
    bound, subscription = with_room(bound, int(new_start[-1])), with_room(subscription, int(new_start[-1]))
    bound[new_start[0] : new_start[-1]] = new_bound
    subscription[new_start[0] : new_start[-1]] = new_subscription
    start[first : first + buckets + 1] = new_start
    return bound, subscription
