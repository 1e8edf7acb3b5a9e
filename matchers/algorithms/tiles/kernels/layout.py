"""Lay out the tiles: their tests, the columns with rows, and the bits in them (`matching.py` reads them).

Subscriptions come in the order of the tiles: tile t owns begin[t] .. begin[t + 1].

A tile asks first whether an event is within its hulls, then takes a row of 512 bits for each of some columns: bit j is
set where the cell of the event's value excludes subscription j. Which columns are worth a row is decided by what they
save: those that exclude most come first, and each must leave fewer subscriptions to verify than it costs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.jit import inlined, kernel
from matchers.kernels.vectors import LANES, WORDS

SIDE = 15  # bit of a slot in a list of ends: it is a high one
MOST_TESTS = 6
WIDEST = 0.98  # share of the events that a hull may admit and still be worth a test
ROW_NS, VERIFY_NS = 0.6, 8.0  # measured; only their ratio matters
LEAST_CELLS, MOST_CELLS = 16, 64  # of a row
NEAR = 20 << 10  # bytes that the rows of a tile should take, so that they stay in the nearest cache
MANY_LEFT = 1 / 128  # of a tile that an event is left with as candidates, from which on the tile becomes precise


@kernel
def plan(
    first_tile: int,
    last_tile: int,
    fewest: int,
    least_cells: int,
    begin: Any,
    pivot: Any,
    start: Any,
    column: Any,
    low: Any,
    high: Any,
    n_cells: Any,
    spread: Any,
    coarse: Any,
    test_column: Any,
    test_low: Any,
    test_width: Any,
    tests: Any,
    row_column: Any,
    row_low: Any,
    row_shift: Any,
    row_length: Any,
    rows: Any,
    local_rows: Any,
    precise: Any,
) -> None:
    """Fill row t of each array for the tiles given; `tests`, `rows` and `local_rows` say how many there are.

    A column that fewer than `fewest` constrain has no row, so that memory stays in proportion to the predicates.

    A row of a tested column is local: of the cells within the hull, 2 ** shift at a time. The others take the coarse
    cells that all tiles share, so that an event finds its place in them once.
    """
    d = n_cells.shape[0]
    count, reach, share = np.zeros(d, np.int64), np.zeros(d), np.zeros(d)
    origin = np.zeros(d, np.int64)  # of a column in `spread`
    for c in range(1, d):
        origin[c] = origin[c - 1] + n_cells[c - 1] + 1
    least, greatest = np.zeros(d, np.int64), np.zeros(d, np.int64)
    columns = np.empty(d, np.int64)
    excludes = np.empty(d)
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
        tests[t] = k

        survive = np.float64(m)
        for j in range(n):
            c = columns[j]
            hull = spread[origin[c] + greatest[c]] - spread[origin[c] + least[c] - 1]
            admits = share[c] / count[c] / (hull if _tested(test_column, t, k, c) else 1.0)
            excludes[j] = count[c] / m * (1.0 - min(admits, 1.0))
        by = np.argsort(-excludes[:n], kind="mergesort")
        for turn in range(2):  # local rows first
            r = 0 if turn == 0 else rows[t]
            for j in by:
                c = columns[j]
                local = _tested(test_column, t, k, c)
                if count[c] < fewest or r >= row_column.shape[1] or local != (turn == 0):
                    continue
                if survive * excludes[j] * VERIFY_NS < ROW_NS:
                    continue
                survive *= 1.0 - excludes[j]
                row_column[t, r] = c
                if local:
                    span = greatest[c] - least[c] + 1
                    cells = _cells_for(reach[c] / count[c] / span, least_cells)
                    shift = 0
                    while (span - 1) >> shift >= cells:
                        shift += 1
                    row_low[t, r], row_shift[t, r] = least[c], shift
                    row_length[t, r] = ((span - 1) >> shift) + 1
                else:
                    row_length[t, r] = coarse[c] + 1
                r += 1
            rows[t] = r
            if turn == 0:
                local_rows[t] = r
        precise[t] = survive > MANY_LEFT * m and rows[t] > 0
        for j in range(n):
            count[columns[j]] = 0


@inlined
def _tested(test_column: Any, t: int, n: int, c: int) -> bool:
    for i in range(n):  # noqa: SIM110 - a loop that is compiled
        if test_column[t, i] == c:
            return True
    return False


@kernel
def _cells_for(share: float, least: int) -> int:
    """Into how many cells to divide a range of which predicates cover this share: four or more to each of them."""
    n = least
    while n < MOST_CELLS and n * share < 4.0:
        n *= 2
    return n


@kernel
def coarse_cells(reach: Any, n_cells: Any, spread: Any, least: int, out: Any, coarse: Any) -> None:
    """Of each column, how many coarse cells it has, and in which of them, from 1 on, each of its cells lies.

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
    start: Any,
    owner: Any,
    column: Any,
    low: Any,
    high: Any,
    n_cells: Any,
    coarse: Any,
    row_begin: Any,
    local_end: Any,
    row_column: Any,
    row_low: Any,
    row_shift: Any,
    row_length: Any,
    row_at: Any,
    words: Any,
) -> None:
    """Set the bits of all rows of the tiles given.

    The rows of a column begin without the subscriptions that constrain it; each of these is excluded everywhere but
    where one of its intervals reaches. Places beyond the last subscription of a tile are excluded by its first rows.
    """
    place = np.full(n_cells.shape[0], -1, np.int64)
    origin = np.zeros(n_cells.shape[0], np.int64)  # of a column in `coarse`
    for c in range(1, n_cells.shape[0]):
        origin[c] = origin[c - 1] + n_cells[c - 1]
    for t in range(first_tile, last_tile):
        m, first = begin[t + 1] - begin[t], row_begin[t]
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
        for p in range(start[begin[t]], start[begin[t + 1]]):
            c = column[p]
            r = place[c]
            if r >= 0:
                b, e = np.int64(low[p]), np.int64(high[p])
                if r < local_end[t]:
                    b, e = (b - row_low[r]) >> row_shift[r], (e - row_low[r]) >> row_shift[r]
                else:
                    b, e = np.int64(coarse[origin[c] + b - 1]), np.int64(coarse[origin[c] + e - 1])
                j = owner[p] - begin[t]
                at, keep = row_at[r] + (j >> 6), ~(np.uint64(1) << np.uint64(j & 63))
                for k in range(b, e + 1):
                    words[at + k * WORDS] &= keep
        for r in range(first, row_begin[t + 1]):
            place[row_column[r]] = -1


@kernel
def join_tests(
    parent: Any, tests: Any, test_column: Any, test_low: Any, test_width: Any, column: Any, low: Any, width: Any, n: Any
) -> None:
    """What all tiles of a parent test in a column, the parent tests there: the hull of their hulls.

    parent[p] .. parent[p + 1] are its tiles; row p of column, low and width are filled and n[p] says how far.
    """
    for p in range(parent.shape[0] - 1):
        t0 = parent[p]
        for i in range(tests[t0]):
            c = test_column[t0, i]
            least, greatest = np.int64(test_low[t0, i]), np.int64(test_low[t0, i]) + np.int64(test_width[t0, i])
            shared = True
            for t in range(t0 + 1, parent[p + 1]):
                found = False
                for k in range(tests[t]):
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


@kernel
def list_ends(
    first_tile: int,
    last_tile: int,
    precise: Any,
    slot: Any,
    start: Any,
    range_: Any,
    low: Any,
    high: Any,
    n_cells: Any,
    coarse: Any,
    row_begin: Any,
    local_end: Any,
    row_column: Any,
    row_low: Any,
    row_shift: Any,
    ends_at: Any,
    n: Any,
    counting: bool,
    value: Any,
    of: Any,
    unsure: Any,
) -> None:
    """The ends of predicates in precise tiles by the cell of the row in which they lie, the low ones and the high ones.

    For the list of cell k of row r n[ends_at[r] + k] says how long it is if `counting`, else where its next end goes.
    A high end gets the other sign, and bit SIDE in its slot. `unsure` gets the bits of those subscriptions whose
    ends do not tell all: that have several intervals in a column, or constrain one without rows.
    """
    place = np.full(n_cells.shape[0], -1, np.int64)
    origin = np.zeros(n_cells.shape[0], np.int64)  # of a column in `coarse`
    for c in range(1, n_cells.shape[0]):
        origin[c] = origin[c - 1] + n_cells[c - 1]
    for t in range(first_tile, last_tile):
        if not precise[t]:
            continue
        for r in range(row_begin[t], row_begin[t + 1]):
            place[row_column[r]] = r
        for j in range(slot[t + 1] - slot[t]):
            u = slot[t] + j
            for i in range(start[u], start[u + 1]):
                c = range_[3 * i]
                r = place[c]
                several = (i > start[u] and range_[3 * i - 3] == c) or (i + 1 < start[u + 1] and range_[3 * i + 3] == c)
                if r < 0 or several:
                    unsure[t * WORDS + (j >> 6)] |= np.uint64(1) << np.uint64(j & 63)
                    continue
                b, e = np.int64(range_[3 * i + 1]), np.int64(range_[3 * i + 2])
                if r < local_end[t]:
                    b, e = (b - row_low[r]) >> row_shift[r], (e - row_low[r]) >> row_shift[r]
                else:
                    b, e = np.int64(coarse[origin[c] + b - 1]), np.int64(coarse[origin[c] + e - 1])
                for side in range(2):
                    bound = high[i] if side else low[i]
                    if bound != (np.inf if side else -np.inf):
                        at = ends_at[r] + (e if side else b)
                        if not counting:
                            value[n[at]], of[n[at]] = (-bound, j | 1 << SIDE) if side else (bound, j)
                        n[at] += 1
        for r in range(row_begin[t], row_begin[t + 1]):
            place[row_column[r]] = -1
