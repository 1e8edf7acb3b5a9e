"""A pattern of names chooses among the topics there are, and never one of the job's own."""

from __future__ import annotations

from typing import Any

import pytest

from config import load
from streaming.errors import TopicMissing
from streaming.kafka.event_topics import is_matched, resolved

THERE = dict.fromkeys(
    [
        "orders.eu",
        "orders.us",
        "reorders.eu",
        "orders",
        "__orders",
        "subscriptions",
        "deadletters",
        "subscribers.metrics",
        "deliveries.orders",
    ],
    1,
)


def matched(pattern: str, **flags: Any) -> list[str]:
    return list(resolved(load(flags={"events.topic_pattern": pattern, **flags}), lambda: THERE).events.names)


def test_a_pattern_matches_whole_names() -> None:
    assert matched(r"orders\..*") == ["orders.eu", "orders.us"]
    assert matched("orders") == ["orders"]


def test_a_job_does_not_read_what_it_writes() -> None:
    assert matched(".*") == ["orders", "orders.eu", "orders.us", "reorders.eu"]
    assert not is_matched(load(flags={"events.topic_pattern": ".*"}), "deliveries_bob")
    assert "subscribers.metrics" in matched(".*", **{"metrics.topic": ""})
    shared = {"deliveries.layout": "shared", "deliveries.topic": "orders.us"}
    assert matched(".*o.*", **shared) == ["deliveries.orders", "orders", "orders.eu", "reorders.eu"]


def test_a_pattern_that_matches_nothing_is_said() -> None:
    with pytest.raises(TopicMissing, match=r"events.topic_pattern = 'x.\*' matches no topic"):
        matched("x.*")


def test_without_a_pattern_nobody_is_asked() -> None:
    def asked() -> dict[str, int]:
        raise AssertionError

    assert resolved(load(), asked).events.names == ("events",)
