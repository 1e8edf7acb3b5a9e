"""`tiles`: clusters of 512 subscriptions, rejected as a whole or filtered by rows of 512 bits. Our own algorithm.

What limits the published methods at a million subscriptions is the memory they touch for an event. This one sorts
subscriptions so that most of them are never looked at (`clustering.py`), filters those of the tiles that are left, 512
at a time, in registers, for a whole batch of events before the next tile (`kernels/matching.py`), and verifies the few
candidates on the exact bounds, so that it has neither false positives nor false negatives.

Where subscriptions and events have few of many columns, it compares columns before it compares values (`sparse.py`).
Where events match several per cent of all, it takes subscription by subscription for 512 events at once (`dense.py`).

docs/tiles.md has the algorithms, the constants, the cost model and measurements.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any

import numpy as np

from matchers.algorithms.pool import run, shares
from matchers.algorithms.tiles import dense, sparse
from matchers.algorithms.tiles.clustering import Ranges, Tiling, tiling
from matchers.algorithms.tiles.kernels import layout_kernel, matching
from matchers.algorithms.tiles.kernels.arrays import AT_ONCE, CANDIDATES_AT_ONCE, Arrays, Batch
from matchers.algorithms.tiles.kernels.matching import AloneRoom, Single
from matchers.algorithms.tiles.kernels.runs_kernel import TILES
from matchers.algorithms.tiles.kernels.sparse_kernel import (
    MATCHED,
    TOO_MANY,
    ColumnIndex,
    Filed,
    SlotBounds,
    columns_for,
)
from matchers.algorithms.tiles.layout import Layout
from matchers.algorithms.tiles.model import expected, expected_by_columns, expected_by_events
from matchers.algorithms.tiles.quantiles import Quantiles
from matchers.algorithms.tiles.runs import listed, room_for, united
from matchers.algorithms.unique import Unique, rows
from matchers.contract.held import ArraysHandle
from matchers.contract.matcher import Matcher, one_event
from matchers.contract.tables import EventBatch, Int32, Int64, MatchBatch, SubscriptionTable, offsets_of
from matchers.errors import MatchingError
from matchers.kernels.vectors import LANES, WORDS, aligned

TILE = 64 * WORDS  # subscriptions
FAMILY = 16  # tiles of a parent
MOST_EVENTS = 8_192  # laid out at once
LAID_OUT = 1 << 25  # bytes that events take, laid out
BY_EVENTS = 2_048  # of each thread, from which on threads share the events of a batch rather than the tiles
ALONE = 2  # events that are matched one by one rather than laid out side by side
MUCH = 200  # matches of an event, from which on it is laid out even if it is alone
ROOM = 1 << 23  # matches that are kept before they are arranged, unless one event may have more
SETS = 1 << 20  # the same of precise tiles, all that an event has in one
A_TILE = 10  # candidates take as long as a tile, where columns exclude more subscriptions than values do
COUNTERS = ("tiles tested", "tiles passed", "rows read", "candidates", "verified")


@dataclass(frozen=True, eq=False)
class Tiles(Matcher):
    """Immutable, of flat arrays: can be packed, mapped into memory and shared."""

    arrays: Arrays
    by_columns: ColumnIndex  # of all slots, or of none
    dense_from: int  # events of a batch, from which on they are matched subscription by subscription (`dense.py`)
    n_subscriptions: int
    matched: float  # how many of them an event is thought to match
    threads: int

    def memory_bytes(self) -> int:
        return sum(array.nbytes for array in (*self.arrays, *self.by_columns))

    def match(self, events: EventBatch) -> MatchBatch:
        return self._match(events, np.zeros(len(COUNTERS), np.int64))

    def profile(self, events: EventBatch) -> dict[str, float]:
        """The average work per event of matching these, beside the prediction of the model (`model.py`)."""
        counters = np.zeros(len(COUNTERS), np.int64)
        matches = len(self._match(events, counters).subscription)
        n = max(len(events), 1)
        measured = dict(zip(COUNTERS, (counters / n).tolist(), strict=True)) | {"matches": matches / n}
        if not counters[TILES] and self._sparse(events):
            modelled = expected_by_columns(self.by_columns, events)
        elif not counters[TILES]:
            modelled = expected_by_events(self.arrays, events)
        else:
            modelled = expected(self.arrays, events)
        share = self.arrays.slot[-1] / (TILE * max(len(self.arrays.local), 1))
        modelled = {f"{name}, by the model": value for name, value in modelled.items()}
        return (
            measured | modelled | {"share of places used": float(share), "bytes of rows": self.arrays.words.nbytes / n}
        )

    def _match(self, events: EventBatch, counters: Int64) -> MatchBatch:
        if self._sparse(events):
            found = self._match_sparse(events, counters)
            if found is not None:
                return found
        n, parents = len(events), len(self.arrays.parent) - 1
        if self.threads == 1:
            return self._match_some(events, counters, (0, n), (0, parents))
        own = [np.zeros_like(counters) for _ in range(self.threads)]
        if n >= BY_EVENTS * self.threads:
            some = shares(n, self.threads)
            tasks = [partial(self._match_some, events, c, r, (0, parents)) for c, r in zip(own, some, strict=False)]
            result = MatchBatch.joined(run(tasks))
        else:  # so each reads only its own tiles from memory
            some = shares(parents, self.threads)
            tasks = [partial(self._match_some, events, c, (0, n), r) for c, r in zip(own, some, strict=False)]
            result = united(run(tasks), self.arrays.id, self.arrays.id_start, self.n_subscriptions)
        counters += np.sum(own, axis=0)
        return result

    def _match_sparse(self, events: EventBatch, counters: Int64) -> MatchBatch | None:
        """None where tiles are faster."""
        given = len(self.by_columns.pair_start) - 2, self._filed, self._worth
        ranges = shares(len(events), min(self.threads, max(len(events) // LANES, 1)))
        if len(ranges) == 1:
            return sparse.match(events, ranges[0], *given, counters)
        own = [np.zeros_like(counters) for _ in ranges]
        found = run([partial(sparse.match, events, r, *given, c) for r, c in zip(ranges, own, strict=True)])
        counters += np.sum(own, axis=0)
        parts = [part for part in found if part is not None]
        return MatchBatch.joined(parts) if len(parts) == len(found) else None

    @property
    def _worth(self) -> int:
        """Candidates of an event by its columns, up to which matching by columns is faster than by tiles."""
        return A_TILE * len(self.arrays.local)

    @cached_property
    def _filed(self) -> Any:
        return ArraysHandle(Filed(self.by_columns, self._slots, self.n_subscriptions))

    @property
    def _slots(self) -> SlotBounds:
        a = self.arrays
        return SlotBounds(a.start, a.range, a.low, a.high, a.id_start, a.id)

    def _sparse(self, events: EventBatch) -> bool:
        """Whether they are first matched by their columns."""
        return len(events.column) <= len(events) * sparse.most_values(self.by_columns)

    def _by_events(self, n: int) -> bool:
        """Whether so many events are matched subscription by subscription, and not tile by tile."""
        return n >= max(self.dense_from, ALONE + 1)

    def _most_candidates(self, n: int, parents: tuple[int, int]) -> int:
        """Return the candidates of n events, in the tiles of a range of the parents, that the dense way is worth."""
        if self.dense_from == dense.NEVER_DENSE:
            return dense.NEVER_DENSE
        a = self.arrays
        slots = int(a.slot[a.parent[parents[1]]]) - int(a.slot[a.parent[parents[0]]])
        return dense.most_candidates(n, slots / max(len(a.start) - 1, 1), a)

    def _match_some(
        self,
        events: EventBatch,
        counters: Int64,
        some: tuple[int, int],
        parents: tuple[int, int],
        by_events: bool = False,
    ) -> MatchBatch:
        """Match a range of the events with the tiles of a range of the parents; `by_events` overrules the model."""
        first, last = some
        d = len(self.arrays.begin)
        most = min(last - first, max(LAID_OUT // (14 * max(d, 1)), LANES), MOST_EVENTS)
        by_events = by_events or self._by_events(last - first)
        most_room = max(self.n_subscriptions, min(ROOM, (last - first) << 14))
        room = most_room
        precise = -(-len(self.arrays.start) // TILE) if by_events else int(np.count_nonzero(self.arrays.inner))
        if precise:
            size = min(most, max(SETS // precise, 1))
        else:  # few matches: memory that is new costs more than these
            room = min(room, int((last - first) * (4 * self.matched + 64)))
            size = int(min(most, max(room / (2 * self.matched + 1), 1)))
        sets = size * precise
        runs = room_for(room, room, sets)
        values = events.arrays
        together = last - first > ALONE or self.matched > MUCH
        batch = _batch(most, self.arrays.edge_start if by_events else None, d) if together else None
        alone = _alone(self.arrays, len(values.column))
        parts = []
        while first < last:
            end = min(first + size, last)
            runs.used[:] = 0
            chosen = np.ones(end - first, bool)
            given = (chosen, values, parents, self.arrays)
            if batch is not None:
                before, most_verified = counters.copy(), self._most_candidates(end - first, parents)
                outcome = matching.match_batch((first, end), *given, batch, alone, most_verified, runs, counters)
                if outcome != MATCHED:
                    counters[:] = before
                if outcome == TOO_MANY:
                    parts.append(self._match_some(events, counters, (first, last), parents, by_events=True))
                    break
                done = outcome == MATCHED
            else:
                done = matching.match_alone(first, end, *given, alone, runs, counters)
            if not done:  # too many matches for the room: once more with more room or fewer events
                if room < most_room:
                    room = most_room
                    runs = room_for(room, room, sets)
                else:
                    size = max((end - first) // 8, 1)
                continue
            parts.append(listed(runs, end - first, self.arrays.id, self.arrays.id_start, self.n_subscriptions))
            first = end
        return parts[0] if len(parts) == 1 else MatchBatch.joined(parts)

    def alone(self) -> Callable[[EventBatch], Int32]:
        together = super().alone()
        as_batch = self.threads > 1 or self.matched > MUCH
        sparse_up_to = sparse.most_values(self.by_columns)
        if as_batch and sparse_up_to < 0:
            return together
        single = Single(
            self.arrays,
            self.by_columns,
            self._slots,
            sparse_up_to,
            self._worth,
            columns_for(1, len(self.by_columns.pair_start) - 2),
            _alone(self.arrays, 0),
            room_for(self.n_subscriptions, 1, 0),
            np.ones(1, bool),
            np.zeros(2, np.int64),
            np.zeros(len(COUNTERS), np.int64),
        )
        match = one_event(matching.match_single, ArraysHandle(single))
        if as_batch:
            return lambda event: together(event) if len(event.column) > sparse_up_to else match(event)
        return match

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A vector that crosses the border of a cache line takes two loads, and unpickled arrays begin anywhere."""
        arrays = state["arrays"]
        if arrays.words.ctypes.data % 64:
            words = aligned(len(arrays.words), np.uint64)
            words[:] = arrays.words
            arrays = arrays._replace(words=words)
        self.__dict__.update(state | {"arrays": arrays})
        self.read_only()


def _batch(most: int, edge_start: Int64 | None, d: int) -> Batch:
    """Room for so many events in d columns; with rows of events if these are to be matched by them."""
    at_once = LANES if edge_start is None else AT_ONCE
    n = -(-most // at_once) * at_once
    return Batch(
        cells=aligned(d * n, np.uint16),
        own_cells=np.zeros(n * d, np.uint16),
        offsets=np.zeros(n * d, np.uint16),
        values=np.full(n * d, np.nan),
        valid=np.zeros(n // LANES, np.uint64),
        passing=np.zeros(n // LANES, np.uint64),
        parents=np.zeros(n // LANES, np.uint64),
        passed=np.zeros(n + 4, np.int32),
        passed_before=np.zeros(n + 4, np.int32),
        found=aligned((n + 4) * WORDS, np.uint64),
        found_event=np.zeros(n + 4, np.int32),
        candidate=np.empty(CANDIDATES_AT_ONCE + TILE, np.uint64),
        in_doubt=np.empty(CANDIDATES_AT_ONCE + TILE, np.uint64),
        below=aligned(0 if edge_start is None else dense.rows(edge_start) * WORDS, np.uint64),
        left=aligned(0 if edge_start is None else TILE * WORDS, np.uint64),
        turned=np.empty(64, np.uint64),
    )


def _alone(arrays: Arrays, values: int) -> AloneRoom:
    d = len(arrays.begin)
    return AloneRoom(
        np.zeros(d, np.int64),
        np.zeros(d, np.int64),
        np.empty(values, np.uint16),
        np.empty(len(arrays.local), np.int32),
        np.empty(2 * WORDS, np.uint64),
        np.empty(CANDIDATES_AT_ONCE + TILE, np.int32),
    )


def build(
    table: SubscriptionTable, *, threads: int = 1, build_threads: int = 0, tile: int = TILE, fewest: int = 16
) -> Tiles:
    """`threads` match; `build_threads` build, as many as there are cores if 0. Raises MatchingError.

    `tile`: how many subscriptions a tile has at most. `fewest`: of a tile, must constrain a column that has rows there.
    """
    if threads < 1 or build_threads < 0 or not 1 <= tile <= TILE or fewest < 1:
        raise MatchingError(
            f"threads and fewest must be 1 or more, build_threads 0 or more, tile from 1 to {TILE}, "
            f"not threads = {threads}, fewest = {fewest}, build_threads = {build_threads}, tile = {tile}"
        )
    workers = build_threads or os.cpu_count() or 1
    d = table.n_columns
    unique = Unique.of(table, workers)
    quantiles = Quantiles.of(table)
    low_cell, high_cell = (quantiles.cells(table.column, bound, workers) for bound in (table.low, table.high))
    ranges = Ranges(
        *rows(unique.one, table.start, table.column, low_cell, high_cell, workers),
        n_cells=quantiles.n_cells,
        spread=quantiles.spread,
    )
    rank = unique.id[unique.id_start[:-1]]  # its least id
    clusters = _by_pivot(tiling(ranges.hulls(), rank, tile, workers))
    layout_kernel.sort_within(clusters.begin, clusters.order, rank)
    in_tiles = Ranges(
        *rows(clusters.order, ranges.start, ranges.column, ranges.low, ranges.high, workers),
        n_cells=quantiles.n_cells,
        spread=quantiles.spread,
    )
    one = unique.one[clusters.order]
    start, column, low, high = rows(one, table.start, table.column, table.low, table.high, workers)
    laid_out = Layout.of(in_tiles, clusters, fewest, (low, high), workers)
    parent, pivot_start = _parents(clusters.pivot, d)
    parent_test, tests = laid_out.tests_with(parent)

    side_by_side = np.empty(3 * len(column), np.uint16 if d <= 1 << 16 else np.int32)
    side_by_side[0::3], side_by_side[1::3], side_by_side[2::3] = column, in_tiles.low, in_tiles.high
    placed = laid_out.rows
    arrays = Arrays(
        edge_start=quantiles.edge_start,
        edge=quantiles.edge,
        begin=quantiles.begin,
        per_unit=quantiles.per_unit,
        first=quantiles.first,
        offset=laid_out.cells.coarse * np.uint16(WORDS),
        pivot_start=pivot_start,
        parent=parent,
        parent_test=parent_test,
        test=parent_test[-1] + offsets_of(laid_out.tests.n),
        test_column=tests[0],
        test_low=tests[1],
        test_width=tests[2],
        slot=clusters.begin,
        row=placed.begin,
        local=placed.local_end,
        row_column=placed.column,
        row_low=placed.low,
        row_shift=placed.shift,
        row_length=placed.length,
        row_at=placed.at,
        inner=placed.inner,
        words=laid_out.words,
        start=start.astype(np.int32) if len(column) < 1 << 29 else start,
        range=side_by_side,
        low=low,
        high=high,
        **_ids_of(unique, clusters.order),
    )
    matched = float(clusters.matched @ np.diff(unique.id_start))
    by_columns, dense_from = sparse.column_index(in_tiles.hulls()), dense.worth_from(laid_out.ns, arrays)
    return Tiles(arrays, by_columns, dense_from, table.n_subscriptions, matched, threads).read_only()


def _by_pivot(clusters: Tiling) -> Tiling:
    """The tiles in the order of their pivots, so that an event finds those of a column that it has in one place."""
    turn = np.argsort(clusters.pivot, kind="stable")
    length = np.diff(clusters.begin)[turn]
    begin = offsets_of(length)
    at = np.repeat(clusters.begin[turn] - begin[:-1], length) + np.arange(begin[-1])
    return Tiling(clusters.order[at], begin, clusters.pivot[turn], clusters.matched)


def _parents(pivot: Int32, d: int) -> tuple[Int64, Int64]:
    """The begins of families of tiles, and of the families of each pivot, from -1 on."""
    first = np.searchsorted(pivot, np.arange(-1, d + 1))
    sizes = -(-np.diff(first) // FAMILY)
    start = offsets_of(sizes)
    of = np.repeat(np.arange(d + 1), sizes)
    begin = first[of] + (np.arange(start[-1]) - start[of]) * FAMILY
    return np.append(begin, len(pivot)).astype(np.int64), start


def _ids_of(unique: Unique, order: Int32) -> dict[str, Any]:
    length = np.diff(unique.id_start)[order]
    to = offsets_of(length)
    return {
        "id_start": to.astype(np.int32),
        "id": unique.id[np.repeat(unique.id_start[order] - to[:-1], length) + np.arange(to[-1])],
    }


STORED = (Tiles, Arrays, ColumnIndex)
