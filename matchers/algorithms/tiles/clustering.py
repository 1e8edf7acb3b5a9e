"""Order subscriptions so that as many events as possible reject a run of 512, a *tile*, as a whole.

1. Subscriptions that many events match cannot be rejected. They stay in the order of ids, in which they are listed.
2. Groups: the subscriptions that constrain the same few columns, those that help most. Each group is cut along its
   columns like a grid, so that the predicates of a tile lie close together in all of them
   (`kernels/clustering_kernel.py`).
   For given predicates a group of fewer columns has more subscriptions, one of more columns cuts finer; the number of
   columns is the one with which its tiles admit least.
3. What is left has no columns in common. Where rows reject most of it anyway it is put together as it comes; else, as
   with thousands of columns of which a subscription constrains ten, those with one column in common form small tiles.

All of it is decided by what the subscriptions are, not by their ids or by threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from matchers.algorithms.pool import as_they_come
from matchers.algorithms.tiles.kernels import clustering_kernel
from matchers.algorithms.tiles.kernels.predicates import PredicateLists
from matchers.algorithms.tiles.kernels.quantiles_kernel import by_column
from matchers.contract.tables import Int32, Int64, offsets_of

Bools = NDArray[np.bool_]

BROAD = 0.001  # share of the events, from which on a subscription is broad
FEW_SURVIVE = 8.0  # of a tile of what is left: rows do well enough there


@dataclass(frozen=True, eq=False)
class Ranges:
    """The predicates of S subscriptions as ranges of cells: subscription s owns start[s] .. start[s + 1]."""

    start: Int64  # [S + 1]
    column: Int32  # [P]
    low: NDArray[np.uint16]  # [P]
    high: NDArray[np.uint16]  # [P]
    n_cells: Int64  # [A]
    spread: NDArray[np.float64]  # `Quantiles.spread`

    @cached_property
    def share(self) -> NDArray[np.float32]:
        """[P]: of the events that have its column, the estimated share that hits a predicate."""
        at = (self.n_cells.cumsum() - self.n_cells + np.arange(len(self.n_cells)))[self.column]
        share: NDArray[np.float32] = (self.spread[at + self.high] - self.spread[at + self.low - 1]).astype(np.float32)
        return share

    def hulls(self) -> Ranges:
        """Return the hull of the ranges of each subscription and column."""
        new = np.ones(len(self.column), bool)
        new[1:] = (self.column[1:] != self.column[:-1]) | (self.owner[1:] != self.owner[:-1])
        if new.all():
            return self
        first = np.flatnonzero(new)
        last = np.append(first[1:], len(new)) - 1
        start = np.searchsorted(first, self.start)
        return Ranges(start, self.column[first], self.low[first], self.high[last], self.n_cells, self.spread)

    @cached_property
    def owner(self) -> Int32:
        """[P]: the subscription of each predicate."""
        return np.repeat(np.arange(len(self.start) - 1, dtype=np.int32), np.diff(self.start))

    @property
    def predicates(self) -> PredicateLists:
        """The predicates as kernels take them."""
        return PredicateLists(self.start, self.column, self.low, self.high, self.owner)


@dataclass(frozen=True, eq=False)
class Tiling:
    order: Int32  # [S] subscriptions, those of a tile side by side
    begin: Int64  # [T + 1] where tiles begin in it
    pivot: Int32  # [T] a column that all subscriptions of the tile constrain, the first to be tested; -1: none
    matched: NDArray[np.float64]  # [S] the estimated share of events that match a subscription

    @property
    def mostly_broad(self) -> bool:
        return bool(np.mean(self.matched >= BROAD) > 0.5) if len(self.matched) else False


def tiling(ranges: Ranges, rank: Int32, tile: int, threads: int = 1) -> Tiling:
    """`rank` [S] is the order of ids."""
    n = len(ranges.start) - 1
    d = len(ranges.n_cells)
    order = np.empty(n, np.int32)
    opens = np.zeros(n, bool)
    pivot = np.full(n, -1, np.int32)

    matched = np.empty(n)
    clustering_kernel.matched(ranges.start, ranges.share, matched)
    taken = matched >= BROAD
    broad = np.flatnonzero(taken)
    order[: len(broad)] = broad[np.argsort(rank[broad])]
    opens[: len(broad) : tile] = True

    count, narrowness = np.zeros(d, np.int64), np.zeros(d)
    clustering_kernel.count_columns(ranges.start, ranges.column, ranges.share, taken, count, narrowness)
    first = offsets_of(np.bincount(ranges.column, minlength=d))
    predicate = np.empty(len(ranges.column), np.int32)
    by_column(ranges.column, first, predicate)
    owner = ranges.owner[predicate]
    most = (n - len(broad)) // (2 * tile) + 1
    group_end = np.zeros(most, np.int64)
    group_columns = np.full((most, clustering_kernel.MOST_COLUMNS), -1, np.int64)
    group_slices = np.ones((most, clustering_kernel.MOST_COLUMNS))
    predicates, share = ranges.predicates, ranges.share
    columns = clustering_kernel.Columns(_places(ranges), count, narrowness, first, first[1:].copy(), owner, predicate)
    found = clustering_kernel.Groups(group_end, group_columns, group_slices)
    rest = order[len(broad) :]

    def cut(g: int) -> None:
        b, e = int(group_end[g - 1]) if g else 0, int(group_end[g])
        clustering_kernel.cut(b, e, tile, group_columns[g], group_slices[g], predicates, rest, opens[len(broad) :])
        pivot[len(broad) + b : len(broad) + e] = group_columns[g, 0]

    def groups() -> Iterator[Callable[[], None]]:
        known = 0
        while True:
            now = clustering_kernel.gather(tile, predicates, share, columns, taken, rest, found, known, n // 64 + 1)
            if now == known:
                return
            yield from (partial(cut, g) for g in range(known, now))
            known = now

    as_they_come(groups(), threads)

    done = len(broad) + int(group_end.max())
    left = np.flatnonzero(~taken)
    if len(left):
        kept = np.bincount(ranges.column[np.repeat(~taken, np.diff(ranges.start))], minlength=d)
        if _survivors(ranges, left, tile) > FEW_SURVIVE:
            by_column(ranges.column, first, predicate)
            owner = ranges.owner[predicate]
            ranked = np.argsort(-kept, kind="stable")
            ranked = ranked[kept[ranked] > 0]
            for least in (64, 8, 1):
                done = clustering_kernel.gather_few(least, tile, ranked, first, owner, taken, order, done, opens, pivot)
            left = np.flatnonzero(~taken)
        order[done:] = left
        opens[done::tile] = True
    begin = np.flatnonzero(opens)
    return Tiling(order, np.append(begin, n), pivot[begin], matched)


def _places(ranges: Ranges) -> NDArray[np.float64]:
    """[A]: at how many different cells predicates begin, at least 1."""
    found = np.zeros(int(ranges.n_cells.sum() + len(ranges.n_cells)) + 1, bool)
    origin = np.concatenate(([0], np.cumsum(ranges.n_cells + 1)))
    found[origin[ranges.column] + ranges.low] = True
    counts = np.concatenate(([0], np.cumsum(found)))
    places: NDArray[np.float64] = np.maximum(counts[origin[1:]] - counts[origin[:-1]], 1).astype(np.float64)
    return places


def _survivors(ranges: Ranges, left: NDArray[np.int64], tile: int) -> float:
    """The mean number of subscriptions of a tile that an event hits in all columns worth a row."""
    mine = np.zeros(len(ranges.start) - 1, bool)
    mine[left] = True
    of = np.repeat(mine, np.diff(ranges.start))
    d = len(ranges.n_cells)
    count = np.bincount(ranges.column[of], minlength=d) / len(left)
    excluded = np.bincount(ranges.column[of], 1.0 - ranges.share[of], minlength=d) / len(left)
    return float(tile * np.prod(1.0 - excluded[count >= 1 / 32]))
