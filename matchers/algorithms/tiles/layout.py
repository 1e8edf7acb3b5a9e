"""The layout of tiles: the tests of each, the columns with rows, and the bits of these rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchers.algorithms.pool import over
from matchers.algorithms.tiles.clustering import Ranges, Tiling
from matchers.algorithms.tiles.kernels import layout_kernel
from matchers.algorithms.tiles.kernels.layout_kernel import Plan, Tests, TileCells, TileRows
from matchers.contract.tables import Float64, Int64, offsets_of
from matchers.kernels.vectors import WORDS, aligned

MOST_ROWS = 128  # of a tile
SMALL = 1 << 15  # subscriptions, up to which there are few candidates anyway

OneByOne = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # tests: column, low, width; int32, uint16, uint16


@dataclass(frozen=True, eq=False)
class Layout:
    """T tiles and R rows, as the kernels that match take them (`kernels.matching.Arrays`)."""

    cells: TileCells
    tests: Tests
    rows: TileRows
    words: NDArray[np.uint64]
    ns: float  # what all tiles take an event, on average

    @classmethod
    def of(cls, ranges: Ranges, tiles: Tiling, fewest: int, bounds: tuple[Float64, Float64], threads: int) -> Layout:
        """The predicates, and their low and high bounds, in the order of the tiles."""
        n, d = len(tiles.pivot), len(ranges.n_cells)
        n_coarse, coarse = np.zeros(d, np.int64), np.zeros(int(ranges.n_cells.sum()), np.uint16)
        least = layout_kernel.MOST_CELLS if tiles.mostly_broad else _least_cells(ranges)
        layout_kernel.coarse_cells(_mean_reach(ranges), ranges.n_cells, ranges.spread, least, n_coarse, coarse)
        cells = TileCells(ranges.n_cells, ranges.spread, n_coarse, coarse)
        predicates, tests = ranges.predicates, _tests(n)
        most = min(d, MOST_ROWS)
        column, low, shift, length = (np.zeros((n, most), t) for t in (np.int32, np.uint16, np.uint8, np.int32))
        n_rows, n_local = np.zeros(n, np.int64), np.zeros(n, np.int64)
        planned = Plan(column, low, shift, length, n_rows, n_local, np.zeros(n, bool), np.zeros(n))
        over(
            n,
            threads,
            lambda a, b: layout_kernel.plan(
                a, b, fewest, least, tiles.begin, tiles.pivot, predicates, cells, tests, planned
            ),
        )

        used = np.arange(most) < n_rows[:, None]
        column, low, shift, length = (array[used] for array in (column, low, shift, length))
        row = offsets_of(n_rows)
        outer = offsets_of(length.astype(np.int64) * WORDS)
        inner = np.where(planned.precise, np.diff(outer[row]), 0)
        before = offsets_of(inner)
        words = aligned(int(outer[-1] + before[-1]), np.uint64)
        at = outer[:-1] + np.repeat(before[:-1], n_rows)
        rows = TileRows(row, row[:-1] + n_local, column, low, shift, length, at, inner)
        over(n, threads, lambda a, b: layout_kernel.fill(a, b, tiles.begin, predicates, bounds, cells, rows, words))
        return cls(cells, tests, rows, words, float(planned.ns.sum()))

    def tests_with(self, parent: Int64) -> tuple[Int64, OneByOne]:
        """The tests of parents and then all those of tiles, one behind the other; before them [P + 1] where those of
        each parent begin. Parent p owns the tiles parent[p] .. parent[p + 1]."""
        joined = _tests(len(parent) - 1)
        layout_kernel.join_tests(parent, self.tests, joined)
        of_parents, of_tiles = (
            np.arange(layout_kernel.MOST_TESTS) < tests.n[:, None] for tests in (joined, self.tests)
        )
        column, low, width = (
            np.concatenate((a[of_parents], b[of_tiles])) for a, b in zip(joined[:3], self.tests[:3], strict=True)
        )
        return offsets_of(joined.n), (column, low, width)


def _tests(n: int) -> Tests:
    shape = (n, layout_kernel.MOST_TESTS)
    return Tests(
        np.zeros(shape, np.int32), np.zeros(shape, np.uint16), np.zeros(shape, np.uint16), np.zeros(n, np.int64)
    )


def _least_cells(ranges: Ranges) -> int:
    """The least number of cells of a row: the fewer columns are often used, the more."""
    used = np.bincount(ranges.column, minlength=len(ranges.n_cells)) * 32 >= len(ranges.start) - 1
    near = layout_kernel.NEAR if len(ranges.start) > SMALL else layout_kernel.NEAR * 2 // 3  # which is faster to build
    fit = near // (8 * WORDS) // max(int(used.sum()), 1)
    return int(np.clip(fit, layout_kernel.LEAST_CELLS, layout_kernel.MOST_CELLS))


def _mean_reach(ranges: Ranges) -> NDArray[np.float64]:
    """[A]: of a column's cells, how many an interval covers, on average."""
    d = len(ranges.n_cells)
    cells = np.bincount(ranges.column, ranges.high - ranges.low + 1.0, minlength=d)
    return cells / np.maximum(np.bincount(ranges.column, minlength=d), 1) / np.maximum(ranges.n_cells, 1)
