"""COMAT chooses the faster algorithm for an event, and the choice changes no match."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from matchers import ALGORITHMS, EventBatch, MatchBatch, Matcher, MatchingError, SubscriptionTable
from matchers.papers import comat
from matchers.papers.comat.kernel import interleave
from matchers.papers.comat.predicted_time import ENDS, GROUPS, SIZE, drawn, ends_of, features_of, learned
from tests.unit.matchers.agreement import agrees, random_batch, random_table, uniform_table

pytestmark = pytest.mark.kernels
inf = float("inf")


class Clock:
    """Stands still but for what an algorithm is told to take."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, eq=False)
class Costing(Matcher):
    """Takes so many seconds for an event, for each of its values, for a hit and for a miss; keeps what it is asked."""

    table: SubscriptionTable
    inner: Matcher
    clock: Clock
    event_s: float = 0.0
    value_s: float = 0.0
    hit_s: float = 0.0
    miss_s: float = 0.0
    asked: list[int] = field(default_factory=list, init=False)

    def match(self, events: EventBatch) -> MatchBatch:
        _, values, hits, _ = features_of(ends_of(self.table), events).sum(axis=0)
        misses = len(events) * self.table.needed.sum() - hits
        self.clock.now += self.event_s * len(events) + self.value_s * values + self.hit_s * hits + self.miss_s * misses
        self.asked.append(len(events))
        return self.inner.match(events)


def costing(clock: Clock, **seconds: float) -> comat.Builder:
    return lambda table: Costing(table, ALGORITHMS["scan"](table), clock, **seconds)


def asked(built: comat.Comat) -> tuple[list[int], list[int]]:
    """The number of events in each call of the counting and of the marking algorithm."""
    counting, marking = built.algorithms
    assert isinstance(counting, Costing)
    assert isinstance(marking, Costing)
    return counting.asked, marking.asked


def table() -> SubscriptionTable:
    return uniform_table(400, 8, 4, 0.4)


def mixed(n: int = 60, columns: int = 8, seed: int = 5) -> EventBatch:
    """Return events with one column up to all columns."""
    r = np.random.default_rng(seed)
    dense = r.random((n, columns))
    dense[r.random((n, columns)) > r.random((n, 1))] = np.nan
    return EventBatch.from_dense(dense)


def test_the_features_are_what_both_algorithms_pay_for() -> None:
    of = SubscriptionTable.from_intervals(
        [0, 1, 2, 2, 3, 3], [0, 0, 0, 0, 1, 2], [1, 2, -inf, 6, 5, inf], [3, 4, 0, inf, 5, -inf],
        n_subscriptions=4, n_columns=3,
    )  # fmt: skip
    events = EventBatch.from_values(
        [0, 1, 1, 2, 2, 4, 4], [0, 0, 1, 0, 0, 2, 7], [2.5, 9, 5, 1, 6, 0, 0], n_events=5, n_columns=9
    )
    found = features_of(ends_of(of), events).tolist()
    assert found == [
        [1, 1, 2, 3],  # 1..3 and 2..4, of three predicates in column 0
        [1, 2, 2, 4],  # 6..inf, and 5..5 in column 1
        [1, 2, 2, 3],  # an array: 1..3 by the one, 6..inf by the other, in one column
        [1, 0, 0, 0],
        [1, 1, 0, 1],  # the empty interval is hit by nothing; column 7 is not the table's
    ]


def test_hits_are_known_to_about_an_interval_in_256() -> None:
    of = uniform_table(5_000, 3, 2, 0.3)
    events = EventBatch.from_dense(np.random.default_rng(2).random((50, 3)))
    ends = ends_of(of)
    assert np.diff(ends.start).max() <= ENDS
    expected = np.array(
        [
            sum(np.count_nonzero((of.column == c) & (of.low <= v) & (v <= of.high)) for c, v in enumerate(row))
            for row in events.value.reshape(50, 3)
        ]
    )
    most = float(ends.each.sum())
    assert np.abs(features_of(ends, events)[:, 2] - expected).max() <= most


def test_drawn_events_have_few_columns_and_all_and_hit_from_little_to_much() -> None:
    of = table()
    groups = drawn(of)
    assert [len(group) for group in groups] == [SIZE] * GROUPS
    means = np.array([features_of(ends_of(of), group).mean(axis=0) for group in groups])
    assert means[0, 1] < 2
    assert means[-1, 1] == 8
    assert means[:, 2].max() > 4 * means[:, 2].min()


@pytest.mark.parametrize(
    "seconds",
    [
        {"event_s": 3.0},
        {"value_s": 2.0},
        {"hit_s": 0.5},
        {"miss_s": 0.5},
        {"event_s": 9.0, "hit_s": 0.1, "miss_s": 0.2},
    ],
)
def test_a_time_that_values_hits_and_misses_make_up_is_predicted(seconds: dict[str, float]) -> None:
    clock, of = Clock(), table()
    matcher = Costing(of, ALGORITHMS["scan"](of), clock, **seconds)
    events = mixed()
    predicted = learned(of, [matcher], clock).of(events)[:, 0]
    for e in range(len(events)):
        before = clock.now
        matcher.match(comat._chosen(events, np.array([e])))
        assert predicted[e] == pytest.approx(clock.now - before, abs=1e-6)


def test_each_event_goes_to_the_algorithm_that_is_expected_to_be_faster() -> None:
    clock, of, events = Clock(), table(), mixed()
    built = comat.build(
        of, fewest=0, counting=costing(clock, hit_s=1.0), marking=costing(clock, miss_s=0.25), clock=clock
    )
    hits = features_of(ends_of(of), events)[:, 2]
    marked = hits > 0.25 * (of.needed.sum() - hits)
    assert 0 < marked.sum() < len(events)
    assert (built.fastest(events) == marked).all()
    counting, marking = asked(built)
    counting.clear()
    marking.clear()
    built.match(events)
    assert (counting, marking) == ([int((~marked).sum())], [int(marked.sum())])


def test_few_intervals_are_not_measured_and_a_hit_counts_like_a_miss() -> None:
    clock, of, events = Clock(), table(), mixed()
    counting, marking = costing(clock, hit_s=1.0), costing(clock, miss_s=0.25)
    built = comat.build(of, counting=counting, marking=marking, fewest=len(of.low) + 1, clock=clock)
    assert clock.now == 0.0
    hits = features_of(ends_of(of), events)[:, 2]
    assert (built.fastest(events) == (hits > of.needed.sum() / 2)).all()
    comat.build(of, counting=counting, marking=marking, fewest=len(of.low), clock=clock)
    assert clock.now > 0.0


def test_the_same_measurements_give_the_same_predictions() -> None:
    weights = []
    for _ in range(2):
        clock = Clock()
        built = comat.build(
            table(), fewest=0, counting=costing(clock, hit_s=1.0), marking=costing(clock, value_s=3.0), clock=clock
        )
        weights.append(built.seconds.weights.tolist())
    assert weights[0] == weights[1]


def test_matches_are_put_back_in_the_order_of_events() -> None:
    counts, out = np.zeros(4, np.int64), np.zeros(5, np.int32)
    interleave(
        np.array([1, 0, 0, 1]),
        np.array([0, 2, 2]),
        np.array([3, 4], np.int32),
        np.array([0, 1, 3]),
        np.array([9, 7, 8], np.int32),
        counts,
        out,
    )
    assert (counts.tolist(), out.tolist()) == ([1, 2, 0, 2], [9, 3, 4, 7, 8])


@pytest.mark.parametrize("threads", [1, 2, 3, 100])
def test_threads_share_the_events_and_change_no_match(threads: int) -> None:
    clock, of, events = Clock(), table(), mixed()
    built = comat.build(
        of,
        fewest=0,
        threads=threads,
        counting=costing(clock, hit_s=1.0),
        marking=costing(clock, miss_s=0.25),
        clock=clock,
    )
    counting, marking = asked(built)
    counting.clear()
    marking.clear()
    assert built.match(events).subscription.tolist() == ALGORITHMS["scan"](of).match(events).subscription.tolist()
    parts = min(threads, len(events))
    assert (len(counting), len(marking)) == (parts, parts)


@pytest.mark.parametrize("seed", range(4))
def test_it_agrees_on_larger_tables(seed: int) -> None:
    r = np.random.default_rng(seed)
    of = random_table(r, int(r.choice([0, 1, 300, 900])), 9)
    matcher = comat.build(of, threads=2, fewest=100)
    for n in (0, 1, 40):
        agrees(matcher, of, random_batch(r, n, 10))


def test_it_occupies_what_both_do() -> None:
    built = comat.build(table())
    assert built.memory_bytes() > sum(algorithm.memory_bytes() for algorithm in built.algorithms)


def test_threads_are_one_or_more() -> None:
    with pytest.raises(MatchingError, match="threads must be 1 or more, not 0"):
        comat.build(table(), threads=0)
