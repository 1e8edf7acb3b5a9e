"""Lay out the tiles: their tests, the columns with rows, and the bits in them (`matching.py` reads them).

Subscriptions come in the order of the tiles: tile t owns begin[t] .. begin[t + 1].

A tile first tests whether an event is within its hulls, then takes a row of 512 bits for each of some columns: bit j is
set where the cell of the event's value excludes subscription j. Which columns are worth a row is decided by what they
save: those that exclude most come first, and each must leave fewer subscriptions to verify than it costs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.algorithms.tiles.kernels.predicates import PredicateLists
from matchers.kernels.jit import inlined, inner, kernel
from matchers.kernels.vectors import LANES, WORDS

MOST_TESTS = 6
WIDEST = 0.98  # share of the events that a hull may admit and still be worth a test
ROW_NS, VERIFY_NS = 0.6, 8.0  # measured; only their ratio matters
CANDIDATE_NS = 32.0  # where many match: with its part of the list
LEAST_CELLS, MOST_CELLS = 16, 64  # of a row
NEAR = 30 << 10  # bytes that the rows of a tile should take, so that they mostly stay in the nearest cache
MANY_LEFT = 1 / 128  # of a tile that an event is left with as candidates, from which on the tile becomes precise


class TileCells(NamedTuple):
    """The E cells of A columns, and the coarse ones that all tiles share."""

    n: Any  # [A] int64: of each column, without the cell of absence
    spread: Any  # [E + A] float64: `Quantiles.spread`
    n_coarse: Any  # [A] int64
    coarse: Any  # [E] uint16: in which coarse cell of its column, from 1 on, a cell lies


class Tests(NamedTuple):
    """The tests of T tiles or parents: t passes an event whose cell in column[t, k] is one of width + 1 from low on."""

    column: Any  # [T, MOST_TESTS] int32
    low: Any  # [T, MOST_TESTS] uint16
    width: Any  # [T, MOST_TESTS] uint16
    n: Any  # [T] int64: how many there are


class Plan(NamedTuple):
    """The rows of T tiles, of each in the first places of up to C, the local ones first."""

    column: Any  # [T, C] int32
    low: Any  # [T, C] uint16: the first cell of a local row
    shift: Any  # [T, C] uint8: a local row takes 2^shift cells together
    length: Any  # [T, C] int32: how many cells the row has
    n: Any  # [T] int64: how many rows there are
    n_local: Any  # [T] int64: how many of them are local
    precise: Any  # [T] bool: it gets inner rows
    ns: Any  # [T] float64: what the tile takes an event, on average


class TileRows(NamedTuple):
    """R rows of T tiles; tile t owns begin[t] .. begin[t + 1], of which those before local_end[t] are local."""

    begin: Any  # [T + 1] int64
    local_end: Any  # [T] int64
    column: Any  # [R] int32, and so on as in `Plan`
    low: Any  # [R] uint16
    shift: Any  # [R] uint8
    length: Any  # [R] int32
    at: Any  # [R] int64: where its bits begin
    inner: Any  # [T] int64: how far behind these the bits of its inner row begin; 0: the tile has none


@kernel
def plan(
    first_tile: int,
    last_tile: int,
    fewest: int,
    least_cells: int,
    begin: Any,
    pivot: Any,
    predicates: PredicateLists,
    cells: TileCells,
    tests: Tests,
    rows: Plan,
) -> None:
    """Fill `tests` and `rows` of the tiles given; begin [T + 1] int64 and pivot [T] int32 are those of a `Tiling`.

    A column that fewer than `fewest` constrain has no row, so that memory stays in proportion to the predicates.

    A row of a tested column is local: of the cells within the hull, 2 ** shift at a time. The others take the coarse
    cells that all tiles share, so that an event finds its place in them once.
    """
    start, column, low, high, _ = predicates
    n_cells, spread, n_coarse, _ = cells
    test_column, test_low, test_width, n_tests = tests
    row_column, row_low, row_shift, row_length, n_rows, n_local, precise, ns = rows
    d = n_cells.shape[0]
    count, reach, share = np.zeros(d, np.int64), np.zeros(d), np.zeros(d)
    origin = np.zeros(d, np.int64)  # of a column in `spread`
    for c in range(1, d):
        origin[c] = origin[c - 1] + n_cells[c - 1] + 1
    least, greatest = np.zeros(d, np.int64), np.zeros(d, np.int64)
    columns = np.empty(d, np.int64)
    excludes, by = np.empty(d), np.empty(d, np.int64)
    for t in range(first_tile, last_tile):
        m = begin[t + 1] - begin[t]
        n = 0
        for i in range(begin[t], begin[t + 1]):
            for p in range(start[i], start[i + 1]):
                c = column[p]
                if p == start[i] or column[p - 1] != c:  # else another interval of the same predicate
                    if count[c] == 0:
                        columns[n] = c
                        n += 1
                        reach[c], share[c] = 0.0, 0.0
                        least[c], greatest[c] = low[p], high[p]
                    count[c] += 1
                reach[c] += np.int64(high[p]) - np.int64(low[p]) + 1
                share[c] += spread[origin[c] + high[p]] - spread[origin[c] + low[p] - 1]
                least[c] = min(least[c], np.int64(low[p]))
                greatest[c] = max(greatest[c], np.int64(high[p]))

        k = 0
        while k < MOST_TESTS:
            found, narrowest = -1, WIDEST
            for j in range(n):
                c = columns[j]
                if count[c] == m and not _tested(test_column, t, k, c):
                    if k == 0 and c == pivot[t]:
                        found = c
                        break
                    width = spread[origin[c] + greatest[c]] - spread[origin[c] + least[c] - 1]
                    if width < narrowest or (width == narrowest and found >= 0 and c < found):
                        found, narrowest = c, width
            if found < 0:
                break
            test_column[t, k], test_low[t, k], test_width[t, k] = found, least[found], greatest[found] - least[found]
            k += 1
        n_tests[t] = k

        survive = np.float64(m)
        for j in range(n):
            c = columns[j]
            hull = spread[origin[c] + greatest[c]] - spread[origin[c] + least[c] - 1]
            admits = share[c] / count[c] / (hull if _tested(test_column, t, k, c) else 1.0)
            excludes[j] = count[c] / m * (1.0 - min(admits, 1.0))
        n_frequent = _by_exclusion(n, fewest, columns, count, excludes, by)
        for turn in range(2):  # local rows first
            r = 0 if turn == 0 else n_rows[t]
            for j in by[:n_frequent]:
                c = columns[j]
                local = _tested(test_column, t, k, c)
                if r >= row_column.shape[1] or local != (turn == 0):
                    continue
                if survive * excludes[j] * VERIFY_NS < ROW_NS:
                    continue
                survive *= 1.0 - excludes[j]
                row_column[t, r] = c
                if local:
                    span = greatest[c] - least[c] + 1
                    most = _cells_for(reach[c] / count[c] / span, least_cells)
                    shift = 0
                    while (span - 1) >> shift >= most:
                        shift += 1
                    row_low[t, r], row_shift[t, r] = least[c], shift
                    row_length[t, r] = ((span - 1) >> shift) + 1
                else:
                    row_length[t, r] = n_coarse[c] + 1
                r += 1
            n_rows[t] = r
            if turn == 0:
                n_local[t] = r
        precise[t] = survive > MANY_LEFT * m and n_rows[t] > 0
        ns[t] = (1 + int(precise[t])) * n_rows[t] * ROW_NS + survive * CANDIDATE_NS
        for i in range(k):
            c = test_column[t, i]
            ns[t] *= spread[origin[c] + greatest[c]] - spread[origin[c] + least[c] - 1]
        for j in range(n):
            count[columns[j]] = 0


@inlined
def _by_exclusion(n: int, fewest: int, columns: Any, count: Any, excludes: Any, by: Any) -> int:
    """Write the places below n of columns that `fewest` or more constrain, those first that exclude most; returns how
    many there are. By insertion: a sort of numba's takes a second to compile, and there are few."""
    m = 0
    for j in range(n):
        if count[columns[j]] >= fewest:
            i = m
            while i > 0 and excludes[by[i - 1]] < excludes[j]:
                by[i] = by[i - 1]
                i -= 1
            by[i] = j
            m += 1
    return m


@inlined
def _tested(test_column: Any, t: int, n: int, c: int) -> bool:
    for i in range(n):  # noqa: SIM110 - a loop that is compiled
        if test_column[t, i] == c:
            return True
    return False


@inner
def _cells_for(share: float, least: int) -> int:
    """Into how many cells to divide a range of which predicates cover this share: four or more to each of them."""
    n = least
    while n < MOST_CELLS and n * share < 4.0:
        n = min(2 * n, MOST_CELLS)
    return n


@kernel
def coarse_cells(reach: Any, n_cells: Any, spread: Any, least: int, out: Any, coarse: Any) -> None:
    """Fill out [A] int64, the number of coarse cells of each column, and coarse [E] uint16, as in `Cells`.

    `reach` is the mean share of the cells that a predicate covers. A coarse cell holds neighbours of about the same
    share of events together. A cell with a large share, where few bounds lie, is alone in its own, so that there is no
    doubt within it; what is left of the coarse cells is then for the others.
    """
    at = 0  # of a column in `coarse`; that in `spread` is c more
    for c in range(n_cells.shape[0]):
        n = n_cells[c]
        most = min(_cells_for(reach[c], least), n)
        parts = 16 * most
        while True:
            found, last = 0, -1
            for k in range(n):
                middle = 0.5 * (spread[at + c + k] + spread[at + c + k + 1])
                part = k if most == n else int(middle * parts)
                found += part != last
                last = part
                coarse[at + k] = found
            if found <= most:
                break
            parts = parts * 7 // 8
        out[c] = found
        at += n


@kernel
def fill(
    first_tile: int,
    last_tile: int,
    begin: Any,
    predicates: PredicateLists,
    bounds: Any,
    cells: TileCells,
    rows: TileRows,
    words: Any,
) -> None:
    """Set the bits of all rows of the tiles given, in `words`, uint64; begin [T + 1] int64 is that of a `Tiling`.

    The rows of a column begin without the subscriptions that constrain it; each of these is excluded everywhere but
    where one of its intervals reaches. Places beyond the last subscription of a tile are excluded by its first rows.

    The same for inner rows, where an interval reaches only the cells between those of its `bounds`, [P] float64 the low
    ones and [P] the high ones. A subscription that constrains a column without rows is in doubt in the first of them.
    """
    start, column, low, high, owner = predicates
    row_begin, local_end, row_column, row_low, row_shift, row_length, row_at, inners = rows
    low_bound, high_bound = bounds
    coarse = cells.coarse
    place = np.full(cells.n.shape[0], -1, np.int64)
    origin = np.zeros(cells.n.shape[0], np.int64)  # of a column in `coarse`
    for c in range(1, cells.n.shape[0]):
        origin[c] = origin[c - 1] + cells.n[c - 1]
    in_doubt = np.empty(WORDS, np.uint64)
    for t in range(first_tile, last_tile):
        m, first, inner = begin[t + 1] - begin[t], row_begin[t], inners[t]
        in_doubt[:] = np.uint64(0)
        constrain = np.zeros((row_begin[t + 1] - first) * WORDS, np.uint64)
        for r in range(first, row_begin[t + 1]):
            place[row_column[r]] = r
        for p in range(start[begin[t]], start[begin[t + 1]]):
            r = place[column[p]]
            if r >= 0:
                j = owner[p] - begin[t]
                constrain[(r - first) * WORDS + (j >> 6)] |= np.uint64(1) << np.uint64(j & 63)
        for j in range(m, LANES * WORDS if len(constrain) else m):
            constrain[j >> 6] |= np.uint64(1) << np.uint64(j & 63)
        for r in range(first, row_begin[t + 1]):
            for k in range(row_length[r]):
                for w in range(WORDS):
                    words[row_at[r] + k * WORDS + w] = constrain[(r - first) * WORDS + w]
                    if inner > 0:
                        words[row_at[r] + inner + k * WORDS + w] = constrain[(r - first) * WORDS + w]
        for p in range(start[begin[t]], start[begin[t + 1]]):
            c = column[p]
            r = place[c]
            j = owner[p] - begin[t]
            bit = np.uint64(1) << np.uint64(j & 63)
            if r < 0:
                in_doubt[j >> 6] |= bit
            else:
                b = _row_cell(low[p], r, c, r < local_end[t], row_low, row_shift, coarse, origin)
                e = _row_cell(high[p], r, c, r < local_end[t], row_low, row_shift, coarse, origin)
                at = row_at[r] + (j >> 6)
                for k in range(b, e + 1):
                    words[at + k * WORDS] &= ~bit
                if inner > 0:
                    b += int(low_bound[p] != -np.inf)
                    e -= int(high_bound[p] != np.inf)
                    for k in range(b, e + 1):
                        words[at + inner + k * WORDS] &= ~bit
        if inner > 0:
            for k in range(row_length[first]):
                for w in range(WORDS):
                    words[row_at[first] + inner + k * WORDS + w] |= in_doubt[w]
        for r in range(first, row_begin[t + 1]):
            place[row_column[r]] = -1


@inlined
def _row_cell(cell: Any, r: int, c: int, local: bool, row_low: Any, row_shift: Any, coarse: Any, origin: Any) -> Any:
    """The cell of row r in which a cell of its column c lies."""
    if local:
        return (np.int64(cell) - row_low[r]) >> row_shift[r]
    return np.int64(coarse[origin[c] + np.int64(cell) - 1])


@kernel
def join_tests(parent: Any, tests: Tests, joined: Tests) -> None:
    """Test in a parent each column that all its tiles test: the hull of their hulls there.

    Parent p has the tiles parent[p] .. parent[p + 1]; joined.n is 0 before.
    """
    test_column, test_low, test_width, n_tests = tests
    column, low, width, n = joined
    for p in range(parent.shape[0] - 1):
        t0 = parent[p]
        for i in range(n_tests[t0]):
            c = test_column[t0, i]
            least, greatest = np.int64(test_low[t0, i]), np.int64(test_low[t0, i]) + np.int64(test_width[t0, i])
            shared = True
            for t in range(t0 + 1, parent[p + 1]):
                found = False
                for k in range(n_tests[t]):
                    if test_column[t, k] == c:
                        found = True
                        least = min(least, np.int64(test_low[t, k]))
                        greatest = max(greatest, np.int64(test_low[t, k]) + np.int64(test_width[t, k]))
                shared &= found
            if shared:
                column[p, n[p]], low[p, n[p]], width[p, n[p]] = c, least, greatest - least
                n[p] += 1


@kernel
def sort_within(begin: Any, order: Any, rank: Any) -> None:
    """Order the subscriptions of each tile by rank, so that matches of a tile are listed in order."""
    for t in range(begin.shape[0] - 1):
        keys = np.empty(begin[t + 1] - begin[t], np.int64)
        for i in range(keys.shape[0]):
            s = order[begin[t] + i]
            keys[i] = (np.int64(rank[s]) << 32) | s
        keys.sort()
        for i in range(keys.shape[0]):
            order[begin[t] + i] = keys[i] & 0xFFFFFFFF
