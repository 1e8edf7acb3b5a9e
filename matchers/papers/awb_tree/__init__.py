"""`awb_tree`: per column a class for each width of the predicates; narrow ones are counted, wide ones marked.

Source: Liao, Qian, Zheng, Cao et al., "AWB+-Tree: A Novel Width-Based Index Structure Supporting Hybrid Matching for
Large-Scale Content-Based Pub/Sub Systems", IEEE TPDS 2025, doi 10.1109/tpds.2025.3561714. We had its abstract, and the
steps of two public implementations (docs/rivals.md); no code is from there. n subscriptions with psi_S predicates each,
W width classes of an attribute, w the width of a predicate as a share of its attribute's domain.

Within a class all widths are nearly equal, so the low end nearly decides. It is satisfied from `value - least width` to
the value, and missed below `value - greatest width`; only between are high ends compared. Forward matching counts what
is satisfied, n * psi_S * w, backward matching marks what is missed, n * psi_S * (1 - w). The hybrid, which this is,
counts in classes narrower than `split` and marks in the others. So it is fast where widths differ much or are extreme.

Ours differs:

- *Sorted arrays* instead of B+-trees, which serve insertion. A class stores only what its method reads.
- *Width bounds.* A class has the least and the greatest width of its own predicates, not k / W and (k + 1) / W of the
  domain. So predicates of one width are not compared at all, and rounding cannot make an answer wrong (kernel.py).
- *One wide class.* Marking does not depend on widths, so the wide predicates of a column lie in one class. In the
  source the class decides which of its two lists to search; two searches among all wide ones cost less.
- *Blocks* of subscriptions, whose counters stay in a cache, as in `rein`. A counter of a byte or more is also the mark.
- *No approximate matching*, which takes the predicates in between for satisfied: here they are few, so it would save
  little, and the registry marks algorithms as approximate, not options.
- *Any table.* Infinite ends lie next to the domain's, and so do values beyond it. An absent column counts none of its
  narrow predicates and marks all of its wide ones. A predicate of several intervals is indexed by its hull, an array by
  its least and greatest value, and where hull or array leaves doubt the matches are checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchers.algorithms.cells import domain
from matchers.algorithms.predicates import Predicates
from matchers.contract.matcher import Matcher, list_matches
from matchers.contract.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable, offsets_of
from matchers.errors import MatchingError
from matchers.kernels.counting import padded
from matchers.kernels.rows import Rows
from matchers.papers.awb_tree.kernel import BLOCK, Index, Narrow, Wide, awb_tree, bounds_in_domain

MOST_CLASSES = 1 << 10


@dataclass(frozen=True, eq=False)
class AwbTree(Matcher):
    index: Index
    rows: Rows  # the table, to check the matches by hulls

    def match(self, events: EventBatch) -> MatchBatch:
        def step(first: int, out: Int32, counts: Int64) -> int:
            return awb_tree(first, events.arrays, self.index, self.rows, out, counts)

        return list_matches(step, len(events), len(self.rows.several))


def build(table: SubscriptionTable, *, width_classes: int = 40, split: float = 0.2) -> AwbTree:
    """`width_classes` of a column; those narrower than `split`, a share of the domain, are counted.

    Raises MatchingError.
    """
    if not isinstance(width_classes, int) or not 1 <= width_classes <= MOST_CLASSES:
        raise MatchingError(f"width_classes must be an integer within 1 .. {MOST_CLASSES}, not {width_classes!r}")
    if not 0.0 <= split <= 1.0:
        raise MatchingError(f"split must lie within 0 .. 1, not {split!r}")
    hulls = Predicates.of(table)
    begin, end = domain(table)
    possible = hulls.low <= hulls.high
    subscription, column = hulls.subscription[possible], hulls.column[possible]
    low, high = (bounds_in_domain(bound[possible], column, begin, end) for bound in (hulls.low, hulls.high))
    width_class = _classes(low, high, column, begin, end, width_classes)
    narrow = width_class < split * width_classes

    n_rows = -(-table.n_subscriptions // BLOCK) * table.n_columns
    shortest = np.min_scalar_type(max(n_rows, 1) * width_classes)  # short numbers sort in linear time
    row = (subscription // BLOCK * np.int64(table.n_columns) + column).astype(shortest)
    place = row * np.array(width_classes, shortest) + width_class.astype(shortest)
    within = (subscription % BLOCK).astype(np.uint16)

    counted = [hulls.subscription[~possible], subscription[narrow]]  # what nothing satisfies is never counted down
    needed = np.bincount(np.concatenate(counted), minlength=table.n_subscriptions)
    index = Index(
        begin,
        end,
        padded(needed),
        _narrow(place[narrow], low[narrow], high[narrow], within[narrow], n_rows, width_classes),
        _wide(row[~narrow], low[~narrow], high[~narrow], within[~narrow], n_rows),
    )
    return AwbTree(index, hulls.rows(table))


def _classes(low: Float64, high: Float64, column: Int32, begin: Float64, end: Float64, n: int) -> Int64:
    """[P]: the class of each predicate by its share of the domain, infinite ends being next to the domain's.

    No match depends on it. Halves are subtracted, whose difference is finite.
    """
    half = 0.5 * end - 0.5 * begin
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        share = (np.minimum(high, end[column]) * 0.5 - np.maximum(low, begin[column]) * 0.5) / half[column]
    share[~np.isfinite(share)] = 1.0  # a domain without width
    return np.clip((share * n).astype(np.int64), 0, n - 1)


def _order(place: NDArray[Any], bound: Float64) -> Int64:
    """Order by place, and by bound within a place."""
    by_bound = np.argsort(bound)
    return np.asarray(by_bound[np.argsort(place[by_bound], kind="stable")])


def _narrow(
    place: NDArray[Any],
    low: Float64,
    high: Float64,
    subscription: NDArray[np.uint16],
    n_rows: int,
    width_classes: int,
) -> Narrow:
    order = _order(place, low)
    place, low, high, subscription = place[order], low[order], high[order], subscription[order]
    begins = np.ones(len(place), bool)
    begins[1:] = np.diff(place) != 0
    begin = np.flatnonzero(begins)
    row = np.searchsorted(place[begin], np.arange(n_rows + 1) * width_classes).astype(np.int64)
    with np.errstate(invalid="ignore", over="ignore"):
        width = high - low
        width[np.isnan(width)] = 0.0  # both ends are one infinity
        least = np.nextafter(np.minimum.reduceat(width, begin), -np.inf) if len(begin) else width
        greatest = np.nextafter(np.maximum.reduceat(width, begin), np.inf) if len(begin) else width
    return Narrow(row, np.append(begin, len(place)).astype(np.int64), least, greatest, low, high, subscription)


def _wide(row: NDArray[Any], low: Float64, high: Float64, subscription: NDArray[np.uint16], n_rows: int) -> Wide:
    by_low, by_high = _order(row, low), _order(row, high)
    begin = offsets_of(np.bincount(row.astype(np.int64), minlength=n_rows))
    return Wide(begin, low[by_low], subscription[by_low], high[by_high], subscription[by_high])


STORED = (AwbTree, Index, Narrow, Wide, Rows)
