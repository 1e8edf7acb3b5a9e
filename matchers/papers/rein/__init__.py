"""`rein`: per column one bucket list of low ends and one of high ends; mark the misses, list the unmarked.

Source: Qian et al., REIN: A Fast Event Matching Approach for Content-based Publish/Subscribe Systems, INFOCOM 2014,
sec. IV C (bucket lists) and D (algorithm 1). n subscriptions with psi_S predicates each, d columns, b (elsewhere c)
buckets a list, w the width of a predicate over that of its column's domain.

It is fast because a miss found by its bucket costs one store and no comparison: values are compared in the two anchor
buckets of a column only, and what an event matches costs nothing but its listing, so it gets faster as w grows. The
price is that a subscription is marked once for each predicate it misses, about n * psi_S * (1 - w) marks an event.

Ours differs: ends are compared as they are, closed, instead of doubling the domain (sec. IV B). Marks go to a byte map
of a block of subscriptions, or with many columns to a bit set of all, as in the paper (kernel.py). And it takes any
table: an array of values is tested by its greatest value on lows and its least on highs, an absent column marks all its
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
from matchers.papers.rein.kernel import BLOCK, WHOLE, BucketLists, count, fill, rein

PAIRS_OF_ROW = 4_000
_NONE = np.empty(0, np.uint64)  # deleted


def in_blocks(predicates: int, columns: int, n_subscriptions: int) -> bool:
    """Whether blocks marked by bytes are faster than the bits of all subscriptions.

    In a row of fewer than PAIRS_OF_ROW pairs bytes save less than a row costs. Measured with predicates of width 0.5:
    bits take 0.63 to 0.83 of the time in rows of 1,700 and 3,000 pairs, and 0.9 to 1.2 in those of 6,000 and more.
    """
    blocks = -(-n_subscriptions // BLOCK)
    return blocks <= 1 or predicates >= PAIRS_OF_ROW * blocks * columns


def best_buckets(predicates: int, columns: int, blocks: float) -> int:
    """The number of buckets of a list, if it is not given.

    The paper gives no formula but a measurement: with lists of 1M pairs, 1,000 buckets are best (sec. V B 3, n = 2M).
    By lemma 2 of EEM a column of f predicates costs f / b * (2 beta + b gamma) + b delta, least at
    b = sqrt(2 beta / delta * f); the measurement makes 2 beta / delta = 1. So b = sqrt(f), f being that of one block.
    """
    return max(1, round(float(np.sqrt(predicates / max(1, columns) / max(1.0, blocks)))))


def bucket_lists(
    subscription: Int32, column: Int32, low: Float64, high: Float64, cells: Cells, n_subscriptions: int, block: int
) -> BucketLists:
    """Build the lists of predicates that ascend by subscription, one for each (subscription, column)."""
    rows = -(-n_subscriptions // block) * len(cells.begin)
    bounded = int(np.count_nonzero(high != np.inf))
    number = np.uint16 if block == BLOCK else np.uint32
    lists = BucketLists(
        block,
        cells.n,
        cells.begin,
        cells.per_unit,
        np.zeros(rows * (cells.n + 1) + 1, np.int64),
        np.empty(len(low), np.float64),
        np.empty(len(low), number),
        np.zeros(rows * cells.n + 1, np.int64),
        np.empty(bounded, np.float64),
        np.empty(bounded, number),
    )
    count(subscription, column, low, high, lists)
    np.cumsum(lists.low_start, out=lists.low_start)
    np.cumsum(lists.high_start, out=lists.high_start)
    fill(subscription, column, low, high, lists, lists.low_start.copy(), lists.high_start.copy())
    return lists


def lists_of(table: SubscriptionTable, predicates: Predicates, buckets: int | None, blocks: bool | None) -> BucketLists:
    """Options as for `build`. Raises MatchingError."""
    if blocks is None:
        blocks = in_blocks(len(predicates), table.n_columns, table.n_subscriptions)
    block = BLOCK if blocks else WHOLE
    if buckets is None:
        buckets = best_buckets(len(predicates), table.n_columns, table.n_subscriptions / block)
    if buckets < 1:
        raise MatchingError(f"buckets must be 1 or more, not {buckets}")
    p, cells = predicates, Cells.of(table, buckets)
    return bucket_lists(p.subscription, p.column, p.low, p.high, cells, table.n_subscriptions, block)


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


def build(table: SubscriptionTable, buckets: int | None = None, blocks: bool | None = None) -> Rein:
    """`buckets` a list; without, by the number of predicates. `blocks`: of subscriptions, marked by bytes, or else the
    bits of all; without, what is faster. Raises MatchingError."""
    predicates = Predicates.of(table)
    return Rein(lists_of(table, predicates, buckets, blocks), predicates.rows(table))


STORED = (Rein, BucketLists, Rows)
