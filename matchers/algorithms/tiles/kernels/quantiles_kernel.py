"""Find the quantile cell of a value in its column (`tiles/quantiles.py`).

The line between the first and the last edge of a column is divided into buckets of equal width, and each has the
edges within it. So a value is found by one multiplication and, where values are spread evenly, one comparison:

    bucket:  |    0    |    1    |    2    |    3    |        first[b]: how many edges lie in buckets before b
    edge:    e0           e1 e2         e3           e4       v in bucket 1: 1 + #(e1, e2 <= v) = its cell less one

A larger value never has a smaller bucket, so an edge in an earlier bucket is smaller than the value and one in a later
bucket larger, however the multiplication is rounded.

Cost: O(log of the edges in the bucket) per value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.cells import cell_of
from matchers.kernels.jit import inlined, kernel

BUCKETS = 4  # for each edge, on average; so most have one edge or none


@inlined
def quantile_cell(value: float, c: int, edge_start: Any, edge: Any, begin: Any, per_unit: Any, first: Any) -> Any:
    """1 + how many edges of column c lie at or below the value. Without a branch that depends on it, most of the time.

    The last edge of a column is inf and does not count.
    """
    e = edge_start[c]
    n = edge_start[c + 1] - e - 1
    b = BUCKETS * e + cell_of(value, begin[c], per_unit[c], BUCKETS * n)
    low = first[b]
    left = first[b + 1] - low
    while left > 1:
        half = left >> 1
        low += half * np.int32(edge[e + low + half - 1] <= value)
        left -= half
    low += np.int32((left > 0) & (edge[e + low] <= value))
    return low + 1


@kernel
def fill_quantile_buckets(edge_start: Any, edge: Any, begin: Any, per_unit: Any, first: Any) -> None:
    """Column c has BUCKETS for each of its edges, from BUCKETS * edge_start[c] on, and one where the last one ends."""
    for c in range(edge_start.shape[0] - 1):
        e = edge_start[c]
        n = edge_start[c + 1] - e - 1
        b = 0
        for k in range(n):
            own = cell_of(edge[e + k], begin[c], per_unit[c], BUCKETS * n)
            while b <= own:
                first[BUCKETS * e + b] = k
                b += 1
        while b <= BUCKETS * n:
            first[BUCKETS * e + b] = n
            b += 1


@kernel
def by_column(column: Any, first: Any, out: Any) -> None:
    """The places where column c stands, ascending, to out[first[c] : first[c + 1]]."""
    at = first[:-1].copy()
    for i in range(column.shape[0]):
        c = column[i]
        out[at[c]] = i
        at[c] += 1


@kernel
def quantile_cells(
    begin_at: int,
    end_at: int,
    column: Any,
    value: Any,
    edge_start: Any,
    edge: Any,
    begin: Any,
    per_unit: Any,
    first: Any,
    out: Any,
) -> None:
    for i in range(begin_at, end_at):
        out[i] = np.uint16(quantile_cell(value[i], column[i], edge_start, edge, begin, per_unit, first))
