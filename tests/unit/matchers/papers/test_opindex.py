"""OpIndex: the place of a subscription, the lists that an event visits, and the counts."""

from __future__ import annotations

import numpy as np
import pytest

from matchers import EventBatch, SubscriptionTable
from matchers.papers import opindex
from matchers.papers.opindex import UNPARTITIONED, OpIndex, pivots
from matchers.papers.opindex.kernel import EQ, GE, LE, OPERATORS, PLACES, search
from tests.unit.matchers.agreement import agrees, random_batch, random_table, uniform_table

pytestmark = pytest.mark.kernels
inf = float("inf")


def table(*rows: tuple[int, int, float, float], subscriptions: int, columns: int) -> SubscriptionTable:
    subscription, column, low, high = zip(*rows, strict=True) if rows else ((), (), (), ())
    return SubscriptionTable.from_intervals(
        subscription, column, low, high, n_subscriptions=subscriptions, n_columns=columns
    )


def lists(built: OpIndex) -> dict[tuple[int, int, int], list[tuple[float, int]]]:
    """(pivot, operator, attribute): the operands and whose they are."""
    p = built.partitions
    found = {}
    for segment, (first, last) in enumerate(zip(p.segment, p.segment_end, strict=True)):
        for i in range(first, last):
            own = slice(p.start[i], p.end[i])
            subscriptions = p.subscription[p.of[own]].tolist()
            key = (*divmod(segment, OPERATORS), int(p.attribute[i]))
            found[key] = list(zip(p.operand[own].tolist(), subscriptions, strict=True))
    return found


def left_after(built: OpIndex, pivot: int, event: dict[int, float]) -> np.ndarray:
    """The counters of a partition when an event of single values has been counted in it."""
    p = built.partitions
    n_columns = len(p.place)
    values = np.zeros(n_columns)
    attributes = np.array(sorted(event), np.int64)
    values[attributes] = [event[a] for a in sorted(event)]
    bits = np.bitwise_or.reduce(np.uint64(1) << (attributes & 63).astype(np.uint64), initial=np.uint64(0))
    left: np.ndarray = p.needed.copy()
    within = left[p.place[pivot] : p.place_end[pivot]]
    search(p, pivot, bits, attributes, len(attributes), values, values, within)
    return left


def test_the_pivot_is_the_attribute_that_the_fewest_subscriptions_have() -> None:
    built = table(
        *[(s, 0, 1, 2) for s in range(4)],
        *[(s, 1, 1, 2) for s in range(3)],
        (0, 2, 1, 2),
        (0, 2, 3, 4),  # two intervals are one subscription
        (1, 3, 1, 2),
        (1, 2, 1, 2),
        (4, 0, 1, 2),
        (4, 3, inf, -inf),  # contradicts itself
        subscriptions=6,
        columns=4,
    )
    # attributes 2 and 3 are in two subscriptions each, so in subscription 1 the first of them is it
    assert pivots(built).tolist() == [2, 2, 1, 0, UNPARTITIONED, UNPARTITIONED]
    assert opindex.build(built).match(EventBatch.from_dense([[1.0, 1.0, 9.0, 1.0]])).of(0).tolist() == [2, 3, 5]


def test_an_interval_is_one_operator_or_two() -> None:
    built = opindex.build(
        table(
            (0, 0, 3, 3),
            (1, 0, 1, inf),
            (2, 0, -inf, 7),
            (3, 0, 2, 5),
            (4, 0, -inf, inf),
            (5, 0, inf, inf),
            (6, 0, -inf, 0),
            (6, 0, 4, 4),
            (6, 0, 8, inf),
            subscriptions=7,
            columns=1,
        )
    )
    assert lists(built) == {
        (0, EQ, 0): [(3, 0), (4, 6), (inf, 5)],
        (0, GE, 0): [(-inf, 4), (1, 1), (2, 3), (8, 6)],
        (0, LE, 0): [(0, 6), (5, 3), (7, 2)],
    }
    assert built.partitions.needed.tolist() == [1, 1, 1, 2, 1, 1, 1, 1]  # the last place is nobody's


def test_lists_are_ordered_and_places_of_a_partition_make_up_whole_words() -> None:
    built = opindex.build(uniform_table(500, 12, 4, 0.3))
    p = built.partitions
    assert (p.place % PLACES == 0).all()
    for operands in lists(built).values():
        assert operands == sorted(operands, key=lambda pair: pair[0])
    for low, high in zip(p.place, p.place_end, strict=True):
        own = p.subscription[low:high]
        own = own[own >= 0]
        assert (np.diff(own) > 0).all()
    assert sorted(p.subscription[p.subscription >= 0].tolist()) == list(range(500))


def test_an_event_counts_each_predicate_it_satisfies_once_and_no_other() -> None:
    of = uniform_table(400, 6, 3, 0.4)
    built = opindex.build(of)
    pivot, event = pivots(of), {a: 0.1 + a / 10 for a in range(5)}
    for a in event:
        left = left_after(built, a, event)
        expected = sum(
            int(low <= event[c]) + int(high >= event[c])
            for s, c, low, high in zip(of.subscription, of.column, of.low, of.high, strict=True)
            if c in event and pivot[s] == a
        )
        assert (built.partitions.needed - left).sum() == expected
        elsewhere = np.ones(len(left), bool)
        elsewhere[built.partitions.place[a] : built.partitions.place_end[a]] = False
        assert (left == built.partitions.needed)[elsewhere].all()


def test_what_lacks_its_pivot_is_not_looked_at() -> None:
    of = table((0, 0, 1, 2), (1, 0, 1, 2), (0, 1, 1, 2), (1, 2, 1, 2), subscriptions=2, columns=3)
    built = opindex.build(of)
    built.partitions.needed[built.partitions.subscription >= 0] = 0  # whoever looks there lists it
    found = built.match(EventBatch.from_dense([[1.5, np.nan, np.nan], [1.5, 1.5, np.nan]]))
    assert [found.of(e).tolist() for e in range(2)] == [[], [0]]


@pytest.mark.parametrize("event", [{0: 1.0}, {0: 1.0, 64: 1.0}, {0: 1.0, 1: 1.0, 64: 1.0}])
def test_attributes_that_share_a_bit_of_the_signature_have_lists_of_their_own(event: dict[int, float]) -> None:
    of = table((0, 64, 1, 2), (1, 0, 1, 2), (1, 64, 1, 2), subscriptions=2, columns=65)
    built = opindex.build(of)
    assert sorted(lists(built)) == [(0, GE, 0), (0, GE, 64), (0, LE, 0), (0, LE, 64), (64, GE, 64), (64, LE, 64)]
    assert built.partitions.signature[0 * OPERATORS + GE] == built.partitions.signature[64 * OPERATORS + GE] == 1
    batch = EventBatch.from_values([0] * len(event), list(event), list(event.values()), n_events=1, n_columns=65)
    assert built.match(batch).of(0).tolist() == ([0, 1] if 64 in event else [])


def test_a_value_on_one_of_several_ranges_satisfies_one_predicate_more_than_one_on_none() -> None:
    ranges = [(-inf, 1), (2, 3), (4, 4), (6, 8), (9, 9)]
    built = opindex.build(table(*[(0, 0, low, high) for low, high in ranges], subscriptions=1, columns=1))
    for value in (-inf, *np.arange(-1, 11, 0.5).tolist(), inf):
        hit = any(low <= value <= high for low, high in ranges)
        assert left_after(built, 0, {0: value})[0] == (0 if hit else 1)


def test_arrays_are_checked_where_their_bounds_leave_doubt() -> None:
    of = table((0, 0, 2, 3), (1, 0, 1, 1), (2, 0, 5, inf), (2, 1, 0, 1), subscriptions=3, columns=2)
    batch = EventBatch.from_values([0, 0, 1, 1], [0, 0, 0, 0], [1, 5, 2, 9], n_events=2, n_columns=2)
    found = opindex.build(of).match(batch)
    assert [found.of(e).tolist() for e in range(2)] == [[1], [0]]


@pytest.mark.parametrize("count", [63, 64, 130, 20_000])
def test_a_subscription_may_have_more_predicates_than_a_byte_counts(count: int) -> None:
    columns = range(count)
    of = table(*[(0, c, 1, 2) for c in columns], (1, 0, 1, 2), subscriptions=2, columns=count)
    built = opindex.build(of)
    assert built.partitions.needed.itemsize == (1 if count < 64 else 2 if count < 16_384 else 4)
    values = np.full((2, count), 1.5)
    values[1, -1] = 3.0
    found = built.match(EventBatch.from_dense(values))
    assert [found.of(e).tolist() for e in (0, 1)] == [[0, 1], [1]]


def test_a_list_of_values_that_satisfies_all_of_many_stays_countable() -> None:
    of = table(*[(0, 0, v, v) for v in range(100)], (0, 1, 5, 5), (1, 0, 3, 3), subscriptions=2, columns=2)
    batch = EventBatch.from_values([0] * 150, [0] * 150, np.arange(150) - 10, n_events=1, n_columns=2)
    assert opindex.build(of).match(batch).of(0).tolist() == [1]


@pytest.mark.parametrize("seed", range(6))
def test_it_agrees_on_larger_tables(seed: int) -> None:
    r = np.random.default_rng(seed)
    of = random_table(r, int(r.choice([0, 1, 300, 900])), 9)
    matcher = opindex.build(of)
    for n in (1, 40):
        agrees(matcher, of, random_batch(r, n, 10))
