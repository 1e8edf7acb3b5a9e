"""`h_tree`: buckets of subscriptions by their cells on the indexed attributes, one attribute chained to the next.

Source: Qian, Cao, Zhu, Li and Wang, "H-Tree: An Efficient Index Structure for Event Matching in Content-Based
Publish/Subscribe Systems", Networking 2013 and TPDS 26 (6), 2015. We had their abstracts, and the description in the
paper on REIN (INFOCOM 2014, sec. II A, V, tables II and VII): l attributes are indexed, the domain of each divided into
c cells, similar subscriptions put into the same bucket, of which there are c^l. The first form stores a subscription in
each cell that it touches, ceil(w * c)^l times; the second has overlapping cells, so that it is stored once. The rest is
derived from this:

- Cell i takes the predicates whose low end lies in the i-th of c equal parts of the domain and that are no wider than
  delta, a share of the domain. So it covers its part and the next delta, and a value v lies in the cells from v - delta
  to v: two at most where delta is up to 1 / c, as in the paper. A wider delta is allowed, and visits more cells.
- Subscriptions with no predicate on the attribute, or a wider one, are in a cell of its own, `any`, which all events
  visit. An event without the attribute visits only this cell.
- Delta and the order of attributes: of n subscriptions f are no wider than delta, and n - f + f * (delta + 1 / c) is
  about what an event has to visit. Each attribute takes the delta for which this is least, and those with the least are
  chained first.
- Chaining ends where no more than `bucket` subscriptions are left, so l bounds the depth and need not be chosen by
  their number; without it all attributes may be indexed.
- A tree, level by level, instead of a hash of all l cells: there are no empty buckets, and a missing child ends a whole
  product of them. Measured with 100,000 subscriptions of 10 predicates of width 0.1 on 20 attributes, c = 6 and delta =
  1 / 6: of 6 attributes a hash has 513 lookups per event, and the tree visits 553 nodes, 332 of them buckets, that
  hold 6,529 subscriptions; of 12 attributes 263,424 lookups, or 2,583 nodes and 1,100 subscriptions.

Up to 64 events go down together, so that a bucket is read from memory once for all that visit it (kernels/places.py).
It is fast where predicates are narrow and most subscriptions have one on the attributes chained first; also where
events have few attributes, for they follow `any` alone on all others. All subscriptions in the buckets visited are
checked; where predicates are wide, or most subscriptions have `any`, these are many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchers.algorithms.cells import Cells, domain
from matchers.algorithms.places import arrange, hulls_of, placed, possible
from matchers.algorithms.predicates import Predicates
from matchers.contract.matcher import Matcher, list_matches
from matchers.contract.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable
from matchers.errors import MatchingError
from matchers.kernels.places import Hulls, Places
from matchers.kernels.rows import Rows
from matchers.papers.h_tree.kernel import ChainOrder, Entries, HTreeNodes, Overlapping, chain, h_tree, place

MOST_CELLS = 1 << 10
STEPS = 64  # deltas that are tried, of a domain


@dataclass(frozen=True, eq=False)
class HTree(Matcher):
    cells: Overlapping
    tree: HTreeNodes
    places: Places  # those of a bucket are contiguous
    rows: Rows  # the table, to check the matches by hulls

    def match(self, events: EventBatch) -> MatchBatch:
        places = placed(self.places)

        def step(first: int, out: Int32, counts: Int64) -> int:
            return h_tree(first, events.arrays, self.cells, self.tree, places, self.rows, out, counts)

        return list_matches(step, len(events), len(self.rows.several))


def build(
    table: SubscriptionTable,
    c: int = 8,
    l: int | None = None,  # noqa: E741 - the paper's name
    delta: float | None = None,
    bucket: int = 16,
) -> HTree:
    """`l` attributes at most, or all; `delta` for all of them, or one chosen for each. Raises MatchingError."""
    check_options(c, l, delta, bucket)
    predicates = Predicates.of(table)
    hulls = hulls_of(predicates, table.n_subscriptions)
    order = choose_order(table, predicates, c, l, delta)
    ids = possible(table)
    tree = chain(ids, entries_of(hulls, order), order.indexed, c, bucket)
    return HTree(order.cells, tree, arrange(ids, hulls), predicates.rows(table))


def check_options(c: int, l: int | None, delta: float | None, bucket: int) -> None:  # noqa: E741
    """Raises MatchingError."""
    if not 1 <= c <= MOST_CELLS:
        raise MatchingError(f"c must lie within 1 .. {MOST_CELLS}, not {c}")
    if l is not None and l < 0:
        raise MatchingError(f"l must be 0 or more, not {l}")
    if delta is not None and not 0.0 <= delta <= 1.0:
        raise MatchingError(f"delta must lie within 0 .. 1, not {delta}")
    if bucket < 1:
        raise MatchingError(f"bucket must be 1 or more, not {bucket}")


def choose_order(
    table: SubscriptionTable,
    predicates: Predicates,
    c: int,
    l: int | None,  # noqa: E741
    delta: float | None,
) -> ChainOrder:
    """The attributes to chain, and their cells."""
    begin, end = domain(table)
    deltas, spared = choose_deltas(predicates, begin, end, c, delta)
    with np.errstate(over="ignore", invalid="ignore"):
        reach = deltas * (end - begin)
    indexed = np.argsort(-spared, kind="stable")[: np.count_nonzero(spared)][:l].astype(np.int32)
    rank = np.full(table.n_columns, -1, np.int32)
    rank[indexed] = np.arange(len(indexed))
    return ChainOrder(Overlapping(begin, end, Cells.of(table, c).per_unit, reach, c), indexed, rank)


def entries_of(hulls: Hulls, order: ChainOrder) -> Entries:
    entries = Entries(np.empty_like(hulls.start), *np.empty((2, len(hulls.column)), np.int32))
    place(hulls, order.rank, order.cells, entries)
    return entries


def choose_deltas(
    predicates: Predicates, begin: Float64, end: Float64, c: int, delta: float | None
) -> tuple[Float64, NDArray[Any]]:
    """[A] the delta of each attribute; [A] how many subscriptions an event that has it is expected not to visit."""
    n_columns = len(begin)
    low, high = (
        np.clip(b, begin[predicates.column], end[predicates.column]) for b in (predicates.low, predicates.high)
    )
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        width = (high - low) / (end - begin)[predicates.column]
    width[~np.isfinite(width)] = 0.0  # one value is all of the domain
    step = np.ceil(np.clip(width, 0.0, 1.0) * STEPS).astype(np.int64)
    tried = np.arange(STEPS + 1) / STEPS
    fit = np.cumsum(
        np.bincount(predicates.column * (STEPS + 1) + step, minlength=n_columns * (STEPS + 1)).reshape(-1, STEPS + 1),
        axis=1,
    )
    if delta is not None:
        fit, tried = fit[:, [int(delta * STEPS)]], np.array([delta])
    spared = fit * np.maximum(1.0 - tried - 1.0 / c, 0.0)
    best = spared.argmax(axis=1)
    return tried[best], spared[np.arange(n_columns), best]


STORED = (HTree, HTreeNodes, Overlapping, Places, Rows)
