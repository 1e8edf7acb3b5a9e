"""Cover intervals with dyadic cells, and count the subscriptions in the cells that an event's values visit.

The cells of one column are a binary tree: level l has 2^l cells, cell 1 is the whole domain, cell i divides into 2i and
2i + 1, and the ancestors of a value's cell at the finest level are its halves, i >> 1, i >> 2 .. 1:

    1 |               1               |     interval:        [==================]
    2 |       2       |       3       |     finest cells:     9  10 11 12 13 14
    4 |   4   |   5   |   6   |   7   |     cover:               5      6         within both ends, whole cells
    8 | 8 | 9 | 10| 11| 12| 13| 14| 15|     ends:             9              14   where values are compared

A value in a cell of the cover lies on the interval, so its subscriptions are counted without a look at a bound. Cells
ascend with the value (`cell_of`), so that holds for values as they are rounded, too. Ends lie in finest cells only.

    column c owns cells base[c] .. base[c] + 2^(level[c] + 1); cell i of them owns ids[start[i]] .. ids[start[i + 1]]
    column c owns ends from edge[c] on, one a finest cell; these own rows of the table, whose bounds decide

Cost: O(hits + M * levels + S / 8) per event of M values. Ids of one cell ascend, so counters are met in the order of
memory. They run down from `needed`, in the least type that holds it: a byte for up to 255 columns. Several values of
one column could count twice, so there, and only there, `stamp` remembers the last (event, column) that counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.cells import cell_of
from matchers.kernels.jit import inlined, kernel
from matchers.kernels.rows import has_several_values

BLOCK = 8  # `needed` is padded to as many counters, so that they make up whole words


@inlined
def cover(first: int, last: int, leaves: int, cells: Any) -> int:
    """Write the fewest cells that make up the finest ones first .. last of `leaves`; says how many.

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
    """The finest cells of both bounds. An open end lies beyond the outermost cell, for it bounds no value in there."""
    first = -1 if low == -np.inf else cell_of(low, begin, per_unit, leaves)
    last = leaves if high == np.inf else cell_of(high, begin, per_unit, leaves)
    return first, last


@kernel
def place(
    order: Any,
    subscription: Any,
    column: Any,
    low: Any,
    high: Any,
    begin: Any,
    per_unit: Any,
    leaves: Any,
    base: Any,
    edge: Any,
    start: Any,
    ids: Any,
    edge_start: Any,
    rows: Any,
    fill: bool,
) -> None:
    """Twice over all intervals: first count what each cell owns; then, with `fill`, write it.

    In an order by column, so that the cells of one stay in the cache. While writing, start[i] is where the next id of
    cell i goes.
    """
    cells = np.empty(128, np.int64)
    for r in order:
        if not low[r] <= high[r]:  # the empty interval
            continue
        c = column[r]
        first, last = ends(low[r], high[r], begin[c], per_unit[c], leaves[c])
        for k in range(cover(first + 1, last - 1, leaves[c], cells)):
            i = base[c] + cells[k]
            if fill:
                ids[start[i]] = subscription[r]
            start[i] += 1
        if first >= 0:
            if fill:
                rows[edge_start[edge[c] + first]] = r
            edge_start[edge[c] + first] += 1
        if last != first and last < leaves[c]:
            if fill:
                rows[edge_start[edge[c] + last]] = r
            edge_start[edge[c] + last] += 1


@kernel
def tama(
    event: int,
    offsets: Any,
    e_column: Any,
    e_value: Any,
    begin: Any,
    per_unit: Any,
    leaves: Any,
    base: Any,
    edge: Any,
    start: Any,
    ids: Any,
    edge_start: Any,
    rows: Any,
    subscription: Any,
    low: Any,
    high: Any,
    needed: Any,
    n_subscriptions: int,
    out: Any,
    counts: Any,
) -> int:
    n_columns = leaves.shape[0]
    left = np.empty_like(needed)
    stamp = np.zeros(needed.shape[0] if _several(event, offsets, e_column, n_columns) else 0, np.int64)
    m = 0
    while event < offsets.shape[0] - 1 and out.shape[0] - m >= n_subscriptions:
        left[:] = needed
        k = offsets[event]
        end = offsets[event + 1]
        while k < end:
            c = e_column[k]
            after = k + 1
            while after < end and e_column[after] == c:
                after += 1
            if c < n_columns:  # the batch may know more columns than the table
                group = after if after - k > 1 else 0
                for at in range(k, after):
                    value = e_value[at]
                    cell = cell_of(value, begin[c], per_unit[c], leaves[c])
                    for i in range(edge_start[edge[c] + cell], edge_start[edge[c] + cell + 1]):
                        r = rows[i]
                        s = subscription[r]
                        if low[r] <= value <= high[r]:
                            if group == 0:
                                left[s] -= 1
                            elif stamp[s] != group:
                                stamp[s] = group
                                left[s] -= 1
                    cell += leaves[c]
                    while cell > 0:
                        of = base[c] + cell
                        if group == 0:
                            for i in range(start[of], start[of + 1]):
                                left[np.uint32(ids[i])] -= 1  # unsigned, so that no index counts from the end
                        else:
                            for i in range(start[of], start[of + 1]):
                                s = ids[i]
                                if stamp[s] != group:
                                    stamp[s] = group
                                    left[s] -= 1
                        cell >>= 1
            k = after
        before = m
        m = _exhausted(left, out, m)
        counts[event] = m - before
        event += 1
    return event


@inlined
def _exhausted(left: Any, out: Any, m: int) -> int:
    """Write the subscriptions with nothing left to hit, eight bytes of counters at a time.

    x - 1 borrows from the highest bit of a counter that is 0, and of no other that had it clear: so
    (x - 1) & ~x & highest has a bit if, and only if, one is 0.
    """
    lanes = np.uint64(0xFFFFFFFFFFFFFFFF) // np.uint64((1 << 8 * left.itemsize) - 1)  # 1 in each counter
    highest = lanes << np.uint64(8 * left.itemsize - 1)
    words = left.view(np.uint64)
    per_word = 8 // left.itemsize
    for w in range(words.shape[0]):
        x = words[w]
        if (x - lanes) & ~x & highest:
            for s in range(w * per_word, (w + 1) * per_word):
                if left[s] == 0:
                    out[m] = s
                    m += 1
    return m


@kernel
def _several(event: int, offsets: Any, column: Any, n_columns: int) -> bool:
    """Whether an event from `event` on has several values in one column."""
    for e in range(event, offsets.shape[0] - 1):
        if has_several_values(column, offsets[e], offsets[e + 1], n_columns):
            return True
    return False
