"""Cover intervals with dyadic cells, and count the subscriptions in the cells that an event's values visit.

The cells of one column are a binary tree: level l has 2^l cells, cell 1 is the whole domain, cell i divides into 2i and
2i + 1, and the ancestors of a value's cell at the finest level are its halves, i >> 1, i >> 2 .. 1:

    1 |               1               |     interval:        [==================]
    2 |       2       |       3       |     finest cells:     9  10 11 12 13 14
    4 |   4   |   5   |   6   |   7   |     cover:               5      6         within both ends, whole cells
    8 | 8 | 9 | 10| 11| 12| 13| 14| 15|     ends:             9              14   where values are compared

A value in a cell of the cover lies on the interval, so the cell's subscriptions are counted without comparing bounds.
Cells ascend with the value (`cell_of`), so this also holds for rounded values. Ends lie in finest cells only; there the
bounds of the intervals are compared with the value.

Cost: O(hits + M * levels + S / 8) per event of M values. Ids of one cell ascend, so counters are visited in the order
of memory (`kernels/counting.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.cells import cell_of
from matchers.kernels.counting import count_hit, list_complete, restart, stamps
from matchers.kernels.events import Events
from matchers.kernels.jit import inlined, kernel


class Dyadic(NamedTuple):
    """The dyadic cells of A columns, down to the finest ones, of which a column has leaves[c]."""

    begin: Any  # [A] float64: least value of the domain
    per_unit: Any  # [A] float64: finest cells in a unit of the column's values
    leaves: Any  # [A] int64, powers of two
    base: Any  # [A] int64: cell i of column c is base[c] + i, 1 <= i < 2 * leaves[c]
    edge: Any  # [A] int64: finest cell i of column c, counted from 0, is edge[c] + i among the finest cells


class Contents(NamedTuple):
    """The contents of C cells, of which F are finest."""

    start: Any  # [C + 1] int64: cell i has the subscriptions ids[start[i]] .. ids[start[i + 1]] in its cover
    ids: Any  # int32, ascending within a cell
    edge_start: Any  # [F + 1] int64: in finest cell i end the intervals rows[edge_start[i]] .. rows[edge_start[i + 1]]
    rows: Any  # int32


class Visited(NamedTuple):
    """The contents of cells for matching: lists with ends of their own, so that there may be room between them."""

    start: Any  # [C] int64
    end: Any  # [C] int64: cell i has ids[start[i]] .. ids[end[i]]
    ids: Any  # int32
    edge_start: Any  # [F] int64
    edge_end: Any  # [F] int64
    rows: Any  # int32


class Intervals(NamedTuple):
    """The I intervals of the table."""

    subscription: Any  # [I] int32
    low: Any  # [I] float64
    high: Any  # [I] float64


@inlined
def cover(first: int, last: int, leaves: int, cells: Any) -> int:
    """Write the fewest cells that make up the finest cells first .. last of `leaves`; returns their number.

    Going up from both ends, a cell is taken where its parent reaches beyond the end: one a level and end, so two.
    """
    n = 0
    i = leaves + first
    j = leaves + last + 1
    while i < j:
        if i & 1:
            cells[n] = i
            n += 1
            i += 1
        if j & 1:
            j -= 1
            cells[n] = j
            n += 1
        i >>= 1
        j >>= 1
    return n


@inlined
def ends(low: float, high: float, begin: float, per_unit: float, leaves: int) -> Any:
    """The finest cells of both bounds; an open end is outside of the domain, so that no cell compares with it."""
    first = -1 if low == -np.inf else cell_of(low, begin, per_unit, leaves)
    last = leaves if high == np.inf else cell_of(high, begin, per_unit, leaves)
    return first, last


@kernel
def place(order: Any, column: Any, intervals: Intervals, cells: Dyadic, contents: Contents, fill: bool) -> None:
    """Run twice over all intervals: first count the contents of each cell; then, with `fill`, write them.

    `order` [I] is by column, so that the cells of one column stay in the cache. While writing, start[i] is where the
    next id of cell i goes.
    """
    subscription, low, high = intervals
    begin, per_unit, leaves, base, edge = cells
    start, ids, edge_start, rows = contents
    covering = np.empty(128, np.int64)
    for r in order:
        if not low[r] <= high[r]:  # the empty interval
            continue
        c = column[r]
        first, last = ends(low[r], high[r], begin[c], per_unit[c], leaves[c])
        for k in range(cover(first + 1, last - 1, leaves[c], covering)):
            put(subscription[r], base[c] + covering[k], start, ids, fill)
        if first >= 0:
            put(r, edge[c] + first, edge_start, rows, fill)
        if last != first and last < leaves[c]:
            put(r, edge[c] + last, edge_start, rows, fill)


@inlined
def put(x: int, i: int, start: Any, contents: Any, fill: bool) -> None:
    if fill:
        contents[start[i]] = x
    start[i] += 1


@kernel
def tama(
    event: int,
    events: Events,
    cells: Dyadic,
    visited: Visited,
    intervals: Intervals,
    needed: Any,
    n_subscriptions: int,
    out: Any,
    counts: Any,
) -> int:
    offsets, e_column, e_value = events
    begin, per_unit, leaves, base, edge = cells
    start, after, ids, edge_start, edge_after, rows = visited
    subscription, low, high = intervals
    n_columns = leaves.shape[0]
    left = np.empty_like(needed)
    stamp = stamps(event, offsets, e_column, n_columns, needed.shape[0])
    m = 0
    while event < offsets.shape[0] - 1 and out.shape[0] - m >= n_subscriptions:
        restart(left, needed)
        k = offsets[event]
        end = offsets[event + 1]
        while k < end:
            c = e_column[k]
            next_column = k + 1
            while next_column < end and e_column[next_column] == c:
                next_column += 1
            if c < n_columns:  # the batch may know more columns than the table
                group = next_column if next_column - k > 1 else 0
                for at in range(k, next_column):
                    value = e_value[at]
                    leaf = cell_of(value, begin[c], per_unit[c], leaves[c])
                    for i in range(edge_start[edge[c] + leaf], edge_after[edge[c] + leaf]):
                        r = rows[i]
                        if low[r] <= value <= high[r]:
                            count_hit(subscription[r], group, stamp, left)
                    cell = leaves[c] + leaf
                    while cell > 0:
                        for i in range(start[base[c] + cell], after[base[c] + cell]):
                            count_hit(np.uint32(ids[i]), group, stamp, left)  # unsigned: no index counts from the end
                        cell >>= 1
            k = next_column
        before = m
        m = list_complete(left, out, m)
        counts[event] = m - before
        event += 1
    return event
