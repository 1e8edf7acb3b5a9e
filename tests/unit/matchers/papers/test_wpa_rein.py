"""WPA-REIN: its rate of false positives, the division among threads, the model of its time."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

from matchers import ALGORITHMS, EventBatch, MatchBatch, MatchingError, SubscriptionTable
from matchers.algorithms.pool import run
from matchers.algorithms.wpa_rein import WpaRein, build, unit_times
from matchers.algorithms.wpa_rein.allocation import allocate
from matchers.algorithms.wpa_rein.improvement import by_lemma_2, equation_2
from matchers.algorithms.wpa_rein.matching_time import UnitTimes, best_threads, bucket_sizes, marking_s, matching_s

N, D, K = 5_000, 20, 5
inf, nan = float("inf"), float("nan")


def uniform(r: np.random.Generator) -> tuple[Any, ...]:
    low = r.random((N, K)) * 0.5
    return columns(r, np.ones(D)), low, low + 0.5, r.random((4200, D))


def normal_values(r: np.random.Generator) -> tuple[Any, ...]:
    centre = r.normal(0.5, 0.15, (N, K))
    return columns(r, np.ones(D)), centre - 0.2, centre + 0.2, r.normal(0.5, 0.2, (4200, D))


def zipf_attributes(r: np.random.Generator) -> tuple[Any, ...]:
    low = r.random((N, K)) * 0.5
    return columns(r, 1 / np.arange(1, D + 1)), low, low + 0.5, r.random((4200, D))


def mixed_widths(r: np.random.Generator) -> tuple[Any, ...]:
    width = np.where(r.random((N, K)) < 0.5, 0.1, 0.7) + 0.3 * r.random((N, K))
    low = r.random((N, K)) * (1 - width)
    return columns(r, np.ones(D)), low, low + width, r.random((4200, D))


def partial_events(r: np.random.Generator) -> tuple[Any, ...]:
    column, low, high, values = uniform(r)
    values[r.random(values.shape) < 0.2] = nan
    return column, low, high, values


def columns(r: np.random.Generator, weight: np.ndarray) -> np.ndarray:
    """K different attributes for each subscription, more often those of more weight."""
    return np.argsort(-(r.gumbel(size=(N, D)) + np.log(weight)), axis=1)[:, :K]


WORKLOADS = [uniform, normal_values, zipf_attributes, mixed_widths, partial_events]


@pytest.fixture(scope="module", params=WORKLOADS, ids=lambda workload: workload.__name__)
def workload(request: pytest.FixtureRequest) -> tuple[SubscriptionTable, EventBatch, MatchBatch]:
    table, events, _ = drawn(request.param)
    return table, events, ALGORITHMS["scan"](table).match(events)


def drawn(workload: Any) -> tuple[SubscriptionTable, EventBatch, EventBatch]:
    """A table, 600 events and 3,600 others."""
    column, low, high, values = workload(np.random.default_rng(11))
    table = table_of(np.repeat(np.arange(N), K), column.ravel(), low.ravel(), high.ravel())
    return table, EventBatch.from_dense(values[:600]), EventBatch.from_dense(values[600:])


def table_of(subscription: Any, column: Any, low: Any, high: Any, n: int = N, d: int = D) -> SubscriptionTable:
    return SubscriptionTable.from_intervals(subscription, column, low, high, n_subscriptions=n, n_columns=d)


def measured(found: MatchBatch, true: MatchBatch) -> float:
    """F = FP / (TP + FP); fails when a match is missed."""
    for e in range(len(true)):
        assert np.isin(true.of(e), found.of(e)).all()
    return 1 - len(true.subscription) / len(found.subscription)


def same(found: MatchBatch, expected: MatchBatch) -> bool:
    return np.array_equal(found.offsets, expected.offsets) and np.array_equal(found.subscription, expected.subscription)


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.2])
def test_about_as_many_false_positives_as_asked_for_and_no_match_missed(workload: Any, rate: float) -> None:
    table, events, true = workload
    assert measured(build(table, false_positives=rate).match(events), true) == pytest.approx(rate, rel=0.1)


@pytest.mark.parametrize("name", WORKLOADS, ids=lambda workload: workload.__name__)
def test_events_it_was_not_calibrated_on_have_the_rate_as_well(name: Any) -> None:
    table, events, others = drawn(name)
    found = build(table, false_positives=0.05, sample=others).match(events)
    # False positives come in bursts, with the events at the rim of a domain: 600 tell less of them than 3,600.
    assert measured(found, ALGORITHMS["scan"](table).match(events)) == pytest.approx(0.05, rel=0.2)


def test_a_rate_of_zero_is_exact(workload: Any) -> None:
    table, events, true = workload
    assert same(build(table).match(events), true)


def test_exact_checks_what_is_unmarked(workload: Any) -> None:
    table, events, true = workload
    assert same(build(table, false_positives=0.2, exact=True).match(events), true)


def test_events_have_their_own_rates_without_building_again(workload: Any) -> None:
    table, events, true = workload
    matcher = build(table, sample=events)
    rates = np.tile([0.0, 0.05, 0.2], len(events) // 3)
    found = matcher.match(events, false_positives=rates)
    whole = {rate: matcher.match(events, false_positives=rate) for rate in (0.0, 0.05, 0.2)}
    for e, rate in enumerate(rates.tolist()):
        assert np.array_equal(found.of(e), whole[rate].of(e))
    assert same(matcher.match(events), true)


@pytest.mark.parametrize("threads", [2, 3, 7, "auto"])
def test_threads_find_the_same(workload: Any, threads: Any) -> None:
    table, events, _ = workload
    expected = build(table, false_positives=0.05).match(events)
    assert same(build(table, false_positives=0.05, threads=threads).match(events), expected)


@pytest.mark.parametrize("options", [{"levels": 1}, {"levels": 50}, {"buckets": 1}, {"buckets": 10**6}])
def test_levels_and_buckets_change_no_match(workload: Any, options: Any) -> None:
    table, events, true = workload
    assert same(build(table, **options).match(events), true)


def test_with_few_events_it_is_calibrated_on_the_domain_of_the_table() -> None:
    column, low, high, values = uniform(np.random.default_rng(3))
    table = table_of(np.repeat(np.arange(N), K), column.ravel(), low.ravel(), high.ravel())
    matcher = build(table, false_positives=0.2)
    parts = [EventBatch.from_dense(values[i : i + 5]) for i in range(0, 600, 5)]
    listed = [len(matcher.match(part).subscription) for part in parts]
    true = [len(ALGORITHMS["scan"](table).match(part).subscription) for part in parts]
    assert 1 - sum(true[:12]) / sum(listed[:12]) == pytest.approx(0.2, rel=0.2)
    assert 1 - sum(true) / sum(listed) == pytest.approx(0.2, rel=0.1)


@pytest.mark.kernels
def test_what_an_event_lacks_is_never_skipped() -> None:
    n = 300
    table = table_of(np.arange(n), np.arange(n) % 2, np.zeros(n), np.ones(n), n=n, d=2)
    events = EventBatch.from_dense([[0.5, nan]] * 70 + [[0.5, 0.5], [nan, nan]])
    found = build(table, false_positives=0.9).match(events)
    assert found.of(0).tolist() == list(range(0, n, 2))
    assert found.of(70).tolist() == list(range(n))
    assert found.of(71).tolist() == []


@pytest.mark.kernels
def test_hulls_and_arrays_are_checked_even_when_predicates_are_skipped() -> None:
    table = table_of([0, 0, 1], [0, 0, 0], [0, 8, 0], [2, 9, inf], n=2, d=1)
    events = EventBatch.from_values([0, 1, 2, 2], [0, 0, 0, 0], [5, 8, -1, 12], n_events=3, n_columns=1)
    found = build(table, false_positives=0.9).match(events)
    assert 0 not in found.of(0)
    assert found.of(1).tolist() == [0, 1]
    assert found.of(2).tolist() == [1]


@pytest.mark.large
@pytest.mark.kernels
def test_the_matches_of_an_event_may_fill_the_buffer_in_the_middle_of_a_block() -> None:
    n, events = 40_000, 9
    table = table_of(np.arange(n), np.zeros(n, int), np.zeros(n), np.ones(n), n=n, d=1)
    for threads in (1, 2):
        found = build(table, threads=threads).match(EventBatch.from_dense([[0.5]] * events))
        assert found.offsets.tolist() == [e * n for e in range(events + 1)]


def test_a_matcher_survives_a_pickle_with_its_calibration() -> None:
    table, events, _ = drawn(uniform)
    matcher = build(table, false_positives=0.05)
    expected = matcher.match(events)
    again: WpaRein = pickle.loads(pickle.dumps(matcher))
    assert same(again.match(events), expected)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"levels": 0}, "levels must be an integer of at least 1, not 0"),
        ({"threads": "all"}, "threads must be an integer of at least 1, not 'all'"),
        ({"false_positives": 1.0}, r"false_positives must lie in \[0, 1\), not 1.0"),
        ({"false_positives": nan}, "false_positives must lie in"),
    ],
)
def test_what_build_rejects(options: Any, reason: str) -> None:
    with pytest.raises(MatchingError, match=reason):
        build(table_of([], [], [], []), **options)


def test_one_rate_or_one_for_each_event() -> None:
    with pytest.raises(MatchingError, match="one for each of 2 events"):
        build(table_of([], [], [], [])).match(EventBatch.from_dense([[1.0], [2.0]]), false_positives=[0.1])


def test_work_is_divided_evenly_and_each_group_given_once() -> None:
    work = np.random.default_rng(1).integers(0, 1000, 100).astype(float)
    for threads in (1, 2, 3, 8):
        parts = allocate(work, threads)
        assert sorted(np.concatenate(parts).tolist()) == np.flatnonzero(work).tolist()
        assert all((np.diff(part) > 0).all() for part in parts)
        loads = [work[part].sum() for part in parts]
        assert max(loads) - min(loads) <= work.max()
        assert max(loads) <= 4 / 3 * max(work.sum() / threads, work.max())


def test_the_largest_goes_to_the_thread_with_the_least_work() -> None:
    assert [part.tolist() for part in allocate(np.array([3.0, 7.0, 0.0, 5.0, 4.0]), 2)] == [[0, 1], [3, 4]]
    assert [part.tolist() for part in allocate(np.array([1.0]), 2)] == [[0], []]


def test_tasks_run_and_a_failure_shows() -> None:
    assert run([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]
    with pytest.raises(ZeroDivisionError):
        run([lambda: 1, lambda: 1 // 0])


def test_the_time_model_is_lemma_1_and_equation_1() -> None:
    frequency = np.array([300.0, 600.0])
    # z = 2 * 5 * 300 / (100 * 6) = 5 and 10
    assert bucket_sizes(frequency, levels=5, buckets=100).tolist() == [5.0, 10.0]
    times = UnitTimes(beta_s=2.0, gamma_s=0.5, delta_s=0.25, epsilon_s=0.125)
    # 15 * (2 * 2 + 100 * 0.5) + 2 * 100 * 0.25 = 810 + 50;  + 1000 * 0.125
    assert marking_s(times, frequency, levels=5, buckets=100) == 860.0
    assert matching_s(times, frequency, 1000, levels=5, buckets=100) == 985.0
    # an attribute without predicates is not among the m
    assert marking_s(times, np.array([0.0]), levels=5, buckets=100) == 0.0


FREQUENCY = np.array([300.0, 600.0])  # z = 5 and 10 with 5 levels and 100 buckets, 7.5 on average
FIRST = np.array([True, False])
TIMES = UnitTimes(beta_s=2.0, gamma_s=0.5, delta_s=0.25, epsilon_s=0.125)
LEVELS, BUCKETS = 5, 100
SHAPE = {"levels": LEVELS, "buckets": BUCKETS}


def test_the_improvement_by_lemma_2_is_what_is_not_compared_switched_to_and_traversed() -> None:
    # 2 * 2 * 5 compared, 360 / 7.5 = 48 buckets * 0.25, 360 * 0.5 traversed; T = 985
    assert by_lemma_2(TIMES, FREQUENCY, FIRST, 360, 1000, **SHAPE) == pytest.approx((20 + 12 + 180) / 985)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # 4 * 5 * 900 * 2 / (2 * 5 * 6) = 600; 100 * 2 * 360 * 6 / (2 * 5 * 900 * 0.25) = 192; 0.5 * 360 = 180
        ({"unit_s": 1.0}, (600 + 192 + 180) / 985),
        ({"unit_s": 1.0, "h_s": 0.1}, (600 + 192 + 180) / (985 + 15 * 100 * 0.1)),
        ({"unit_s": 0.5}, (1200 + 96 + 360) / 1970),  # delta divides, so the unit matters
    ],
)
def test_equation_2_as_it_stands(options: dict[str, float], expected: float) -> None:
    found = equation_2(TIMES, FREQUENCY, FIRST, 360, 1000, levels=LEVELS, buckets=BUCKETS, **options)
    assert found == pytest.approx(expected)


def test_nothing_skipped_saves_nothing_and_a_delta_of_zero_cannot_divide() -> None:
    none, free = np.array([False, False]), UnitTimes(2.0, 0.5, 0.0, 0.125)
    assert by_lemma_2(free, FREQUENCY, none, 0, 1000, **SHAPE) == 0.0
    assert equation_2(free, FREQUENCY, none, 0, 1000, **SHAPE) == 0.0
    with pytest.raises(MatchingError, match="delta_s must be above 0"):
        equation_2(free, FREQUENCY, FIRST, 360, 1000, **SHAPE)


def test_a_profile_counts_what_is_skipped() -> None:
    table, events, _ = drawn(mixed_widths)
    nothing = build(table, false_positives=0.0).profile(events)
    assert set(nothing.values()) == {0.0}
    some, more = (build(table, false_positives=rate, sample=events).profile(events) for rate in (0.05, 0.5))
    assert 0 < some["predicates skipped"] < more["predicates skipped"] < N * K
    assert 0 < some["improvement by Lemma 2"] < more["improvement by Lemma 2"] < 1
    assert 0 < some["improvement by Eq. 2"] < more["improvement by Eq. 2"]


@pytest.mark.parametrize(
    ("marking", "checking", "handover_s", "most", "threads"),
    [
        (1.0, 1.0, 0.0, 8, 1),
        (100.0, 1.0, 0.0, 8, 8),
        (16.0, 1.0, 0.0, 8, 4),  # 16 / 4 + 4 is less than 16 / 3 + 3 and 16 / 5 + 5
        (16.0, 1.0, 100.0, 8, 1),
        (100.0, 1.0, 0.0, 1, 1),
    ],
)
def test_more_threads_only_where_they_gain_more_than_they_cost(
    marking: float, checking: float, handover_s: float, most: int, threads: int
) -> None:
    assert best_threads(marking, checking, handover_s, most) == threads


def test_unit_times_are_read_from_the_clock_once() -> None:
    ticks: Iterator[int] = count()
    read = []

    def clock() -> float:
        read.append(next(ticks))
        return float(read[-1])

    times = unit_times(clock, 1000)
    # one tick for each task: nothing is left of beta, gamma and delta, which are differences of two
    assert (times.beta_s, times.gamma_s, times.delta_s) == (0.0, 0.0, 0.0)
    assert times.epsilon_s == 1 / (4096 * 16)
    assert times.handover_s == 1.0
    so_far = len(read)
    assert unit_times(clock, 1000) is times
    assert len(read) == so_far


def test_unit_times_of_this_machine_are_times() -> None:
    times = unit_times(time.thread_time, 1000)  # a busy machine takes none of it
    assert all(0 <= t < 1e-3 for t in (times.beta_s, times.gamma_s, times.delta_s, times.epsilon_s))
