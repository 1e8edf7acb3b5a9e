"""Quantile cells: a larger value never has a smaller cell, whatever the edges are."""

from __future__ import annotations

import numpy as np
import pytest

from matchers import SubscriptionTable
from matchers.algorithms.tiles.quantiles import FEW_EDGES, MOST_EDGES, Quantiles

pytestmark = pytest.mark.kernels

INF = np.inf
GREATEST = float(np.finfo(float).max)
NASTY = [-INF, -GREATEST, -1e308, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1e-310, 0.5, 1.0, 2.0**53, 2.0**53 + 2, 1e300]
NASTY = [*NASTY, 1e308, GREATEST, INF]

r = np.random.default_rng(5)
spread = r.random(1_500)
BOUNDS: dict[str, tuple[list[float], list[float]]] = {
    "no intervals": ([], []),
    "one value": ([3.0], [3.0]),
    "one value that is not whole": ([0.1], [0.1]),
    "zeros of both signs": ([-0.0, 0.0], [0.0, -0.0]),
    "everything": ([-INF], [INF]),
    "open ends": ([-INF, 2.5], [0.5, INF]),
    "codes": ([0.0, 1.0, 2.0, 7.0], [0.0, 1.0, 2.0, 9.0]),
    "codes from which on no next one is there": ([2.0**53, 2.0**60], [2.0**53, 2.0**60]),
    "denormals": ([0.0, 5e-324, 1e-323], [0.0, 1e-323, 1e-310]),
    "all doubles": ([-GREATEST, -1e308, 1e308], [-1e308, 1e308, GREATEST]),
    "the nasty ones": (NASTY, NASTY),
    "more ends than edges": (spread.tolist(), (spread + 0.3).tolist()),
    "narrow, so more edges": (spread.tolist(), (spread + 1e-9).tolist()),
    "skewed": ([*spread.tolist(), 1e300], [*(spread + 0.1).tolist(), 1e300]),
    "contradictions do not count": ([INF, 1.0], [-INF, 1.5]),
}


def of_column(low: list[float], high: list[float]) -> Quantiles:
    """Return the quantiles of the second column of three, so that columns without edges lie on both sides."""
    n = len(low)
    return Quantiles.of(
        SubscriptionTable(
            *(np.arange(n, dtype=np.int32), np.ones(n, np.int32), np.array(low, float), np.array(high, float), n, 3)
        )
    )


def cells(quantiles: Quantiles, values: np.ndarray, column: int = 1) -> np.ndarray:
    return quantiles.cells(np.full(len(values), column, np.int32), values).astype(int)


def around(low: list[float], high: list[float]) -> np.ndarray:
    """The bounds, their neighbours and the nasty ones, ascending."""
    bounds = np.array([*low, *high, *NASTY])
    with np.errstate(over="ignore"):
        return np.sort(np.concatenate([bounds, np.nextafter(bounds, INF), np.nextafter(bounds, -INF)]))


@pytest.mark.parametrize("name", BOUNDS)
def test_a_cell_is_one_more_than_how_many_edges_lie_at_or_below_the_value(name: str) -> None:
    quantiles = of_column(*BOUNDS[name])
    values = around(*BOUNDS[name])
    for c in range(3):
        edges = quantiles.edge[quantiles.edge_start[c] : quantiles.edge_start[c + 1]]
        assert edges[-1] == INF
        assert np.isfinite(edges[:-1]).all()
        assert (edges[1:] > edges[:-1]).all()
        expected = 1 + np.searchsorted(edges[:-1], values, side="right")
        assert cells(quantiles, values, c).tolist() == expected.tolist()
        assert expected.max() <= quantiles.n_cells[c] == len(edges)


@pytest.mark.parametrize("name", BOUNDS)
def test_a_value_within_an_interval_lies_in_one_of_its_cells(name: str) -> None:
    low, high = BOUNDS[name]
    quantiles, values = of_column(low, high), around(low, high)
    of = cells(quantiles, values)
    assert (np.diff(of) >= 0).all()
    assert of[0] >= 1
    for a, b, first, last in zip(low, high, *(cells(quantiles, np.array(x)) for x in (low, high)), strict=True):
        within = of[(a <= values) & (values <= b)]
        assert ((first <= within) & (within <= last)).all()


@pytest.mark.parametrize("name", BOUNDS)
def test_both_zeros_are_one_value(name: str) -> None:
    first, second = cells(of_column(*BOUNDS[name]), np.array([-0.0, 0.0]))
    assert first == second


@pytest.mark.parametrize("value", [0.25, 3.0, -1e300, 5e-324])
def test_a_value_that_many_ask_for_has_a_cell_of_its_own(value: float) -> None:
    low, high = [*spread.tolist(), *[value] * 300], [*(spread + 0.3).tolist(), *[value] * 300]
    quantiles = of_column(low, high)
    assert quantiles.n_cells[1] <= FEW_EDGES + 1
    below, own, above = cells(quantiles, np.array([np.nextafter(value, -INF), value, np.nextafter(value, INF)]))
    assert below < own < above


def test_the_end_of_a_code_is_the_begin_of_the_next() -> None:
    whole = [float(k) for k in range(20)]
    assert of_column(whole, whole).n_cells[1] == 22  # 0 .. 20, and below
    assert of_column(whole, [k + 0.5 for k in whole]).n_cells[1] == 41


def test_all_ends_are_edges_while_they_are_few() -> None:
    low, high = spread[:200].tolist(), (spread[:200] + 0.2).tolist()
    quantiles = of_column(low, high)
    expected = np.unique([*low, *np.nextafter(high, INF)])
    assert quantiles.edge[quantiles.edge_start[1] : quantiles.edge_start[2] - 1].tolist() == expected.tolist()


def test_narrow_predicates_make_more_cells_than_wide_ones_and_never_too_many() -> None:
    wide, narrow = (of_column(*BOUNDS[name]).n_cells[1] for name in ("more ends than edges", "narrow, so more edges"))
    assert wide <= FEW_EDGES + 1 < narrow <= MOST_EDGES + 1


def test_the_cells_do_not_depend_on_threads() -> None:
    quantiles = of_column(*BOUNDS["skewed"])
    values = around(*BOUNDS["skewed"])
    column = np.arange(len(values), dtype=np.int32) % 3
    assert quantiles.cells(column, values, 3).tolist() == quantiles.cells(column, values).tolist()
