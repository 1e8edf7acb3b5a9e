"""Divide the values of each column into cells by the quantiles of the subscriptions' bounds.

Where many bounds lie, cells are narrow. An edge is where an interval begins, or the next value after its end, so
that a value which many subscriptions name has a cell of its own:

    absent   below e_1   e_1 .. e_2    ...    from e_m on
      0          1           2                   m + 1          cell of a value: 1 + how many edges lie at or below it

A larger value never has a smaller cell, so a value within an interval lies in one of the cells from that of its low end
to that of its high end, and nothing depends on the choice of the edges but speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from matchers.algorithms.pool import over
from matchers.algorithms.tiles.kernels import quantiles_kernel
from matchers.contract.tables import Float64, Int32, Int64, SubscriptionTable, offsets_of

UInt16 = NDArray[np.uint16]

SAMPLE = 1 << 16  # intervals of a column, from which its edges are taken
FEW_EDGES = 512  # edges that a column may have in any case
MOST_EDGES = (1 << 16) - 3  # cells are 16 bits, and one of them means that there is no value
CELLS_A_PREDICATE = 64.0  # over how many cells a predicate of mean width should reach


@dataclass(frozen=True, eq=False)
class Quantiles:
    edge_start: Int64  # [A + 1] column c owns the edges edge_start[c] .. edge_start[c + 1]
    edge: Float64  # [E] ascending within a column, the last one of each inf
    begin: Float64  # [A] where the first bucket begins
    per_unit: Float64  # [A] buckets in a unit of the column's values
    first: Int32  # [BUCKETS * E] `kernels/quantiles_kernel.py`

    @classmethod
    def of(cls, table: SubscriptionTable) -> Quantiles:
        column, low, high, n_columns = table.column, table.low, table.high, table.n_columns
        hit = low <= high
        if not hit.all():
            column, low, high = column[hit], low[hit], high[hit]
        ends = offsets_of(np.bincount(column, minlength=n_columns))
        order = np.empty(len(column), np.int32)
        quantiles_kernel.by_column(column, ends, order)
        edges = [_edges(low, high, order[a:b]) for a, b in pairwise(ends.tolist())]
        edge_start = offsets_of([len(e) + 1 for e in edges])
        edge = np.concatenate([np.empty(0), *(np.append(e, np.inf) for e in edges)])
        begin, width = np.zeros(n_columns), np.zeros(n_columns)
        for c, e in enumerate(edges):
            if len(e):
                begin[c] = e[0]
                with np.errstate(over="ignore"):
                    width[c] = e[-1] - e[0]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            per_unit = quantiles_kernel.BUCKETS * (np.diff(edge_start) - 1) / width
        per_unit[~np.isfinite(per_unit)] = 0.0
        first = np.zeros(quantiles_kernel.BUCKETS * len(edge), np.int32)
        quantiles_kernel.fill_quantile_buckets(edge_start, edge, begin, per_unit, first)
        return cls(edge_start, edge, begin, per_unit, first)

    @property
    def n_cells(self) -> Int64:
        """[A], that of absence left out."""
        return np.diff(self.edge_start)

    @cached_property
    def spread(self) -> Float64:
        """[E + A]: the estimated share of a column's events in cells 1 .. k, at edge_start[c] + c + k.

        Events are not known when an index is built. That values are spread evenly between the bounds, and that they
        are spread as the bounds are, are taken for equally likely; outermost bounds do not count for the former.
        """
        spread = np.zeros(len(self.edge) + len(self.begin))
        for c, (a, b) in enumerate(pairwise(self.edge_start.tolist())):
            n = b - a
            edges = self.edge[a : b - 1] * 0.25  # so that no difference is infinite
            evenly = np.full(n, 1.0 / n)
            if n > 2:
                inner = np.clip(edges, edges[len(edges) // 50], edges[-1 - len(edges) // 50])
                if inner[-1] > inner[0]:
                    evenly[1:-1] = np.diff(inner) / (inner[-1] - inner[0])
                    evenly[0] = evenly[-1] = 0.0
            spread[a + c + 1 : b + c + 1] = np.cumsum(0.5 * evenly + 0.5 / n)
        return spread

    def cells(self, column: Int32, value: Float64, threads: int = 1) -> UInt16:
        """[values]"""
        out = np.empty(len(value), np.uint16)
        arrays = (column, value, self.edge_start, self.edge, self.begin, self.per_unit, self.first, out)
        over(len(value), threads, lambda begin, end: quantiles_kernel.quantile_cells(begin, end, *arrays))
        return out


def _edges(low: Float64, high: Float64, of: Int32) -> Float64:
    """The edges of one column: all ends if they are few, else as many as leave a predicate CELLS_A_PREDICATE cells."""
    if not len(of):
        return np.empty(0)
    of = of[:: -(-len(of) // SAMPLE)]
    lows, highs = low[of], high[of]
    whole = bool((lows == np.floor(lows)).all() and (highs == np.floor(highs)).all())  # codes: no value lies between
    with np.errstate(over="ignore"):  # nothing finite follows the greatest double
        ends = np.sort(np.concatenate([lows, highs + 1.0 if whole else np.nextafter(highs, np.inf)]))
    ends = ends[np.isfinite(ends)]
    distinct = _distinct(ends)
    if len(distinct) <= FEW_EDGES:
        return distinct
    width = np.mean(np.searchsorted(ends, highs) - np.searchsorted(ends, lows)) / len(ends)
    n = int(np.clip(CELLS_A_PREDICATE / max(float(width), 1e-9), FEW_EDGES, MOST_EDGES))
    if len(distinct) <= n:
        return distinct
    return _distinct(ends[np.arange(1, n + 1) * len(ends) // (n + 1)])


def _distinct(ascending: Float64) -> Float64:
    new: NDArray[np.bool_] = np.append(True, ascending[1:] != ascending[:-1])[: len(ascending)]
    return ascending[new]
