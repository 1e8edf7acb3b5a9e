"""An import writes the last line of each id, unless the topic already has it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streaming.admin.import_plan import Import
from streaming.documents.change_order import Decisions
from streaming.documents.subscriptions import Refused
from tests.support.doubles.topic import Record, Topic

A = {"id": "a", "subscriber": "alice", "pattern": {"x": [1]}}
B = {"id": "b", "subscriber": "bob", "pattern": {}}
NEW_A = A | {"pattern": {"x": [2]}}


def imported(documents: list[Any], records: Any) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    """(id, document, partition) of what is written, and the counts."""
    lines = [(n, json.dumps(document).encode()) for n, document in enumerate(documents, 1)]
    plan = Import()
    for line in lines:
        plan.take(*line)
    plan.compare(records, Decisions())
    found = [((key or b"").decode(), json.loads(value or b""), *at) for key, value, *at in plan.records(lines)]
    return found, plan.as_data()


def counts(new: int = 0, changed: int = 0, unchanged: int = 0, repeated: int = 0) -> dict[str, int]:
    return {"new": new, "changed": changed, "unchanged": unchanged, "repeated": repeated}


@pytest.mark.parametrize(
    ("there", "written", "message"),
    [
        ([], [("a", NEW_A, -1), ("b", B, -1)], counts(new=2, repeated=1)),
        ([("a", NEW_A)], [("b", B, -1)], counts(new=1, unchanged=1, repeated=1)),
        ([("a", A), ("c", A | {"id": "c"})], [("a", NEW_A, 0), ("b", B, -1)], counts(new=1, changed=1, repeated=1)),
        ([("b", B), ("b", None)], [("a", NEW_A, -1), ("b", B, -1)], counts(new=2, repeated=1)),
        ([("a", NEW_A), ("a", A)], [("a", NEW_A, 0), ("b", B, -1)], counts(new=1, changed=1, repeated=1)),
        ([("a", NEW_A), ("a", b"{"), ("a", {"pattern": 1})], [("b", B, -1)], counts(new=1, unchanged=1, repeated=1)),
        ([("b", {"pattern": {}, "subscriber": "bob"})], [("a", NEW_A, -1)], counts(new=1, unchanged=1, repeated=1)),
    ],
    ids=["empty", "the same", "another", "withdrawn", "changed back", "refused since", "other order, id in the key"],
)
def test_only_what_the_topic_does_not_say_is_written(there: Any, written: Any, message: Any) -> None:
    assert imported([A, NEW_A, B], Topic(*there)()) == (written, message)


def test_a_change_goes_to_the_partition_of_what_it_changes() -> None:
    assert imported([NEW_A], [None, Record("a", A, partition=3)]) == ([("a", NEW_A, 3)], counts(changed=1))


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"id": "a"}', json.dumps(A | {"subscriber": "?"}).encode()])
def test_what_the_job_would_refuse_is_refused(line: bytes) -> None:
    plan = Import()
    with pytest.raises(Refused):
        plan.take(1, line)
    assert plan.as_data() == counts()
