"""Averages of recent events, not of batches, that follow new events."""

from __future__ import annotations

import pytest

from streaming.state.event_averages import KNOWN_FROM_EVENTS, RECENT_EVENTS, EventAverages


def test_a_few_events_tell_nothing() -> None:
    assert EventAverages().options() == {}
    assert EventAverages().plus(KNOWN_FROM_EVENTS - 1, KNOWN_FROM_EVENTS, KNOWN_FROM_EVENTS).options() == {}
    assert EventAverages().plus(KNOWN_FROM_EVENTS, 3 * KNOWN_FROM_EVENTS, 20 * KNOWN_FROM_EVENTS).options() == {
        "attributes": 3.0,
        "batch": 20.0,
    }


def test_each_event_counts_as_much_as_any_other() -> None:
    seen = EventAverages()
    for _ in range(1_000):  # one by one
        seen = seen.plus(1, 10, 1)
    seen = seen.plus(3_000, 3_000 * 30, 3_000 * 3_000)
    assert seen.options() == {"attributes": 25.0, "batch": pytest.approx(2_250, abs=1)}


def test_events_that_have_nothing_that_subscriptions_name_count_as_small_ones() -> None:
    assert EventAverages().plus(KNOWN_FROM_EVENTS, 0, KNOWN_FROM_EVENTS).options()["attributes"] == 1.0


def test_the_last_events_decide() -> None:
    seen = EventAverages().plus(10 * RECENT_EVENTS, 100 * RECENT_EVENTS, 10 * RECENT_EVENTS)
    assert seen.options()["attributes"] == 10.0
    for _ in range(400):
        seen = seen.plus(RECENT_EVENTS // 100, RECENT_EVENTS // 10 * 2, RECENT_EVENTS // 100)
    assert seen.options()["attributes"] == pytest.approx(20.0, rel=0.02)
    assert seen.events == RECENT_EVENTS
