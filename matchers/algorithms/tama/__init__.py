"""`tama`: intervals lie in dyadic cells; a value visits one cell a level and counts every subscription in it.

Source: Zhao and Wu, "Towards Approximate Event Processing in a Large-Scale Content-Based Network", ICDCS 2011, as the
papers on HEM (DASFAA 2022, sec. 2 and 6.1) and PEM (SEKE 2022, sec. IV) describe and measure it. The domain of each
attribute is discretised: level l has 2^l cells, down to the discretisation level (`levels`; 13 in HEM's experiments, 17
in PEM's). A predicate's id is stored in the fewest cells that cover it, at most two a level. An event of M values
visits M * (levels + 1) cells; a subscription of K predicates counted K times matches.

- The original is approximate, off by a finest cell at either end of an interval. Exact here, as HEM's authors
  have it: the cover is of whole cells within the interval, and what lies in the finest cells of its two bounds is
  compared with them. That is one interval in 2^(levels - 1) for a value: nothing beside those that are counted.
- Nothing that misses is ever looked at: time goes with the hits, N * K * W for N subscriptions with predicates of width
  W on attributes that the event has. So it is fast where W is small, the opposite of `rein`.
- The price is memory, some log2(W * 2^levels) ids for an interval. A column with less than 2^levels intervals has fewer
  levels (as many as the number of intervals has bits), so that its cells do not outnumber them: there are too few ends
  for a finer level to save comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchers.algorithms.cells import Cells
from matchers.algorithms.tama.kernel import BLOCK, place, tama
from matchers.contract.matcher import Matcher, list_matches
from matchers.contract.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable, offsets_of
from matchers.errors import MatchingError

FINEST = 24  # what a column's cells may take is then bounded: 2^25 of 8 bytes


@dataclass(frozen=True, eq=False)
class Tama(Matcher):
    begin: Float64  # [A], least value of the domain
    per_unit: Float64  # [A], finest cells in a unit of the column's values
    leaves: Int64  # [A], how many finest cells, a power of two
    base: Int64  # [A]: cell i of column c is base[c] + i
    edge: Int64  # [A]: the ends in finest cell i of column c are edge[c] + i
    start: Int64  # [cells + 1]: a cell owns ids[start[i]] .. ids[start[i + 1]]
    ids: Int32  # subscriptions, ascending within a cell
    edge_start: Int64  # [finest cells + 1]: a finest cell owns rows[edge_start[i]] .. rows[edge_start[i + 1]]
    rows: Int32  # intervals with a bound in the cell
    subscription: Int32  # [I], as in the table, to which rows refer
    low: Float64  # [I]
    high: Float64  # [I]
    needed: NDArray[Any]  # [S, padded to blocks], of the least type that holds it
    n_subscriptions: int

    def match(self, events: EventBatch) -> MatchBatch:
        def step(first: int, out: Int32, counts: Int64) -> int:
            return tama(
                first,
                events.offsets,
                events.column,
                events.value,
                self.begin,
                self.per_unit,
                self.leaves,
                self.base,
                self.edge,
                self.start,
                self.ids,
                self.edge_start,
                self.rows,
                self.subscription,
                self.low,
                self.high,
                self.needed,
                self.n_subscriptions,
                out,
                counts,
            )

        return list_matches(step, len(events), self.n_subscriptions)


def build(table: SubscriptionTable, levels: int = 13) -> Tama:
    if not 0 <= levels <= FINEST:
        raise MatchingError(f"levels must lie within 0 .. {FINEST}, not {levels}")
    intervals = np.bincount(table.column, minlength=table.n_columns)
    level = np.minimum(np.ceil(np.log2(intervals + 1)), levels).astype(np.int64)
    leaves = np.left_shift(np.int64(1), level)
    cells = Cells.of(table, 1)
    with np.errstate(over="ignore"):
        per_unit = cells.per_unit * leaves
    per_unit[np.isinf(per_unit)] = 0.0
    base, edge = offsets_of(2 * leaves), offsets_of(leaves)
    start, edge_start = np.zeros(base[-1] + 1, np.int64), np.zeros(edge[-1] + 1, np.int64)
    order = np.argsort(table.column, kind="stable").astype(np.int32)  # ids of a cell stay ascending
    ids = rows = np.empty(0, np.int32)
    for fill in (False, True):
        place(
            order,
            table.subscription,
            table.column,
            table.low,
            table.high,
            cells.begin,
            per_unit,
            leaves,
            base,
            edge,
            start,
            ids,
            edge_start,
            rows,
            fill,
        )
        if not fill:
            ids, rows = np.empty(start.sum(), np.int32), np.empty(edge_start.sum(), np.int32)
            start, edge_start = offsets_of(start[:-1]), offsets_of(edge_start[:-1])
    for filled in (start, edge_start):  # each place is now that of the cell after it
        filled[1:] = filled[:-1].copy()
        filled[0] = 0
    return Tama(
        cells.begin,
        per_unit,
        leaves,
        base[:-1],
        edge[:-1],
        start,
        ids,
        edge_start,
        rows,
        table.subscription,
        table.low,
        table.high,
        _padded(table.needed),
        table.n_subscriptions,
    )


def _padded(needed: Int32) -> NDArray[Any]:
    """A place beyond the last subscription needs a hit that it never gets."""
    padded = np.ones(-(-len(needed) // BLOCK) * BLOCK, np.min_scalar_type(int(needed.max(initial=1))))
    padded[: len(needed)] = needed
    return padded
