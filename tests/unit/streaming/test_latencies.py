"""Latencies add up, and their quantiles are close."""

from __future__ import annotations

import json
from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from streaming.latencies import GROWTH, NEWEST_MS, OLDEST_MS, STAGES, TOTAL, Latencies, by_stage

milliseconds = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=50)


def of(values: list[float]) -> Latencies:
    found = Latencies()
    for value in values:
        found.add(value)
    return found


@given(values=milliseconds, q=st.sampled_from([0.01, 0.5, 0.95, 0.99, 1.0]))
def test_a_quantile_is_at_most_one_bucket_too_high(values: list[float], q: float) -> None:
    exact = sorted(values)[max(0, -(-int(q * 100) * len(values) // 100) - 1)]
    found = of(values).quantile(q)
    assert found is not None
    assert exact <= found * 1.000001 <= max(1.0, exact * GROWTH) * 1.00001


@given(a=milliseconds, b=milliseconds)
def test_histograms_add_up_also_by_way_of_json(a: list[float], b: list[float]) -> None:
    together = Latencies.from_json(json.loads(json.dumps(of(a).to_json())))
    together.update(of(b))
    assert together.counts == of(a + b).counts
    assert isclose(together.sum_ms, sum(a + b), abs_tol=0.1)
    both = of(a).plus(of(b))
    assert (both.counts, both.max_ms) == (of(a + b).counts, max(a + b))
    assert isclose(both.sum_ms, sum(a + b))


def test_who_holds_latencies_sees_nothing_of_what_they_are_added_to() -> None:
    one = of([5.0])
    one.plus(of([5.0, 7.0]))
    assert one == of([5.0])


def test_events_without_a_credible_time_are_no_latencies() -> None:
    at_once = 1e9, (1e9, 1e9, 1e9)
    strange = [-(2**63), -1, 0, int(1e12) - OLDEST_MS - 1, int(1e12) + NEWEST_MS + 1, 2**63 - 1]
    found = by_stage([*strange, int(1e12) - OLDEST_MS, int(1e12) + NEWEST_MS, int(1e12) - 7], *at_once)
    assert {stage: sum(found[stage].counts.values()) for stage in found} == dict.fromkeys((*STAGES, TOTAL), 3)
    assert found[TOTAL].max_ms == OLDEST_MS
    assert by_stage(strange, *at_once)[TOTAL] == Latencies()


def test_nothing_has_no_quantiles() -> None:
    assert Latencies().summary() == {"p50": None, "p95": None, "p99": None, "max": None}


def test_stages_account_for_the_whole() -> None:
    found = by_stage([9_000, 9_900], 10.0, (10.2, 10.25, 10.3))
    assert found[TOTAL].max_ms == 1_300
    assert round(sum(found[stage].max_ms for stage in STAGES), 6) == 1_300
    assert sum(found["commit"].counts.values()) == 2
