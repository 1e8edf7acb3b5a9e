"""`rein`: per column one bucket list of low ends and one of high ends; mark the misses, list the unmarked.

Source: Qian et al., REIN: A Fast Event Matching Approach for Content-based Publish/Subscribe Systems, INFOCOM 2014,
sec. IV C (bucket lists) and D (algorithm 1). n subscriptions with psi_S predicates each, d columns, b (elsewhere c)
buckets a list, w the width of a predicate over that of its column's domain.

It is fast because a miss found by its bucket costs one store and no comparison: values are compared in the two anchor
buckets of a column only, and what an event matches costs nothing but its listing, so it gets faster as w grows. The
price is that a subscription is marked once for each predicate it misses, about n * psi_S * (1 - w) marks an event.

Ours differs: ends are compared as they are, closed, instead of doubling the domain (sec. IV B); a predicate's marks go
to a byte map of a block of subscriptions instead of a bit set of all (kernel.py); and it takes any table: an
array of values is tested by its greatest value on lows and its least on highs, an absent column marks all its
predicates, a predicate of several intervals is indexed by its hull, and where hull or array leaves doubt the unmarked
are checked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchers.algorithms.cells import Cells
from matchers.algorithms.predicates import Predicates
from matchers.contract.matcher import Matcher, list_matches
from matchers.contract.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable
from matchers.errors import MatchingError
from matchers.kernels.rows import Rows
from matchers.papers.rein.kernel import BLOCK, BucketLists, count, fill, rein

_NONE = np.empty(0, np.uint64)  # deleted


def best_buckets(predicates: int, columns: int, n_subscriptions: int) -> int:
    """The number of buckets of a list, if it is not given.

    The paper gives no formula but a measurement: with lists of 1M pairs, 1,000 buckets are best (sec. V B 3, n = 2M).
    By lemma 2 of EEM a column of f predicates costs f / b * (2 beta + b gamma) + b delta, least at
    b = sqrt(2 beta / delta * f); the measurement makes 2 beta / delta = 1. So b = sqrt(f), f being that of one block.
    """
    blocks = max(1.0, n_subscriptions / BLOCK)
    return max(1, round(float(np.sqrt(predicates / max(1, columns) / blocks))))


def bucket_lists(
    subscription: Int32, column: Int32, low: Float64, high: Float64, cells: Cells, n_subscriptions: int
) -> BucketLists:
    """Build the lists of predicates that ascend by subscription, one for each (subscription, column)."""
    rows = -(-n_subscriptions // BLOCK) * len(cells.begin)
    bounded = int(np.count_nonzero(high != np.inf))
    lists = BucketLists(
        cells.n,
        cells.begin,
        cells.per_unit,
        np.zeros(rows * (cells.n + 1) + 1, np.int64),
        np.empty(len(low), np.float64),
        np.empty(len(low), np.uint16),
        np.zeros(rows * cells.n + 1, np.int64),
        np.empty(bounded, np.float64),
        np.empty(bounded, np.uint16),
    )
    count(subscription, column, low, high, lists)
    np.cumsum(lists.low_start, out=lists.low_start)
    np.cumsum(lists.high_start, out=lists.high_start)
    fill(subscription, column, low, high, lists, lists.low_start.copy(), lists.high_start.copy())
    return lists


def bucket_cells(table: SubscriptionTable, predicates: int, buckets: int | None) -> Cells:
    """Raises MatchingError."""
    if buckets is None:
        buckets = best_buckets(predicates, table.n_columns, table.n_subscriptions)
    if buckets < 1:
        raise MatchingError(f"buckets must be 1 or more, not {buckets}")
    return Cells.of(table, buckets)


def matches(events: EventBatch, lists: BucketLists, rows: Rows, gone: NDArray[np.uint64]) -> MatchBatch:
    def step(first: int, out: Int32, counts: Int64) -> int:
        return rein(first, events.arrays, lists, rows, gone, out, counts)

    return list_matches(step, len(events), len(rows.several))


@dataclass(frozen=True, eq=False)
class Rein(Matcher):
    lists: BucketLists
    rows: Rows  # the table, to check the matches by hulls

    def match(self, events: EventBatch) -> MatchBatch:
        return matches(events, self.lists, self.rows, _NONE)

    def cost(self, compare: float, traverse: float, switch: float, check: float) -> float:
        """The expected cost of an event that has all columns: lemma 2 and equation 1 of EEM (sec. 1.6),

            T = sum over columns of z * (2 * beta + b * gamma), + m * b * delta + n * epsilon

        with the costs of comparing a pair (beta), of traversing one (gamma), of going to the next bucket (delta) and of
        checking a subscription (epsilon). n subscriptions, m columns, b buckets a list, z = f / b pairs in a bucket of
        a column with f predicates. Each block of subscriptions has its own buckets, so `switch` counts for each block;
        to the kernel it is 0, as the buckets that it traverses are one run.
        """
        pairs = len(self.lists.low) / self.lists.n  # z of all columns
        buckets = len(self.lists.high_start) - 1
        return pairs * (2 * compare + self.lists.n * traverse) + buckets * switch + len(self.rows.several) * check


def build(table: SubscriptionTable, buckets: int | None = None) -> Rein:
    """`buckets` a list; without, by the number of predicates. Raises MatchingError."""
    predicates = Predicates.of(table)
    lists = bucket_lists(
        predicates.subscription,
        predicates.column,
        predicates.low,
        predicates.high,
        bucket_cells(table, len(predicates), buckets),
        table.n_subscriptions,
    )
    return Rein(lists, predicates.rows(table))


STORED = (Rein, BucketLists, Rows)
