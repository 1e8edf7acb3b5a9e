"""`tama`: intervals lie in dyadic cells; a value visits one cell a level and counts every subscription in it.

Source: Zhao and Wu, "Towards Approximate Event Processing in a Large-Scale Content-Based Network", ICDCS 2011, as the
papers on HEM (DASFAA 2022, sec. 2 and 6.1) and PEM (SEKE 2022, sec. IV) describe and measure it. The domain of each
attribute is discretised: level l has 2^l cells, down to the discretisation level (`levels`; 13 in HEM's experiments, 17
in PEM's). A predicate's id is stored in the fewest cells that cover it, at most two a level. An event of M values
visits M * (levels + 1) cells; a subscription of K predicates counted K times matches.

- The original is approximate, off by a finest cell at either end of an interval. Exact here, as HEM's authors have it:
  the cover is of whole cells within the interval, and what lies in the finest cells of its two bounds is compared with
  them. A value compares about one interval in 2^(levels - 1): few beside the intervals that it hits.
- Intervals that miss are hardly ever visited: time grows with the hits, N * K * W for N subscriptions with predicates
  of width W on attributes that the event has. So it is fast where W is small, the opposite of `rein`.
- The price is memory, some log2(W * 2^levels) ids for an interval. A column with less than 2^levels intervals has fewer
  levels (as many as the number of intervals has bits), so that its cells do not outnumber them: there are too few ends
  for a finer level to save comparisons.
- Events of a batch are matched together (batch.py), which the sources do not do: the list of a cell is gone through
  once for all that visit it. It is 1.4 to 3 times as fast where many intervals are hit, which a look at the cells of
  some columns shows; else events are matched one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchers.algorithms.cells import Cells
from matchers.algorithms.lanes import Words, list_chunks
from matchers.algorithms.tama.batch import BIT, HIT, match_batch, pays
from matchers.algorithms.tama.kernel import Contents, Dyadic, Intervals, Visited, place, tama
from matchers.contract.matcher import Matcher, list_matches
from matchers.contract.tables import EventBatch, Int32, Int64, MatchBatch, SubscriptionTable, offsets_of
from matchers.errors import MatchingError
from matchers.kernels.counting import padded
from matchers.kernels.lanes import any_arrays

FINEST = 24  # bounds the memory for a column's cells: 2^25 of 8 bytes
FEWEST = 48  # events that are matched together
GROUP = 128  # at most
SMALLEST = 1 << 14  # subscriptions: for fewer, lists are short and the sets cost as much as they save
BLOCK = 1 << 16  # subscriptions: shorter, there is little of a list in a block; longer, the sets leave the caches


@dataclass(frozen=True, eq=False)
class Tama(Matcher):
    cells: Dyadic
    contents: Contents
    intervals: Intervals
    needed: NDArray[Any]  # [S, padded to blocks], of the least type that holds it
    n_subscriptions: int

    def match(self, events: EventBatch) -> MatchBatch:
        start, ids, edge_start, rows = self.contents
        visited = Visited(start[:-1], start[1:], ids, edge_start[:-1], edge_start[1:], rows)
        return matches(events, self.cells, visited, self.intervals, self.needed, self.n_subscriptions)


def matches(
    events: EventBatch,
    cells: Dyadic,
    visited: Visited,
    intervals: Intervals,
    needed: NDArray[Any],
    n_subscriptions: int,
) -> MatchBatch:
    if len(events) >= FEWEST and _pays(events, cells, visited, intervals, n_subscriptions):

        def mark(base: int, bits: Words) -> None:
            arrays = events.arrays
            match_batch(base, arrays, cells, visited, intervals, needed, n_subscriptions, bits, GROUP, BLOCK)

        return list_chunks(mark, len(events), n_subscriptions, group=GROUP)

    def step(first: int, out: Int32, counts: Int64) -> int:
        return tama(first, events.arrays, cells, visited, intervals, needed, n_subscriptions, out, counts)

    return list_matches(step, len(events), n_subscriptions)


def _pays(events: EventBatch, cells: Dyadic, visited: Visited, intervals: Intervals, n_subscriptions: int) -> bool:
    """Whether it is faster to match events together. With few intervals in a column the cells are not looked at."""
    n_columns = len(cells.leaves)
    return (
        n_subscriptions >= SMALLEST
        and HIT * len(intervals.low) > BIT * n_columns * n_subscriptions
        and len(visited.ids) > 0
        and len(visited.rows) > 0
        and not any_arrays(events.arrays, n_columns)
        and pays(events.arrays, cells, visited, n_subscriptions, GROUP)
    )


def build(table: SubscriptionTable, levels: int = 13) -> Tama:
    if not 0 <= levels <= FINEST:
        raise MatchingError(f"levels must lie within 0 .. {FINEST}, not {levels}")
    in_column = np.bincount(table.column, minlength=table.n_columns)
    level = np.minimum(np.ceil(np.log2(in_column + 1)), levels).astype(np.int64)
    leaves = np.left_shift(np.int64(1), level)
    domain = Cells.of(table, 1)
    with np.errstate(over="ignore"):
        per_unit = domain.per_unit * leaves
    per_unit[np.isinf(per_unit)] = 0.0
    base, edge = offsets_of(2 * leaves), offsets_of(leaves)
    cells = Dyadic(domain.begin, per_unit, leaves, base[:-1], edge[:-1])
    intervals = Intervals(table.subscription, table.low, table.high)
    order = np.argsort(table.column, kind="stable").astype(np.int32)  # ids of a cell stay ascending
    none = np.empty(0, np.int32)
    counted = Contents(np.zeros(base[-1] + 1, np.int64), none, np.zeros(edge[-1] + 1, np.int64), none)
    place(order, table.column, intervals, cells, counted, False)
    contents = Contents(
        offsets_of(counted.start[:-1]),
        np.empty(counted.start.sum(), np.int32),
        offsets_of(counted.edge_start[:-1]),
        np.empty(counted.edge_start.sum(), np.int32),
    )
    place(order, table.column, intervals, cells, contents, True)
    for start in (contents.start, contents.edge_start):  # each is now that of the cell after it
        start[1:] = start[:-1].copy()
        start[0] = 0
    return Tama(cells, contents, intervals, padded(table.needed), table.n_subscriptions)


STORED = (Tama, Dyadic, Contents, Intervals)
