"""Configurations drawn at random: each alone the same, all kinds among them, and all exact algorithms agree on each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice, pairwise
from math import inf, nextafter

import numpy as np
import pytest

from bench.matching import answers
from bench.matching.choices import EXACT
from bench.workloads.configurations import drawing, events
from bench.workloads.configurations.configuration import (
    BEYOND,
    ELSEWHERE,
    EQUAL,
    HALF_OPEN,
    HIT,
    KINDS,
    LIST,
    MIXED,
    OPERATORS,
    POPULARITIES,
    RANGE,
    SAME,
    UNEQUAL,
    Configuration,
)
from bench.workloads.configurations.drawing import configuration, configurations
from bench.workloads.configurations.workload import RandomWorkload
from bench.workloads.distributions import UNIFORM
from matchers import ALGORITHMS, EventBatch, SubscriptionTable

BATCH = list(islice(configurations(1), 40))

PLAIN = Configuration(
    seed=1,
    number=0,
    subscriptions=50,
    different=50,
    attributes=8,
    predicates=(2, 3),
    popularity="uniform",
    operator="range",
    width=0.1,
    mixed_widths=False,
    list_length=1,
    values=UNIFORM,
    codes=None,
    correlated=False,
    event_kind="alike",
    event_size=None,
)


def matches(configuration: Configuration, n_events: int = 64) -> np.ndarray:
    """Return the number of matches of each event, by `naive`."""
    prepared = RandomWorkload(configuration, n_events).prepared()
    return np.diff(ALGORITHMS["naive"](prepared.table).match(prepared.events).offsets)


def test_a_configuration_drawn_alone_is_that_of_the_sequence() -> None:
    assert [configuration(1, number) for number in (7, 3, 30)] == [BATCH[7], BATCH[3], BATCH[30]]
    assert configuration(2, 7) != replace(BATCH[7], seed=2)
    first, again = (RandomWorkload(BATCH[7]).small().prepared() for _ in range(2))
    assert [array.tolist() for array in (first.table.low, first.events.value, first.training().value)] == [
        array.tolist() for array in (again.table.low, again.events.value, again.training().value)
    ]
    assert first.training().value.tolist() != first.events.value.tolist()


@pytest.mark.parametrize(
    ("of", "kinds"),
    [
        (lambda c: c.operator, {*OPERATORS, MIXED}),
        (lambda c: c.popularity, set(POPULARITIES)),
        (lambda c: c.event_kind, set(KINDS)),
        (lambda c: str(c.values), set(drawing.VALUES)),
        (lambda c: c.codes is None, {True, False}),
        (lambda c: c.correlated, {True, False}),
        (lambda c: c.mixed_widths, {True, False}),
        (lambda c: c.event_size is None, {True, False}),
        (lambda c: c.predicates[0] == c.predicates[1], {True, False}),
        (
            lambda c: "one" if c.different == 1 else "few" if c.different < c.subscriptions else "all",
            {"one", "few", "all"},
        ),
        (lambda c: len(str(c.subscriptions)), {2, 3, 4, 5, 6}),
    ],
)
def test_some_of_each_kind_are_drawn(of: Callable[[Configuration], object], kinds: set[object]) -> None:
    assert {of(one) for one in BATCH} == kinds


def test_sizes_are_bounded() -> None:
    many = list(islice(configurations(3), 2_000))
    assert max(one.subscriptions * one.intervals for one in many) <= drawing.MOST_INTERVALS
    assert 500_000 < max(one.subscriptions for one in many) <= drawing.MOST_SUBSCRIPTIONS
    assert all(1 <= one.different <= one.subscriptions for one in many)
    assert all(one.predicates[1] <= one.attributes for one in many)


@pytest.mark.parametrize("number", range(len(BATCH)))
def test_all_exact_algorithms_agree_with_the_definition(number: int) -> None:
    prepared = RandomWorkload(BATCH[number]).small().prepared()
    assert prepared.table.n_columns == BATCH[number].attributes
    needed = prepared.table.needed
    least, most = BATCH[number].predicates
    assert least <= needed.min() <= needed.max() <= most
    wanted = ALGORITHMS["naive"](prepared.table).match(prepared.events)
    for name in (*EXACT, "auto"):
        found = ALGORITHMS[name](prepared.table).match(prepared.events)
        assert answers.compare(found, wanted).same, name


@pytest.mark.parametrize(
    ("operator", "intervals", "holds"),
    [
        (RANGE, [(0.5, 0.75)], {0.25: False, 0.5: True, 0.75: True, 1.0: False}),
        (EQUAL, [(0.5, 0.5)], {0.25: False, 0.5: True, 0.75: False}),
        (UNEQUAL, [(-inf, nextafter(0.5, 0)), (nextafter(0.5, 1), inf)], {0.25: True, 0.5: False, 0.75: True}),
    ],
)
def test_the_intervals_of_an_operator(
    operator: str, intervals: list[tuple[float, float]], holds: dict[float, bool]
) -> None:
    """Some of the subscriptions want 0.5, one of four codes."""
    table = RandomWorkload(replace(PLAIN, operator=operator, predicates=(1, 1), width=0.25, codes=4)).prepared().table
    bounds = [
        list(zip(table.low[a:b].tolist(), table.high[a:b].tolist(), strict=True)) for a, b in pairwise(table.start)
    ]
    about = bounds.index(intervals)
    for value, wanted in holds.items():
        event = EventBatch.from_dense(np.full((1, PLAIN.attributes), value))
        assert (about in ALGORITHMS["naive"](table).match(event).subscription) is wanted


def test_a_list_has_values_and_a_half_open_range_one_end() -> None:
    some = replace(PLAIN, predicates=(1, 1), codes=100)
    table = RandomWorkload(replace(some, operator=LIST, list_length=5)).prepared().table
    assert 4 < len(table.low) / some.subscriptions <= 5  # two that are the same are one
    assert (table.low == table.high).all()
    table = RandomWorkload(replace(some, operator=HALF_OPEN)).prepared().table
    assert ((table.low == -inf) != (table.high == inf)).all()
    assert 10 < np.count_nonzero(table.low == -inf) < 40


@pytest.mark.parametrize("operator", [*OPERATORS, MIXED])
def test_events_that_hit_satisfy_a_subscription(operator: str) -> None:
    some = replace(PLAIN, operator=operator, list_length=4, event_size=2)
    assert matches(replace(some, event_kind=HIT)).min() >= 1
    same = matches(replace(some, event_kind=SAME))
    assert same.min() == same.max() >= 1


def test_events_from_elsewhere_miss_codes_and_those_beyond_miss_all() -> None:
    coded = replace(PLAIN, operator=LIST, list_length=8, codes=10, predicates=(1, 1))
    assert matches(coded).min() >= 1
    assert matches(replace(coded, event_kind=ELSEWHERE)).max() == 0
    assert matches(replace(PLAIN, event_kind=BEYOND)).max() == 0
    assert matches(replace(PLAIN, operator=UNEQUAL, event_kind=BEYOND)).min() == PLAIN.subscriptions


def test_correlated_values_are_near_one_another() -> None:
    def spread(table: SubscriptionTable) -> float:
        return float(np.mean([np.ptp(table.low[table.start[s] : table.start[s + 1]]) for s in range(50)]))

    near, far = (RandomWorkload(replace(PLAIN, correlated=is_near)).prepared() for is_near in (True, False))
    assert spread(near.table) < spread(far.table) / 4
    assert matches(replace(PLAIN, correlated=True)).mean() > 2 * matches(PLAIN).mean()


def test_events_that_match_very_many_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    all_match = replace(PLAIN, operator=UNEQUAL, event_kind=BEYOND)  # 50 matches of each event
    monkeypatch.setattr(events, "MOST_MATCHES", 5_000)
    assert len(RandomWorkload(all_match).prepared()) == 100
    monkeypatch.setattr(events, "MOST_MATCHES", 50)
    assert len(RandomWorkload(all_match).prepared()) == events.FEWEST
