"""Insert subscriptions into TAMA's cells and delete them from there.

The id of a subscription is stored in each cell that covers one of its intervals, as the papers that measure TAMA
describe it (REIN sec. V C and V D, HEM sec. 6.4): about log2(W * 2^levels) cells for an interval of width W. So both
take longer than in REIN, and the longer the wider the interval is. Ours also stores the interval in the finest cells of
its bounds, where values are compared.

Numbers ascend, so a new id goes to the end of each list (tama_lists.py). A deleted number has a counter that no hit
counts down.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchers.algorithms import tama
from matchers.algorithms.tama.kernel import Dyadic, Intervals, Visited
from matchers.contract.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable, offsets_of
from matchers.kernels.counting import BLOCK, padded
from matchers.kernels.growing import with_room
from matchers.papers.updates.growing_table import GrowingTable, nbytes
from matchers.papers.updates.tama_lists import GrowingLists, delete_intervals, insert_intervals


class UpdatableTama:
    """TAMA's index, whose arrays change in place."""

    _cells: Dyadic
    _covers: GrowingLists  # of subscriptions, a list for each cell
    _edges: GrowingLists  # of intervals, a list for each finest cell
    _needed: NDArray[Any]  # [n and room]

    def __init__(self, table: SubscriptionTable, levels: int = 13) -> None:
        """Options as for `tama.build`. Raises MatchingError."""
        self._levels = levels
        self._table = GrowingTable(table)
        self._build()

    def match(self, events: EventBatch) -> MatchBatch:
        table, covers, edges = self._table, self._covers, self._edges
        visited = Visited(covers.start, covers.end, covers.contents, edges.start, edges.end, edges.contents)
        needed = self._needed[: -(-table.n // BLOCK) * BLOCK]
        intervals = Intervals(table.subscription, table.low, table.high)
        return tama.matches(events, self._cells, visited, intervals, needed, table.n)

    def memory_bytes(self) -> int:
        return self._table.memory_bytes() + nbytes(*self._cells, *self._covers, *self._edges, self._needed)

    def insert(self, table: SubscriptionTable) -> int:
        begin = self._table.n_intervals
        first = self._table.append(table)
        if self._table.outgrown:
            self._build()
            return first
        self._need(first, table.needed)
        ids, tail, rows, edge_tail = insert_intervals(
            begin, self._table.n_intervals, *self._arrays(), self._cells, self._covers, self._edges
        )
        self._covers = self._covers._replace(contents=ids, tail=tail)
        self._edges = self._edges._replace(contents=rows, tail=edge_tail)
        return first

    def delete(self, subscriptions: ArrayLike) -> None:
        numbers = self._table.delete(subscriptions)
        if self._table.outgrown:
            self._build()
            return
        self._needed[numbers] = 1
        intervals, _ = self._table.intervals_of(numbers)
        delete_intervals(intervals, *self._arrays(), self._cells, self._covers, self._edges)

    def _build(self) -> None:
        built = tama.build(self._table.compact(), self._levels)
        self._cells = built.cells
        start, ids, edge_start, rows = built.contents
        self._covers, self._edges = _lists(start, ids), _lists(edge_start, rows)
        self._needed = built.needed
        self._needed[: self._table.n][self._table.gone] = 1

    def _need(self, first: int, needed: Int32) -> None:
        """Set the counters of new subscriptions, which may be too large for the type of the others."""
        last = first + len(needed)
        counters = self._needed.astype(np.promote_types(self._needed.dtype, padded(needed).dtype), copy=False)
        self._needed = with_room(counters, -(-last // BLOCK) * BLOCK, fill=1)
        self._needed[first:last] = needed

    def _arrays(self) -> tuple[Int32, Int32, Float64, Float64]:
        table = self._table
        return table.subscription, table.column, table.low, table.high


def _lists(start: Int64, contents: Int32) -> GrowingLists:
    """The lists start[i] .. start[i + 1], with room for half more in each."""
    length = np.diff(start)
    new_start = offsets_of(length + length // 2)
    spread = np.zeros(max(int(new_start[-1]), 1), np.int32)  # not empty, so that it can be doubled
    spread[np.arange(len(contents)) + np.repeat(new_start[:-1] - start[:-1], length)] = contents
    return GrowingLists(new_start[:-1], new_start[:-1] + length, np.diff(new_start), spread, int(new_start[-1]))
