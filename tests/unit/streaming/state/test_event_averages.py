"""What the last events were like: averages, of events and not of batches, that follow what comes."""

from __future__ import annotations

import pytest

from streaming.state.event_averages import LAST, LEAST, EventAverages


def test_a_few_events_tell_nothing() -> None:
    assert EventAverages().options() == {}
    assert EventAverages().plus(LEAST - 1, LEAST, LEAST).options() == {}
    assert EventAverages().plus(LEAST, 3 * LEAST, 20 * LEAST).options() == {"attributes": 3.0, "batch": 20.0}


def test_each_event_counts_as_much_as_any_other() -> None:
    seen = EventAverages()
    for _ in range(1_000):  # one by one
        seen = seen.plus(1, 10, 1)
    seen = seen.plus(3_000, 3_000 * 30, 3_000 * 3_000)
    assert seen.options() == {"attributes": 25.0, "batch": pytest.approx(2_250, abs=1)}


def test_events_that_have_nothing_that_subscriptions_name_count_as_small_ones() -> None:
    assert EventAverages().plus(LEAST, 0, LEAST).options()["attributes"] == 1.0


def test_the_last_events_decide() -> None:
    seen = EventAverages().plus(10 * LAST, 100 * LAST, 10 * LAST)
    assert seen.options()["attributes"] == 10.0
    for _ in range(400):
        seen = seen.plus(LAST // 100, LAST // 10 * 2, LAST // 100)
    assert seen.options()["attributes"] == pytest.approx(20.0, rel=0.02)
    assert seen.events == LAST
