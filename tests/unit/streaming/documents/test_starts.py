"""A start in a document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streaming.documents.starts import as_json, parsed_offsets, parsed_start
from streaming.documents.subscriptions import read_change


@pytest.mark.parametrize(
    ("start", "parsed"),
    [
        ("oldest", "oldest"),
        ("1970-01-01T00:00:02Z", 2_000),
        ("1970-01-01T01:00:00.0001+01:00", 1),
        ("1960-01-01T00:00:00Z", 0),
        ({"events": {"0": 120, "1": 0}, "quotes": {"7": 5}}, {("events", 0): 120, ("events", 1): 0, ("quotes", 7): 5}),
        ({}, {}),
    ],
)
def test_a_change_has_the_start_of_its_document(start: Any, parsed: Any) -> None:
    document = {"subscriber": "alice", "pattern": {"x": [1]}, "from": start}
    change = read_change(b"a", json.dumps(document).encode())
    assert change.start == parsed
    assert change.conjunctions
    del document["from"]
    assert read_change(b"a", json.dumps(document).encode()).start is None


def test_offsets_are_read_as_they_were_written() -> None:
    start = {("events", 10): 7, ("events", 2): 0, ("quotes", 0): 2**63 - 1}
    assert parsed_offsets(json.loads(json.dumps(as_json(start)))) == start


@pytest.mark.parametrize("value", ["now", 5, 0.5, True, [], {"": {"0": 1}}, {"events": {"0": "1"}}, {"events": ["0"]}])
def test_another_value_is_answered_with_the_forms_of_a_start(value: Any) -> None:
    with pytest.raises(ValueError, match='"oldest"'):
        parsed_start(value)
