"""The flag `--from` of `subscribe`."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from commands.shared.times import start_of

NOW_MS = 1_800_000_000_000


def parsed(text: str, *topics: str) -> Any:
    return start_of("--from", text, NOW_MS, lambda: topics)


@pytest.mark.parametrize(
    ("text", "topics", "start"),
    [
        ("oldest", (), "oldest"),
        ("90s", (), NOW_MS - 90_000),
        ("2026-01-01T01:00:00+01:00", (), 1_767_225_600_000),
        ("20260101T000000Z", (), 1_767_225_600_000),
        ("0:120,1:95", ("events",), {("events", 0): 120, ("events", 1): 95}),
        ("orders/0:120,quotes.eu/12:0", (), {("orders", 0): 120, ("quotes.eu", 12): 0}),
    ],
)
def test_it_takes_oldest_a_time_or_offsets(text: str, topics: tuple[str, ...], start: Any) -> None:
    assert parsed(text, *topics) == start


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "nor is it oldest, nor offsets"),
        ("newest", "'newest' is neither a time"),
        ("0:", "nor offsets such as 0:120,1:95"),
        ("0:1,", "'' is not PARTITION:OFFSET or TOPIC/PARTITION:OFFSET"),
        ("0:1,1h", "'1h' is not PARTITION:OFFSET"),
        ("0:1,0:2", "partition 0 of orders has two offsets"),
        ("orders/0:1,orders/0:1", "partition 0 of orders has two offsets"),
        ("2999-01-01T00:00:00Z", "--from must be before now"),
        ("0s", "--from must be before now"),
    ],
)
def test_others_are_rejected_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(typer.BadParameter) as rejected:
        parsed(text, "orders")
    assert reason in str(rejected.value)


def test_offsets_need_a_topic_where_there_are_several() -> None:
    with pytest.raises(typer.BadParameter, match=r"0:5 does not name its topic \(orders, quotes\); write orders/0:5"):
        parsed("quotes/0:1,0:5", "orders", "quotes")
