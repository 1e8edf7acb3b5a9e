"""A backtest counts the events that match by time, and shows the first."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from config import Settings
from streaming.admin import backtest
from streaming.admin.backtest import Backtest
from streaming.admin.replay_batch import matching_of
from streaming.rows import INPUT
from tests.support.doubles.stage import event

NOW_MS = 1_700_000_000_000
DOCUMENT = b'{"id": "b", "subscriber": "b", "pattern": {"x": [{"numeric": [">", 4]}]}}'
MATCHING = matching_of(Settings(), "b", DOCUMENT)


def outcome(*rows: dict[str, Any], examples: int = 3) -> Backtest:
    found = Backtest(["events"], (NOW_MS, NOW_MS + 10**10))
    for row in rows:
        found.add(pa.RecordBatch.from_pylist([row], schema=INPUT), MATCHING, examples)
    return found


def test_events_are_counted_by_time_and_the_first_are_shown() -> None:
    rows = [event(n, {"x": n}, timestamp=NOW_MS + 100 * n) for n in range(20)]
    found = outcome(*rows, event(20, b"{not json", NOW_MS), event(21, b'{"x": 9, "t": "\x1b[0m"}', NOW_MS), examples=2)
    assert (found.events, found.matched, found.unread, found.step_s) == (22, 15, 2, 1)
    assert found.as_data()["steps"] == [
        {"from": "2023-11-14T22:13:20.000Z", "events": 12, "matched": 5},
        {"from": "2023-11-14T22:13:21.000Z", "events": 10, "matched": 10},
    ]
    assert [example.offset for example in found.examples] == [5, 6]
    assert str(found).splitlines() == [
        "15 of 22 events in events match (68.2 %); 2 could not be read",
        "FROM (UTC)               EVENTS      MATCH",
        "2023-11-14 22:13:20          12          5",
        "2023-11-14 22:13:21          10         10",
        '0:5  2023-11-14 22:13:20.500Z  {"x": 5}',
        '0:6  2023-11-14 22:13:20.600Z  {"x": 6}',
    ]


def test_the_steps_grow_with_the_time_between_events() -> None:
    rows = [event(n, {"x": 5}, timestamp=NOW_MS + 7_000 * n) for n in range(200)]
    found = outcome(*rows)
    assert found.step_s == 60
    assert len(found.by_step) == 24
    assert sum(numbers["matched"] for numbers in found.by_step.values()) == 200


def test_times_outside_the_range_have_no_line() -> None:
    found = outcome(
        event(0, {"x": 5}, timestamp=-1), event(1, {"x": 5}, timestamp=2**62), event(2, {"x": 5}, timestamp=5)
    )
    assert (found.matched, found.by_step) == (3, {})
    assert str(found).splitlines()[0] == "3 of 3 events in events match (100 %)"


def test_nothing_is_no_share() -> None:
    assert str(outcome()) == "0 of 0 events in events match"
    assert tuple(sorted(backtest.STEPS_S)) == backtest.STEPS_S


def test_what_retention_deleted_while_it_read_is_named() -> None:
    found = outcome(event(0, {"x": 5}))
    assert "deleted" not in str(found)
    found.deleted = 1_200
    assert str(found).startswith("1 of 1 events in events match (100 %); 1,200 offsets deleted before they were read")
    assert found.as_data()["deleted"] == 1_200
