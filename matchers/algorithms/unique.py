"""Keep subscriptions with equal intervals once, in an order that depends on the intervals only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchers.algorithms.pool import over
from matchers.contract.tables import Int32, Int64, SubscriptionTable, offsets_of
from matchers.kernels import unique as kernels
from matchers.kernels.unique import Intervals


@dataclass(frozen=True, eq=False)
class Unique:
    """The U different subscriptions among S."""

    one: Int64  # [U] one subscription of each
    id_start: Int64  # [U + 1]
    id: Int32  # subscriptions equal to one[u]: id_start[u] .. id_start[u + 1], ascending; without contradictory ones

    @classmethod
    def of(cls, table: SubscriptionTable, threads: int) -> Unique:
        n = table.n_subscriptions
        low, high = ((bounds + 0.0).view(np.uint64) for bounds in (table.low, table.high))  # one zero
        hashes = np.empty(n, np.uint64)
        intervals = Intervals(table.start, table.column, low, high)
        over(n, threads, lambda a, b: kernels.hash_rows(a, b, intervals, hashes))
        order = np.argsort(hashes, kind="stable")
        never = np.zeros(n, bool)
        never[table.subscription[table.low > table.high]] = True
        if never.any():
            order = order[~never[order]]
        new = np.empty(len(order), bool)
        kernels.mark_new(order, hashes, intervals, new)
        first = np.flatnonzero(new)
        return cls(order[first], np.append(first, len(order)), order.astype(np.int32))


def rows(
    order: NDArray[np.integer[Any]],
    start: Int64,
    column: Int32,
    low: NDArray[Any],
    high: NDArray[Any],
    threads: int,
) -> Intervals:
    """The rows `order` of a table."""
    order = order.astype(np.int64, copy=False)  # the kernel is compiled for each type
    to = offsets_of(start[order + 1] - start[order])
    given = Intervals(start, column, low, high)
    taken = Intervals(to, *(np.empty(int(to[-1]), array.dtype) for array in (column, low, high)))
    over(len(order), threads, lambda a, b: kernels.take_rows(a, b, order, given, taken))
    return taken
