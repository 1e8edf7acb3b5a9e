"""The layout of tiles: the tests of each, the columns with rows, and the bits of these rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchers.algorithms.pool import over
from matchers.algorithms.tiles.clustering import Ranges, Tiling
from matchers.algorithms.tiles.kernels import layout as kernels
from matchers.contract.tables import Float64, Int32, Int64, offsets_of
from matchers.kernels.vectors import WORDS, aligned

MOST_ROWS = 128  # of a tile

Tests = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # column, low, width; int32, uint16, uint16


@dataclass(frozen=True, eq=False)
class Layout:
    """T tiles, R rows. The fields are those of `kernels.tiles.Arrays`, where they are told."""

    offset: NDArray[np.uint16]
    test: Int64  # [T + 1]
    tests: Tests  # [T, MOST_TESTS] each, of which the first test[t + 1] - test[t] count
    row: Int64  # [T + 1]
    local: Int64  # [T]
    row_column: Int32  # [R]
    row_low: NDArray[np.uint16]  # [R]
    row_shift: NDArray[np.uint8]  # [R]
    row_length: Int32  # [R]
    row_at: Int64  # [R]
    words: NDArray[np.uint64]
    precise: NDArray[np.bool_]  # [T]

    @classmethod
    def of(cls, ranges: Ranges, tiles: Tiling, fewest: int, threads: int) -> Layout:
        """The predicates in the order of the tiles."""
        n, d = len(tiles.pivot), len(ranges.n_cells)
        predicates = (ranges.start, ranges.column, ranges.low, ranges.high, ranges.n_cells)
        n_coarse, coarse = np.zeros(d, np.int64), np.zeros(int(ranges.n_cells.sum()), np.uint16)
        least = kernels.MOST_CELLS if tiles.mostly_broad else _least_cells(ranges)
        kernels.coarse_cells(_mean_reach(ranges), ranges.n_cells, ranges.spread, least, n_coarse, coarse)
        tests = _tests(n)
        most = min(d, MOST_ROWS)
        column, low, shift, length = (np.zeros((n, most), t) for t in (np.int32, np.uint16, np.uint8, np.int32))
        n_tests, n_rows, n_local = (np.zeros(n, np.int64) for _ in range(3))
        precise = np.zeros(n, bool)
        planned = (*tests, n_tests, column, low, shift, length, n_rows, n_local, precise)
        over(
            n,
            threads,
            lambda a, b: kernels.plan(
                a, b, fewest, least, tiles.begin, tiles.pivot, *predicates, ranges.spread, n_coarse, *planned
            ),
        )

        used = np.arange(most) < n_rows[:, None]
        column, low, shift, length = (array[used] for array in (column, low, shift, length))
        row = offsets_of(n_rows)
        local = row[:-1] + n_local
        row_at = offsets_of(length.astype(np.int64) * WORDS)
        words = aligned(int(row_at[-1]), np.uint64)
        placed = (row, local, column, low, shift, length, row_at[:-1].copy(), words)
        over(
            n,
            threads,
            lambda a, b: kernels.fill(a, b, tiles.begin, ranges.start, ranges.owner, *predicates[1:], coarse, *placed),
        )

        return cls(coarse * np.uint16(WORDS), offsets_of(n_tests), tests, *placed, precise)

    def tests_with(self, parent: Int64) -> tuple[Int64, Tests]:
        """[P + 1] where the tests of parents begin, which own the tiles parent[p] .. parent[p + 1]; and theirs and then
        all those of tiles, one behind the other."""
        n = np.zeros(len(parent) - 1, np.int64)
        joined = _tests(len(n))
        kernels.join_tests(parent, np.diff(self.test), *self.tests, *joined, n)
        of_parents, of_tiles = (np.arange(kernels.MOST_TESTS) < count[:, None] for count in (n, np.diff(self.test)))
        column, low, width = (
            np.concatenate((a[of_parents], b[of_tiles])) for a, b in zip(joined, self.tests, strict=True)
        )
        return offsets_of(n), (column, low, width)


@dataclass(frozen=True, eq=False)
class Ends:
    """Q ends of predicates of precise tiles. The fields are those of `kernels.tiles.Arrays`, where they are told."""

    unsure: NDArray[np.uint64]  # [8 * T]
    ends_at: Int64  # [R]
    ends: Int64  # [lists + 1]
    end_value: Float64  # [Q]
    end_slot: NDArray[np.uint16]  # [Q]

    @classmethod
    def of(
        cls,
        layout: Layout,
        slot: Int64,
        start: Int64,
        range: NDArray[Any],
        low: Float64,
        high: Float64,
        n_cells: Int64,
        threads: int,
    ) -> Ends:
        n = len(layout.precise)
        of_precise = np.repeat(layout.precise, np.diff(layout.row))
        lists = np.where(of_precise, layout.row_length.astype(np.int64), 0)
        at = offsets_of(lists)
        ends_at = np.where(of_precise, at[:-1], -1)
        unsure = np.zeros(n * WORDS, np.uint64)
        coarse = layout.offset // np.uint16(WORDS)
        given = (layout.precise, slot, start, range, low, high, n_cells, coarse, layout.row, layout.local)
        rows = (layout.row_column, layout.row_low, layout.row_shift, ends_at)
        counts = np.zeros(int(at[-1]), np.int64)
        none, no_slot = np.empty(0), np.empty(0, np.uint16)
        over(n, threads, lambda a, b: kernels.list_ends(a, b, *given, *rows, counts, True, none, no_slot, unsure))
        ends = offsets_of(counts)
        value, of = np.empty(int(ends[-1])), np.empty(int(ends[-1]), np.uint16)
        to = ends[:-1].copy()
        over(n, threads, lambda a, b: kernels.list_ends(a, b, *given, *rows, to, False, value, of, unsure))
        return cls(unsure, ends_at, ends, value, of)


def _tests(n: int) -> Tests:
    shape = (n, kernels.MOST_TESTS)
    return np.zeros(shape, np.int32), np.zeros(shape, np.uint16), np.zeros(shape, np.uint16)


def _least_cells(ranges: Ranges) -> int:
    """How many cells rows have at least: the fewer columns there are, of those that are often used, the more."""
    used = np.bincount(ranges.column, minlength=len(ranges.n_cells)) * 32 >= len(ranges.start) - 1
    fit = kernels.NEAR // (8 * WORDS) // max(int(used.sum()), 1)
    return int(np.clip(1 << max(fit, 1).bit_length() - 1, kernels.LEAST_CELLS, kernels.MOST_CELLS))


def _mean_reach(ranges: Ranges) -> NDArray[np.float64]:
    """[A]: of a column's cells, how many an interval covers, on average."""
    d = len(ranges.n_cells)
    cells = np.bincount(ranges.column, ranges.high - ranges.low + 1.0, minlength=d)
    return cells / np.maximum(np.bincount(ranges.column, minlength=d), 1) / np.maximum(ranges.n_cells, 1)
