"""Clustering puts each subscription in one tile, leaves few slots empty, and ignores ids and threads."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from matchers import SubscriptionTable
from matchers.algorithms import tiles
from matchers.algorithms.tiles import TILE, clustering
from matchers.algorithms.tiles.clustering import BROAD, Ranges, Tiling, tiling
from matchers.algorithms.tiles.kernels import clustering_kernel
from matchers.algorithms.tiles.quantiles import Quantiles
from tests.unit.matchers.agreement import random_table, uniform_table


def ranges_of(table: SubscriptionTable) -> Ranges:
    quantiles = Quantiles.of(table)
    low, high = (quantiles.cells(table.column, bound) for bound in (table.low, table.high))
    return Ranges(table.start, table.column, low, high, quantiles.n_cells, quantiles.spread).hulls()


def tiled(table: SubscriptionTable, tile: int, threads: int = 1) -> Tiling:
    """Build tiles with a bound for broad subscriptions that suits small tables."""
    with patch.object(clustering, "BROAD", 0.05):
        return tiling(ranges_of(table), np.arange(table.n_subscriptions, dtype=np.int32), tile, threads)


def turned(table: SubscriptionTable, new: np.ndarray) -> SubscriptionTable:
    """Return the same subscriptions under other ids."""
    return SubscriptionTable.from_intervals(
        new[table.subscription],
        table.column,
        table.low,
        table.high,
        n_subscriptions=table.n_subscriptions,
        n_columns=table.n_columns,
    )


def consistent(n: int) -> SubscriptionTable:
    """A random table without contradictions, of which clustering never hears."""
    table = random_table(np.random.default_rng(n), n, 8)
    low, high = np.minimum(table.low, table.high), np.maximum(table.low, table.high)
    return SubscriptionTable.from_intervals(table.subscription, table.column, low, high, n_subscriptions=n, n_columns=8)


def at_one_place() -> SubscriptionTable:
    """Codes: hundreds of subscriptions at the very same place of their column."""
    r = np.random.default_rng(2)
    n = 600
    low = np.sort(r.choice([1.0, 2.0, 5.0], n, p=[0.7, 0.2, 0.1]))
    rows = np.concatenate([np.arange(n)] * 2), np.repeat([0, 1], n), np.concatenate([low, np.arange(n) % 7])
    return SubscriptionTable.from_intervals(*rows, rows[2], n_subscriptions=n, n_columns=2)


TABLES: dict[str, tuple[Any, int]] = {
    "random": (lambda: consistent(300), 8),
    "random, one by one": (lambda: consistent(60), 1),
    "of few columns": (lambda: uniform_table(600, 6, 4, 0.2), 16),
    "of many columns": (lambda: uniform_table(300, 200, 3, 0.15), 16),
    "at one place": (at_one_place, 8),
    "all of them broad": (lambda: uniform_table(100, 4, 2, 0.9), 16),
    "none": (lambda: uniform_table(0, 4, 2, 0.9), 16),
}


@pytest.mark.kernels
@pytest.mark.parametrize("name", TABLES)
def test_every_subscription_is_in_one_tile_and_no_tile_is_too_large(name: str) -> None:
    table, tile = TABLES[name][0](), TABLES[name][1]
    found = tiled(table, tile)
    assert np.sort(found.order).tolist() == list(range(table.n_subscriptions))
    sizes = np.diff(found.begin)
    assert found.begin[-1] == table.n_subscriptions
    assert ((sizes >= 1) & (sizes <= tile)).all()
    assert len(found.pivot) == len(sizes)


@pytest.mark.kernels
@pytest.mark.parametrize("name", TABLES)
def test_all_subscriptions_of_a_tile_constrain_its_pivot(name: str) -> None:
    table = TABLES[name][0]()
    found = tiled(table, TABLES[name][1])
    for t, pivot in enumerate(found.pivot.tolist()):
        for s in found.order[found.begin[t] : found.begin[t + 1]]:
            assert pivot < 0 or pivot in table.column[table.start[s] : table.start[s + 1]]
    if name.startswith("of "):
        assert (found.pivot >= 0).mean() > 0.5


@pytest.mark.kernels
def test_a_group_of_one_column_has_it_as_its_pivot() -> None:
    found = tiled(uniform_table(300, 2, 1, 0.005), 8)
    assert (found.pivot >= 0).mean() > 0.6


@pytest.mark.kernels
@pytest.mark.parametrize("name", TABLES)
def test_threads_decide_nothing(name: str) -> None:
    table, tile = TABLES[name][0](), TABLES[name][1]
    one, three = (tiled(table, tile, threads) for threads in (1, 3))
    assert one.order.tolist() == three.order.tolist()
    assert one.begin.tolist() == three.begin.tolist()
    assert one.pivot.tolist() == three.pivot.tolist()


def contents(matcher: tiles.Tiles, new: np.ndarray | None = None) -> list[list[int]]:
    """The subscriptions of each tile with a pivot, by their old ids."""
    arrays = matcher.arrays
    begin = arrays.parent[arrays.pivot_start[1]] if len(arrays.parent) > 1 else 0
    old = np.arange(matcher.n_subscriptions) if new is None else np.argsort(new)
    return sorted(
        sorted(old[arrays.id[arrays.id_start[a] : arrays.id_start[b]]].tolist())
        for a, b in zip(arrays.slot[begin:-1].tolist(), arrays.slot[begin + 1 :].tolist(), strict=True)
    )


@pytest.mark.kernels
@pytest.mark.parametrize("name", TABLES)
def test_ids_decide_nothing_but_the_order_within_a_tile(name: str) -> None:
    table, tile = TABLES[name][0](), TABLES[name][1]
    new = np.random.default_rng(9).permutation(table.n_subscriptions)
    one, other = (tiles.build(t, tile=tile, fewest=1) for t in (table, turned(table, new)))
    assert contents(one) == contents(other, new)


@pytest.mark.kernels
def test_broad_subscriptions_come_first_in_the_order_of_ids_and_without_a_pivot() -> None:
    narrow, broad = uniform_table(64, 4, 4, 0.05), uniform_table(64, 4, 1, 0.5)
    table = SubscriptionTable.from_intervals(
        np.concatenate([narrow.subscription * 2, broad.subscription * 2 + 1]),
        *(np.concatenate([getattr(t, name) for t in (narrow, broad)]) for name in ("column", "low", "high")),
        n_subscriptions=128,
        n_columns=4,
    )
    ranges = ranges_of(table)
    rank = np.random.default_rng(4).permutation(128).astype(np.int32)
    found = tiling(ranges, rank, 16)
    share = np.exp(np.bincount(ranges.owner, np.log(ranges.share), minlength=128))
    expected = np.flatnonzero(share >= BROAD)
    assert set(range(1, 128, 2)) <= set(expected.tolist()) != set(range(128))
    assert found.order[: len(expected)].tolist() == expected[np.argsort(rank[expected])].tolist()
    assert (found.pivot[: -(-len(expected) // 16)] == -1).all()


@pytest.mark.kernels
def test_sparse_subscriptions_of_many_columns_form_tiles_by_column() -> None:
    table = uniform_table(800, 400, 6, 0.2)
    matcher = tiles.build(table, tile=32)
    assert (np.diff(matcher.arrays.pivot_start)[1:] > 0).sum() > 20
    assert matcher.arrays.parent[matcher.arrays.pivot_start[1]] == 0  # none is asked of every event


@pytest.mark.kernels
def test_a_cut_moves_to_where_the_next_place_begins() -> None:
    table = at_one_place()
    ranges = ranges_of(table)
    order, opens = np.arange(600, dtype=np.int32), np.zeros(600, bool)
    clustering_kernel.cut(0, 600, 8, np.array([0, 1]), np.array([20.0, 4.0]), ranges.predicates, order, opens)
    assert sorted(order.tolist()) == list(range(600))
    begin = np.append(np.flatnonzero(opens), 600)
    mixed = sum(len(np.unique(table.low[2 * order[a:b]])) > 1 for a, b in pairwise(begin))
    assert mixed == 0


@pytest.mark.kernels
@pytest.mark.parametrize("n", [1, 3])
def test_more_tiles_admit_less_and_no_column_is_cut_more_often_than_it_has_places(n: int) -> None:
    width, places, slices = np.array([0.1, 0.3, 0.5])[:n], np.array([1e9, 3.0, 1.0])[:n], np.empty(n)
    last = 1.0
    for tiles_ in (2.0, 20.0, 2_000.0):
        admits = clustering_kernel.admitted(tiles_, n, width, places, slices)
        assert np.prod(width) <= admits < last
        assert (slices <= places).all()
        assert (slices >= 1.0).all()
        last = admits


def test_the_default_workload_fills_over_nine_tenths_of_the_slots() -> None:
    found = tiled(uniform_table(50_000, 20, 10, 0.3), TILE)
    assert 50_000 / (TILE * len(found.pivot)) > 0.9


def test_narrow_subscriptions_of_one_tile_lie_close_together() -> None:
    table = uniform_table(20_000, 5, 3, 0.02)
    found = tiled(table, 64)
    widths = []
    for t in np.flatnonzero(found.pivot >= 0):
        own = found.order[found.begin[t] : found.begin[t + 1]]
        at = np.flatnonzero(table.column == found.pivot[t])
        at = at[np.isin(table.subscription[at], own)]
        widths.append(table.high[at].max() - table.low[at].min())
    assert len(widths) > 0.9 * len(found.pivot)
    assert np.mean(widths) < 0.3
