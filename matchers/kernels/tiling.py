"""Lay out the tiles: what is tested, which columns have rows, and the bits in them (`kernels/tiles.py` reads them).

A tile asks first whether an event is within its hulls, then takes a row of 512 bits for each of some columns: bit j is
set where the cell of the event's value excludes subscription j. Which columns are worth a row is decided by what they
save: those that exclude most come first, and each must leave fewer subscriptions to verify than it costs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.jit import inlined, kernel
from matchers.kernels.vectors import WORDS

MOST_TESTS = 6
ROW_NS, VERIFY_NS = 0.6, 8.0  # measured; only their ratio matters
DOUBTFUL = 1 / 128  # of a tile left as candidates, from which on it pays to know which of them need no verification


@kernel
def plan(
    first_tile: int,
    last_tile: int,
    fewest: int,
    begin: Any,
    order: Any,
    pivot: Any,
    start: Any,
    column: Any,
    low: Any,
    high: Any,
    n_cells: Any,
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
    doubt: Any,
) -> None:
    """Fill row t of each array for the tiles given; `tests`, `rows` and `local_rows` say how many there are.

    A column that fewer than `fewest` constrain has no row, so that memory stays in proportion to the predicates.

    A row of a tested column is local: of the cells within the hull, 2 ** shift at a time. The others take the coarse
    cells that all tiles share, so that an event finds its place in them once.
    """
    d = n_cells.shape[0]
    count, total = np.zeros(d, np.int64), np.zeros(d)
    least, greatest = np.zeros(d, np.int64), np.zeros(d, np.int64)
    columns = np.empty(d, np.int64)
    excludes = np.empty(d)
    for t in range(first_tile, last_tile):
        m = begin[t + 1] - begin[t]
        n = 0
        for i in range(begin[t], begin[t + 1]):
            for p in range(start[order[i]], start[order[i] + 1]):
                c = column[p]
                if p > start[order[i]] and column[p - 1] == c:  # another interval of the same predicate
                    total[c] += high[p] - np.int64(low[p]) + 1
                else:
                    if count[c] == 0:
                        columns[n] = c
                        n += 1
                        total[c] = 0.0
                        least[c], greatest[c] = low[p], high[p]
                    count[c] += 1
                    total[c] += high[p] - np.int64(low[p]) + 1
                least[c] = min(least[c], np.int64(low[p]))
                greatest[c] = max(greatest[c], np.int64(high[p]))

        k = 0
        while k < MOST_TESTS:
            found, narrowest = -1, 1.0
            for j in range(n):
                c = columns[j]
                if count[c] == m and not _tested(test_column, t, k, c):
                    if k == 0 and c == pivot[t]:
                        found = c
                        break
                    width = (greatest[c] - least[c] + 1.0) / n_cells[c]
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
            where = greatest[c] - least[c] + 1.0 if _tested(test_column, t, k, c) else np.float64(n_cells[c])
            excludes[j] = count[c] / m * (1.0 - min(total[c] / count[c] / where, 1.0))
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
                    cells = _cells_for(total[c] / count[c] / span)
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
        doubt[t] = survive > DOUBTFUL * m and rows[t] > 0
        for j in range(n):
            count[columns[j]] = 0


@inlined
def _tested(test_column: Any, t: int, n: int, c: int) -> bool:
    for i in range(n):  # noqa: SIM110 - a loop that is compiled
        if test_column[t, i] == c:
            return True
    return False


@kernel
def _cells_for(share: float) -> int:
    """Into how many cells to divide a range of which predicates cover this share: four or more to each of them."""
    n = 16
    while n < 64 and n * share < 4.0:
        n *= 2
    return n


@kernel
def coarse_cells(share: Any, n_cells: Any, out: Any) -> None:
    """Of each column, from the mean share that predicates cover, how many coarse cells it has."""
    for c in range(out.shape[0]):
        out[c] = min(_cells_for(share[c]), n_cells[c])


@inlined
def coarse_of(cell: Any, n_cells: Any, coarse: Any) -> Any:
    """The coarse cell of a cell from 1 on; 0 is absence in both."""
    return 1 + (cell - 1) * coarse // n_cells


@kernel
def fill(
    first_tile: int,
    last_tile: int,
    begin: Any,
    order: Any,
    start: Any,
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
    doubt_at: Any,
    words: Any,
) -> None:
    """Set the bits of all rows of the tiles given.

    The rows of a column begin without the subscriptions that constrain it; each of these is excluded everywhere but
    where one of its intervals reaches. Places beyond the last subscription of a tile are excluded by its first rows.
    A doubt is where an interval begins or ends: only there a value may lie in the cell, and not on the interval. What a
    subscription asks of a column without rows is always in doubt, and the first rows say so in all cells.
    """
    place = np.full(n_cells.shape[0], -1, np.int64)
    for t in range(first_tile, last_tile):
        m = begin[t + 1] - begin[t]
        for r in range(row_begin[t], row_begin[t + 1]):
            place[row_column[r]] = r
        for j in range(m):
            s = order[begin[t] + j]
            w, bit = j >> 6, np.uint64(1) << np.uint64(j & 63)
            p = start[s]
            while p < start[s + 1]:
                c = column[p]
                r = place[c]
                if r < 0:
                    if row_begin[t] < row_begin[t + 1] and doubt_at[row_begin[t]] >= 0:
                        for k in range(row_length[row_begin[t]]):
                            words[doubt_at[row_begin[t]] + w + k * WORDS] |= bit
                    p += 1
                    continue
                local = r < local_end[t]
                at = row_at[r] + w
                for k in range(row_length[r]):
                    words[at + k * WORDS] |= bit
                while p < start[s + 1] and column[p] == c:
                    b, e = np.int64(low[p]), np.int64(high[p])
                    if local:
                        b, e = (b - row_low[r]) >> row_shift[r], (e - row_low[r]) >> row_shift[r]
                    else:
                        b, e = coarse_of(b, n_cells[c], coarse[c]), coarse_of(e, n_cells[c], coarse[c])
                    for k in range(b, e + 1):
                        words[at + k * WORDS] &= ~bit
                    if doubt_at[r] >= 0:
                        words[doubt_at[r] + w + b * WORDS] |= bit
                        words[doubt_at[r] + w + e * WORDS] |= bit
                    p += 1
        if row_begin[t + 1] > row_begin[t]:
            r = row_begin[t]
            for j in range(m, 64 * WORDS):
                for k in range(row_length[r]):
                    words[row_at[r] + k * WORDS + (j >> 6)] |= np.uint64(1) << np.uint64(j & 63)
        for r in range(row_begin[t], row_begin[t + 1]):
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
def fill_offsets(edge_start: Any, coarse: Any, out: Any) -> None:
    for c in range(coarse.shape[0]):
        n = edge_start[c + 1] - edge_start[c]
        for k in range(n):
            out[edge_start[c] + k] = coarse_of(k + 1, n, coarse[c]) * WORDS
