"""Estimate the cost of matching with tiles from the hulls, the rows and the values of sample events.

The model takes columns as independent of each other. With P(c, a, b) the share of the events whose cell in column c is
from a to b:

    tiles passed    sum over tiles of the product over their tests of P(column, low, high)
    rows read       the same, each tile times the number of its rows
    candidates      sum over subscriptions of the product over their predicates of P(column, its row's cells)

In a row a predicate reaches as far as the row's cells do; in a column without a row it is the hull that counts if the
tile tests it, and nothing if not. Candidates are estimated for some of the tiles only, chosen evenly by how many
events pass them, since most candidates come from few of the tiles.

Of sparse events the candidates are all subscriptions that are filed under columns that an event has.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from matchers.algorithms.tiles.kernels.arrays import Arrays
from matchers.algorithms.tiles.kernels.quantiles_kernel import quantile_cells
from matchers.algorithms.tiles.kernels.sparse_kernel import ColumnIndex
from matchers.contract.tables import EventBatch, Float64, Int64
from matchers.kernels.vectors import WORDS

SAMPLE = 64  # tiles
PLACES = 1 << 12  # of subscriptions filed by columns
EVENTS = 1 << 10  # sparse ones


def expected(index: Arrays, events: EventBatch) -> dict[str, float]:
    """Per event, for events like these."""
    spread = _Spread(index, events)
    tests, tiles = np.diff(index.test), len(index.local)
    first = int(index.test[0])
    low = index.test_low[first:].astype(np.int64)
    shares = spread.between(index.test_column[first:], low, low + index.test_width[first:])
    passed = np.ones(tiles)
    np.multiply.at(passed, np.repeat(np.arange(tiles), tests), shares)
    total = np.cumsum(passed)
    chosen = np.searchsorted(total, (np.arange(SAMPLE) + 0.5) / SAMPLE * total[-1]) if passed.any() else []
    return {
        "tiles passed": float(passed.sum()),
        "rows read": float((passed * np.diff(index.row)).sum()),
        "candidates": sum(_candidates(index, spread, int(t)) / passed[t] * total[-1] / SAMPLE for t in chosen),
    }


def expected_by_events(index: Arrays, events: EventBatch) -> dict[str, float]:
    """`expected` for subscriptions that are checked one by one: they have no tests, and their predicates have cells."""
    spread, slots = _Spread(index, events), len(index.start) - 1
    chosen = np.unique(np.linspace(0, max(slots - 1, 0), min(PLACES, slots)).astype(np.int64))
    candidates = sum(_match(index, spread, int(u)) for u in chosen)
    return {"tiles passed": 0.0, "rows read": 0.0, "candidates": candidates * slots / max(len(chosen), 1)}


def _match(index: Arrays, spread: _Spread, u: int) -> float:
    begin, last = int(index.start[u]), int(index.start[u + 1])
    column, low, high = (index.range[3 * begin + k : 3 * last : 3].astype(np.int64) for k in range(3))
    new = np.append(True, column[1:] != column[:-1])[: len(column)]
    share = np.bincount(np.cumsum(new) - 1, spread.between(column, low, high)) if len(column) else np.ones(0)
    return float(np.minimum(share, 1.0).prod())


def expected_by_columns(by_columns: ColumnIndex, events: EventBatch) -> dict[str, float]:
    """`expected` for sparse events: their costs depend on the columns that they have together."""
    n, d = min(len(events), EVENTS), len(by_columns.pair_start) - 2
    known = (events.column < d) & (events.offsets[n] > np.arange(len(events.column)))
    has = np.zeros((d + 1, n), bool)
    has[d] = True  # no column
    has[events.column[known], np.repeat(np.arange(len(events)), np.diff(events.offsets))[known]] = True
    places = len(by_columns.slot)
    chosen = np.unique(np.linspace(0, max(places - 1, 0), min(PLACES, places)).astype(np.int64))
    pair = np.searchsorted(by_columns.begin, chosen, "right") - 1
    first = np.searchsorted(by_columns.pair_start, pair, "right") - 1
    of_pair = has[first] & has[by_columns.second[pair]]
    found = np.count_nonzero(of_pair & has[by_columns.third[chosen]] & has[by_columns.fourth[chosen]])
    candidates = found / max(n, 1) * places / max(len(chosen), 1)
    return {"tiles passed": 0.0, "rows read": 0.0, "candidates": candidates}


class _Spread:
    """The spread of the cells of events over each column."""

    def __init__(self, index: Arrays, events: EventBatch) -> None:
        d = len(index.begin)
        known = events.column < d
        column, value = events.column[known], events.value[known]
        cells = np.empty(len(value), np.uint16)
        arrays = (index.edge_start, index.edge, index.begin, index.per_unit, index.first)
        quantile_cells(0, len(value), column, value, *arrays, cells)
        self.origin: Int64 = index.edge_start + np.arange(d + 1)  # cells 0 .. n of column c from origin[c] on
        counts = np.bincount(self.origin[column] + cells, minlength=int(self.origin[-1]))
        self.sums: Float64 = np.concatenate(([0.0], np.cumsum(counts))) / max(len(events), 1)

    def between(self, column: NDArray[np.integer], low: Int64, high: Int64) -> Float64:
        """P(column, low, high) of each; cells from 1 on."""
        at = self.origin[column]
        share: Float64 = np.minimum(self.sums[at + high + 1] - self.sums[at + low], 1.0)
        return share


def _candidates(index: Arrays, spread: _Spread, t: int) -> float:
    u, end = int(index.slot[t]), int(index.slot[t + 1])
    begin, last = int(index.start[u]), int(index.start[end])
    column, low, high = (index.range[3 * begin + k : 3 * last : 3].astype(np.int64) for k in range(3))
    share = np.ones(len(column))
    for q in range(index.test[t], index.test[t + 1]):
        c, a = int(index.test_column[q]), int(index.test_low[q])
        b = a + int(index.test_width[q])
        share[column == c] = spread.between(np.array([c]), np.array([a]), np.array([b]))[0]
    for r in range(index.row[t], index.row[t + 1]):
        c = int(index.row_column[r])
        of = np.flatnonzero(column == c)
        n = index.edge_start[c + 1] - index.edge_start[c]
        if r < index.local[t]:
            base, shift = int(index.row_low[r]), int(index.row_shift[r])
            a = base + ((low[of] - base) >> shift << shift)
            b = base + (((high[of] - base) >> shift) + 1 << shift) - 1
        else:
            coarse = index.offset[index.edge_start[c] : index.edge_start[c + 1]] // WORDS
            a = np.searchsorted(coarse, coarse[low[of] - 1], "left") + 1
            b = np.searchsorted(coarse, coarse[high[of] - 1], "right")
        share[of] = spread.between(np.full(len(of), c), a, np.minimum(b, n))
    slot = np.repeat(np.arange(u, end), np.diff(index.start[u : end + 1]))
    new = np.ones(len(column), bool)  # several intervals in one column are one predicate
    new[1:] = (slot[1:] != slot[:-1]) | (column[1:] != column[:-1])
    of_predicate = np.minimum(np.bincount(np.cumsum(new) - 1, share), 1.0)
    matched = np.ones(end - u)
    np.multiply.at(matched, slot[new] - u, of_predicate)
    return float(matched.sum())
