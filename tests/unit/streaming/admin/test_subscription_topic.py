"""The subscriptions of a topic, and the line of each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streaming.admin.subscription_topic import last_written, stored_subscriptions
from streaming.documents.change_order import Decisions
from tests.support.doubles.topic import Topic


def document(subscriber: str = "alice", **more: Any) -> dict[str, Any]:
    return {"subscriber": subscriber, "pattern": {"x": [1]}, **more}


REJECTED = document("?")
CASES: dict[str, tuple[list[tuple[str | None, Any]], list[tuple[str, int]]]] = {
    "none": ([], []),
    "the last word on an id counts": (
        [("a", document()), ("b", document()), ("a", document("bob"))],
        [("b", 1), ("a", 2)],
    ),
    "what is unsubscribed is gone": ([("a", document()), ("b", document()), ("a", None)], [("b", 1)]),
    "until it comes again": ([("a", document()), ("a", None), ("a", document())], [("a", 2)]),
    "the job keeps what was before a rejected one": (
        [("a", document()), ("b", document()), ("a", REJECTED)],
        [("b", 1), ("a", 0)],
    ),
    "which may be several": ([("a", document()), ("a", document()), ("a", REJECTED), ("a", b"{")], [("a", 1)]),
    "unless it was unsubscribed": ([("a", document()), ("a", None), ("a", REJECTED)], []),
    "or there was none": ([("a", REJECTED), ("b", b"[1]"), (None, None), (None, b"?")], []),
    "an id in the document alone": ([(None, document(id="a")), ("a", document())], [("a", 1)]),
}


@pytest.mark.parametrize(("written", "expected"), CASES.values(), ids=CASES)
def test_of_each_id_the_last_record_counts_that_is_not_rejected(
    written: list[tuple[str | None, Any]], expected: list[tuple[str, int]]
) -> None:
    assert [(one.id, one.offset) for one in stored_subscriptions(Topic(*written), Decisions())] == expected
    found = last_written(Topic(*written)(), {"a", "b"}, Decisions())
    assert {(id, one.offset) for id, one in found.items() if one.value is not None} == set(expected)


def test_a_filter_asks_the_last_word_that_counts() -> None:
    topic = Topic(("a1", document()), ("a2", document()), ("a1", document("bob")), ("b1", document()), ("a2", REJECTED))
    of_alice = lambda document: document["subscriber"] == "alice"  # noqa: E731
    assert [one.id for one in stored_subscriptions(topic, Decisions(), wanted=of_alice)] == ["b1", "a2"]
    assert [one.id for one in stored_subscriptions(topic, Decisions(), "a", of_alice)] == ["a2"]
    assert [one.id for one in stored_subscriptions(topic, Decisions(), "a")] == ["a1", "a2"]


def test_a_topic_is_read_a_third_time_only_for_what_stands_before_a_rejected_document() -> None:
    for written, reads in (([], 1), ([("a", document())], 2), ([("a", document()), ("a", REJECTED)], 3)):
        topic = Topic(*written)
        list(stored_subscriptions(topic, Decisions()))
        assert topic.reads == reads


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (
            b'{"pattern": {"x":[1.0]},"subscriber":"a", "id":"s"}',
            b'{"pattern": {"x":[1.0]},"subscriber":"a", "id":"s"}',
        ),
        (b'\n{"id":"s",\r\n "subscriber":"a", "pattern":{}}\n', b'{"id":"s",   "subscriber":"a", "pattern":{}}'),
        (b'{"subscriber":"a","pattern":{"id":["x"]}}', b'{"id":"s","subscriber":"a","pattern":{"id":["x"]}}'),
    ],
    ids=["as it is", "over several lines", "without its id"],
)
def test_a_document_becomes_a_line_that_says_the_same(value: bytes, line: bytes) -> None:
    (one,) = stored_subscriptions(Topic(("s", value)), Decisions())
    assert one.line == line
    assert json.loads(line) == {"id": "s"} | json.loads(value)
