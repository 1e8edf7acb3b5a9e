"""The document of an id that counts, and the effect of pausing and resuming it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streaming.admin.pause import NoSubscription, changed
from streaming.admin.subscription_topic import last_written
from streaming.documents.change_order import Decisions
from tests.support.doubles.topic import Record

OLD = {"subscriber": "alice", "pattern": {"x": [1]}}
NEW = {"id": "a", "subscriber": "alice", "pattern": {"x": [2.5]}, "expires_at": "2030-01-01T00:00:00Z"}


def paused(*records: Record | None, pause: bool = True, ids: tuple[str, ...] = ("a",)) -> list[Any]:
    """(id, document, partition) of what is written."""
    found = changed(last_written(records, ids, Decisions()), ids, pause)
    assert [id.encode() for id in found] == [key for key, _, _ in found.values()]
    return [(id, json.loads(value), partition) for id, (_, value, partition) in found.items()]


def test_the_last_document_gets_the_flag_and_stays_as_it_is_otherwise() -> None:
    assert paused(Record("a", OLD), None, Record("b", OLD), Record("a", NEW)) == [("a", NEW | {"paused": True}, 0)]
    assert paused(Record("a", OLD | {"paused": False})) == [("a", OLD | {"paused": True}, 0)]


def test_a_resumed_document_has_no_flag() -> None:
    assert paused(Record("a", NEW | {"paused": True}), pause=False) == [("a", NEW, 0)]


def test_a_start_ends_with_the_document_that_named_it() -> None:
    started = NEW | {"from": "oldest"}
    assert paused(Record("a", started)) == [("a", NEW | {"paused": True}, 0)]


def test_what_is_so_already_is_not_written() -> None:
    assert paused(Record("a", OLD), Record("a", NEW | {"paused": True})) == []
    assert paused(Record("a", OLD), pause=False) == []
    assert paused(Record("a", OLD | {"paused": False}), pause=False) == []


def test_a_document_that_the_job_rejects_does_not_count() -> None:
    records = (Record("a", OLD), Record("a", {"subscriber": "?", "pattern": {}}), Record("a", "{"))
    assert paused(*records) == [("a", OLD | {"paused": True}, 0)]


def test_a_document_goes_back_to_its_partition_with_its_id_as_the_key() -> None:
    assert paused(Record("a", OLD, 3), Record("b", OLD, 1), ids=("b", "a")) == [
        ("b", OLD | {"paused": True}, 1),
        ("a", OLD | {"paused": True}, 3),
    ]
    assert paused(Record(None, NEW, 2), Record(None, NEW | {"id": "b"}, 1)) == [("a", NEW | {"paused": True}, 2)]


def test_ids_without_a_subscription_are_all_named_and_nothing_is_written() -> None:
    records = (Record("a", OLD), Record("b", OLD), Record("b", None))
    with pytest.raises(NoSubscription) as error:
        paused(*records, ids=("a", "b", "c"))
    assert str(error.value) == "'b' is unsubscribed, no subscription has the id 'c'; nothing was written"
    assert paused(*records, Record("b", NEW | {"id": "b"}), ids=("b",))
