"""`opindex`: subscriptions by their rarest attribute; only partitions of attributes that the event has are searched.

Source: Zhang, Chan and Tan, "An Efficient Publish/Subscribe Index for E-Commerce Databases", PVLDB 7(8), 2014, and how
the paper on HEM (DASFAA 2022, sec. 2 and 6) describes and measures it. The pivot attribute of a subscription is that of
its attributes which the fewest subscriptions have. Subscriptions of one pivot are a partition. In it, predicates lie in
lists by (operator, attribute), ordered by operand; a signature for each operator has all attributes with a list. An
event counts, in the partitions of its own attributes, the predicates it satisfies; a subscription of which none is
left matches.

It is fast where there are many attributes and an event has few of them: a subscription on a rare attribute that the
event lacks is never visited, whatever its other predicates. Where an event has all attributes all partitions are
searched, and it counts as much as any other that counts: as HEM's authors find, it is the slowest then. By operators, a
range is two predicates and either end counts for itself, so an event counts n * psi_S * (1 + w) of n subscriptions with
psi_S ranges of width w, also of those that w makes rare.

What the paper leaves open, and what ours does:

- *Ranges.* A closed interval is `>= low` and `<= high`, `=` where both are one, and one of the two where the other end
  is open. One open at both ends wants the attribute to be there: `>= -inf`.
- *Several intervals in one attribute.* They are disjoint, so of M ranges a value satisfies one predicate more where it
  lies on one of them than where it lies on none, whichever it is: each high below it makes up for a low. So their
  number of predicates less M, and one, is what the counter needs: no stamps, no ids of their own.
- *Several values in one attribute* satisfy more together than each alone. There the count is only a bound, and the
  subscriptions that it leaves are checked with the intervals (kernels/rows.py).
- *Counters* are of the least type that holds them, and those of a partition lie side by side, so only the counters of
  the partitions that are searched are reset and read.
- *Batches*: the events that have a pivot go through its partition together, unless some event has an array
  (kernel.py).
- *Two of the same frequency*: the attribute of the lower number is the pivot.

A subscription without intervals is in no partition and always matches; one that contradicts itself never does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchers.algorithms.lanes import Words, in_lanes, list_chunks
from matchers.contract.matcher import Matcher, list_matches
from matchers.contract.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable, offsets_of
from matchers.kernels.bitsets import clear_bits
from matchers.kernels.rows import Rows
from matchers.papers.opindex.kernel import (
    EQ,
    GE,
    LE,
    OPERATORS,
    PLACES,
    Partitions,
    opindex,
    opindex_in_lanes,
)

UNPARTITIONED = -1  # instead of a pivot


@dataclass(frozen=True, eq=False)
class OpIndex(Matcher):
    partitions: Partitions
    unpartitioned: NDArray[np.uint64]  # [S / 64], all ones but for those that always match
    rows: Rows  # the table, to check events with several values in an attribute

    def match(self, events: EventBatch) -> MatchBatch:
        if self.partitions.needed.itemsize > 1 or not in_lanes(events, len(self.partitions.place)):
            return self._one_by_one(events)

        def mark(base: int, bits: Words) -> None:
            opindex_in_lanes(base, events.arrays, self.partitions, bits)

        return list_chunks(mark, len(events), len(self.rows.start) - 1, self.unpartitioned)

    def _one_by_one(self, events: EventBatch) -> MatchBatch:
        def step(first: int, out: Int32, counts: Int64) -> int:
            return opindex(first, events.arrays, self.partitions, self.unpartitioned, self.rows, out, counts)

        return list_matches(step, len(events), len(self.rows.start) - 1)


def build(table: SubscriptionTable) -> OpIndex:
    pivot = pivots(table)
    partitions = _partitions(table, pivot)
    always = np.flatnonzero(table.needed == 0)
    unpartitioned = np.full(-(-table.n_subscriptions // 64), ~np.uint64(0))
    clear_bits(unpartitioned, always)
    rows = Rows(table.start, table.column, table.low, table.high, several=np.zeros(0, bool), any_several=False)
    return OpIndex(partitions, unpartitioned, rows)


def pivots(table: SubscriptionTable, frequency: Int64 | None = None) -> Int64:
    """[S]: the rarest attribute of each subscription; UNPARTITIONED without one, and where it contradicts itself.

    frequency [A] counts the subscriptions that have each attribute; by default it is that of the table.
    """
    first = np.flatnonzero(table.begins)  # a predicate each
    subscription, column = table.subscription[first], table.column[first]
    if frequency is None:
        frequency = np.bincount(column, minlength=table.n_columns)
    order = np.lexsort((column, frequency[column], subscription))
    pivot = np.full(table.n_subscriptions, UNPARTITIONED, np.int64)
    rarest = np.ones(len(order), bool)
    rarest[1:] = np.diff(subscription[order]) != 0
    pivot[subscription[order][rarest]] = column[order][rarest]
    pivot[table.subscription[table.low > table.high]] = UNPARTITIONED
    return pivot


@dataclass(frozen=True, eq=False)
class OperatorPredicates:
    """The intervals of subscriptions that have a pivot, each as one or two predicates: Q of them."""

    subscription: Int32  # [Q]
    segment: Int64  # [Q] of the pivot and the operator
    attribute: Int32  # [Q]
    operand: Float64  # [Q]
    needed: Int64  # [S]: how many of them a match satisfies
    most: int  # of one subscription

    @classmethod
    def of(cls, table: SubscriptionTable, pivot: Int64) -> OperatorPredicates:
        """In each attribute a match satisfies one more than any value: of M ranges all predicates but M, of equalities
        none.
        """
        rows = np.flatnonzero(pivot[table.subscription] != UNPARTITIONED)
        low, high = table.low[rows], table.high[rows]
        equal = low == high
        operators = {
            EQ: equal,
            GE: ~equal & ((low > -np.inf) | (high == np.inf)),
            LE: ~equal & (high < np.inf),
        }
        bounds = {EQ: low, GE: low, LE: high}
        row = np.concatenate([rows[has] for has in operators.values()])
        operator = np.repeat([*operators], [np.count_nonzero(has) for has in operators.values()])
        subscription, n = table.subscription[row], table.n_subscriptions
        ranges = np.bincount(table.subscription[rows[~equal]], minlength=n)
        return cls(
            subscription,
            pivot[subscription] * OPERATORS + operator,
            table.column[row],
            np.concatenate([bounds[o][has] for o, has in operators.items()]),
            table.needed + np.bincount(subscription[operator != EQ], minlength=n) - ranges,
            int(np.bincount(subscription, minlength=1).max()),
        )

    @property
    def counter(self) -> np.dtype[Any]:
        """The type of counters: several values together may satisfy more than is needed, which counts below 0."""
        return np.min_scalar_type(-self.most - 1)


def _partitions(table: SubscriptionTable, pivot: Int64) -> Partitions:
    """The predicates list by list, ascending by operand."""
    places, place_of, subscription = _places(pivot, table.n_columns)
    predicates = OperatorPredicates.of(table, pivot)
    order = np.lexsort((predicates.operand, predicates.segment * table.n_columns + predicates.attribute))
    segment, attribute = predicates.segment[order], predicates.attribute[order]
    of = predicates.subscription[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (np.diff(segment) != 0) | (np.diff(attribute) != 0)
    first = np.flatnonzero(begins)
    signature = np.zeros(table.n_columns * OPERATORS, np.uint64)
    np.bitwise_or.at(signature, segment[first], np.uint64(1) << (attribute[first] & 63).astype(np.uint64))
    segments = np.searchsorted(segment[first], np.arange(table.n_columns * OPERATORS + 1)).astype(np.int64)
    start = np.append(first, len(order)).astype(np.int64)
    needed = np.ones(len(subscription), predicates.counter)  # what a place without a subscription never gets
    partitioned = place_of >= 0
    needed[place_of[partitioned]] = predicates.needed[partitioned]
    return Partitions(
        places[:-1],
        places[1:],
        subscription,
        needed,
        signature,
        segments[:-1],
        segments[1:],
        attribute[first],
        start[:-1],
        start[1:],
        predicates.operand[order],
        place_of[of] - places[pivot[of]].astype(np.int32),
    )


def _places(pivot: Int64, n_columns: int) -> tuple[Int64, Int32, Int32]:
    """The first place of each partition, the place of each subscription, and the subscription at each place."""
    partitioned = np.flatnonzero(pivot != UNPARTITIONED)
    members = partitioned[np.argsort(pivot[partitioned], kind="stable")]
    sizes = np.bincount(pivot[members], minlength=n_columns)
    places = offsets_of(-(-sizes // PLACES) * PLACES)
    place = np.arange(len(members)) + np.repeat(places[:-1] - offsets_of(sizes)[:-1], sizes)
    place_of = np.full(len(pivot), -1, np.int32)
    place_of[members] = place
    subscription = np.full(places[-1], -1, np.int32)
    subscription[place] = members
    return places, place_of, subscription


STORED = (OpIndex, Partitions, Rows)
