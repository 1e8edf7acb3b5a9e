"""A subscription on a line of the list, and as JSON."""

from __future__ import annotations

import re

import pytest

from streaming.admin import subscription_table
from streaming.admin.subscription_topic import stored_subscriptions
from streaming.documents.change_order import Decisions
from tests.support.doubles.topic import Topic

NOW_MS = 1_800_000_000_000  # in January 2027
ALICE = {"subscriber": "alice", "pattern": {"x": [1]}}


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({}, "in force"),
        ({"expires_at": "2027-02-01T00:00:00Z"}, "in force"),
        ({"expires_at": "2027-01-01T00:00:00Z"}, "expired"),
        ({"paused": True, "expires_at": "2027-01-01T00:00:00Z"}, "paused"),
    ],
)
def test_a_subscription_is_in_force_paused_or_expired(more: dict[str, object], state: str) -> None:
    (one,) = stored_subscriptions(Topic(("s", ALICE | more)), Decisions())
    assert subscription_table.as_data(one, NOW_MS) == {
        "id": "s",
        "subscriber": "alice",
        "state": state,
        "partition": 0,
        "offset": 0,
        "time": "1970-01-01T00:00:00.000Z",
        "document": ALICE | more,
    }
    assert re.split(" {2,}", subscription_table.row(one, NOW_MS, 80)) == ["s", "alice", state, '{"x":[1]}']


@pytest.mark.parametrize("id", ["s", "an id of very many characters, a line's worth", "\x1b[2J\n"])
def test_a_line_holds_the_whole_id_and_as_much_of_the_pattern_as_fits(id: str) -> None:
    (one,) = stored_subscriptions(Topic((id, ALICE | {"pattern": {"x": ["y" * 200]}})), Decisions())
    line = subscription_table.row(one, NOW_MS, 80)
    assert line.startswith(id if id.isprintable() else "\\u001b[2J\\n")
    assert line.isprintable()
    assert len(line) == max(80, len(id) + 2 + 18 + 10 + 20)
