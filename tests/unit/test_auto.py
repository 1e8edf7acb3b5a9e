"""`auto` measures on samples, extrapolates to the whole table, and explains its choice."""

from __future__ import annotations

import logging

import numba
import numpy as np
import pytest

from matchers import EventBatch, Interfaces, MatchBatch, Matcher, MatchingError, SubscriptionTable
from matchers.algorithms import auto
from matchers.algorithms.auto import choosing
from matchers.algorithms.auto.choosing import Choice
from tests.unit.agreement import agrees, random_batch, random_table, uniform_table

pytestmark = pytest.mark.kernels


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Timed(Matcher):
    """Takes so many us with 1,000 subscriptions, and so much more for each attribute of the events; lists nothing."""

    def __init__(self, table: SubscriptionTable, us: float, growth: float, attribute: float, clock: Clock) -> None:
        self.us, self.attribute, self.clock = us * (table.n_subscriptions / 1_000) ** growth, attribute, clock

    def match(self, events: EventBatch) -> MatchBatch:
        self.clock.now += 1e-6 * (self.us * len(events) + self.attribute * len(events.column))
        return MatchBatch(np.zeros(len(events) + 1, np.int64), np.empty(0, np.int32))


def chosen(
    table: SubscriptionTable, attributes: float | None = None, **algorithms: tuple[float, float, float]
) -> list[Choice]:
    clock = Clock()
    builds = {name: lambda t, given=given: Timed(t, *given, clock) for name, given in algorithms.items()}
    return choosing.choose(table, builds, clock, attributes)


def test_what_grows_less_is_chosen_for_a_large_table_though_it_is_behind_on_both_samples() -> None:
    linear, root = (1.0, 1.0, 0.0), (9.0, 0.5, 0.0)
    (small,) = chosen(uniform_table(8_000, 3, 2, 0.3), linear=linear, root=root)
    (large,) = chosen(uniform_table(200_000, 3, 2, 0.3), linear=linear, root=root)
    assert (small.algorithm, large.algorithm) == ("linear", "root")
    assert small.us == pytest.approx(8.0)
    assert large.us == pytest.approx(9 * 200**0.5, rel=0.01)


def test_events_of_few_attributes_may_have_another_algorithm_than_events_of_many() -> None:
    found = chosen(uniform_table(3_000, 40, 4, 0.3), sparse=(0.0, 0.0, 1.0), dense=(15.0, 0.0, 0.0))
    assert [choice.algorithm for choice in found] == ["sparse", "sparse", "sparse", "dense", "dense"]
    assert [round(choice.attributes) for choice in found] == [4, 7, 13, 22, 40]


def test_where_the_size_of_events_is_known_one_algorithm_is_chosen_for_it() -> None:
    table, sparse, dense = uniform_table(3_000, 40, 4, 0.3), (0.0, 0.0, 1.0), (15.0, 0.0, 0.0)
    assert [c.algorithm for c in chosen(table, 14, sparse=sparse, dense=dense)] == ["sparse"]
    assert [c.algorithm for c in chosen(table, 16, sparse=sparse, dense=dense)] == ["dense"]


def test_two_algorithms_are_chosen_at_most() -> None:
    table = uniform_table(3_000, 40, 4, 0.3)
    found = chosen(table, first=(0.0, 0.0, 1.0), second=(11.0, 0.0, 0.05), last=(15.0, 0.0, -0.1))
    assert [choice.algorithm for choice in found] == ["first", "first", "first", "last", "last"]


def test_one_index_serves_all_events_where_another_would_gain_next_to_nothing() -> None:
    found = chosen(uniform_table(3_000, 40, 4, 0.3), one=(100.0, 0.0, 0.0), other=(98.0, 0.0, 0.1))
    assert {choice.algorithm for choice in found} == {"one"}


def test_drawn_events_hold_values_of_intervals_in_as_many_attributes_as_asked() -> None:
    table = SubscriptionTable.from_intervals(
        [0, 0, 1, 2], [0, 1, 1, 2], [3, -np.inf, 5, -np.inf], [3, 7, np.inf, np.inf], n_subscriptions=3, n_columns=3
    )
    events = choosing.drawn(table, 2)
    assert len(events) == choosing.EVENTS
    assert set(zip(events.column.tolist(), events.value.tolist(), strict=True)) == {(0, 3.0), (1, 7.0), (1, 5.0)}
    assert (np.diff(events.offsets) == 2).all()  # nothing is known of the third column, so nobody has it


def test_one_algorithm_for_all_sizes_may_be_a_tenth_behind() -> None:
    table = uniform_table(3_000, 40, 4, 0.3)
    found = chosen(table, first=(6.0, 0.0, 1.0), between=(9.0, 0.0, 0.2), last=(15.6, 0.0, 0.0))
    assert [choice.algorithm for choice in found] == ["between"] * 5  # 17 where 15.6 would do


def test_a_sample_has_subscriptions_of_all_parts_of_the_table() -> None:
    table = uniform_table(1_000, 5, 2, 0.3)
    sample = choosing.sampled(table, 10)
    assert sample.n_subscriptions == 10
    assert sample.needed.tolist() == [2] * 10
    assert sample.low[-2:].tolist() == table.low[-2:].tolist()


def test_the_reason_is_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "sluice.matching"):
        built = auto.build(uniform_table(auto.FEW, 3, 2, 0.3))
    assert caplog.messages == [built.reason] == ["hem for 2,000 subscriptions, too few to measure"]


def test_each_batch_is_matched_where_its_events_belong() -> None:
    table = uniform_table(5, 1, 1, 0.5)
    few, many = (Timed(table, 1.0, 0.0, 0.0, Clock()) for _ in range(2))
    built = auto.Auto((Choice(4, "few", 1), Choice(40, "many", 1)), (few, many), "")
    for attributes, asked in ((1, few), (12, few), (14, many), (300, many)):
        before = asked.clock.now
        built.match(EventBatch.from_dense(np.ones((1, attributes))))
        assert asked.clock.now > before
    built.forward(EventBatch.from_dense(np.empty((0, 0))), Interfaces.from_ids([0] * 5, 1))


def test_a_wrong_size_of_events_is_refused() -> None:
    with pytest.raises(MatchingError, match="attributes of an event must be above 0, not 0"):
        auto.build(uniform_table(5, 1, 1, 0.5), attributes=0)


@pytest.mark.parametrize("n", [300] if numba.config.DISABLE_JIT else [300, 2_500])  # uncompiled loops take their time
def test_it_lists_what_scan_lists(n: int) -> None:
    r = np.random.default_rng(n)
    table = random_table(r, n, 9)
    agrees(auto.build(table), table, random_batch(r, 20, 9))
