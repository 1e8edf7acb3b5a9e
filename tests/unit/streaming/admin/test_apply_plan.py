"""A plan writes the last line of each id, unless the topic already has it, and unsubscribes what the file lacks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streaming.admin.apply_plan import ApplyPlan
from streaming.documents.change_order import Decisions
from streaming.documents.subscriptions import Rejected
from tests.support.doubles.topic import Record, Topic

A = {"id": "a", "subscriber": "alice", "pattern": {"x": [1]}}
B = {"id": "b", "subscriber": "bob", "pattern": {}}
NEW_A = A | {"pattern": {"x": [2]}}


def applied(
    documents: list[Any], records: Any, prune: str | None = None
) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    """(id, document, partition) of what is written, and the counts."""
    lines = [(n, json.dumps(document).encode()) for n, document in enumerate(documents, 1)]
    plan = ApplyPlan(prune)
    for line in lines:
        plan.take(*line)
    plan.compare(records, Decisions())
    found = [((key or b"").decode(), value and json.loads(value), *at) for key, value, *at in plan.records(lines)]
    return found, plan.as_data()


def counts(**some: int) -> dict[str, int]:
    return dict.fromkeys(("new", "changed", "unchanged", "repeated", "unsubscribed"), 0) | some


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
    ids=[
        "empty",
        "the same",
        "another",
        "unsubscribed",
        "changed back",
        "rejected since",
        "other order, id in the key",
    ],
)
def test_only_what_the_topic_does_not_say_is_written(there: Any, written: Any, message: Any) -> None:
    assert applied([A, NEW_A, B], Topic(*there)()) == (written, message)


def test_a_change_goes_to_the_partition_of_what_it_changes() -> None:
    assert applied([NEW_A], [None, Record("a", A, partition=3)]) == ([("a", NEW_A, 3)], counts(changed=1))


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"id": "a"}', json.dumps(A | {"subscriber": "?"}).encode()])
def test_what_the_job_would_reject_is_rejected(line: bytes) -> None:
    plan = ApplyPlan()
    with pytest.raises(Rejected):
        plan.take(1, line)
    assert plan.as_data() == counts()


C = A | {"id": "c"}


@pytest.mark.parametrize(
    ("there", "prune", "unsubscribed"),
    [
        ([("a", A), ("c", C)], "", [("c", None, 0)]),
        ([("a", A), ("c", C)], None, []),
        ([("a", A), ("c", C), ("d", A | {"id": "d"})], "d", [("d", None, 0)]),
        ([("c", C), ("c", None)], "", []),
        ([("c", C), ("c", b"{")], "", [("c", None, 0)]),
        ([("c", b"{")], "", []),
        ([(b"\xff", C)], "", []),
    ],
    ids=[
        "lacking",
        "not asked",
        "with a prefix",
        "unsubscribed already",
        "rejected since",
        "never in force",
        "no text",
    ],
)
def test_what_the_file_lacks_is_unsubscribed_if_asked(there: Any, prune: str | None, unsubscribed: list[Any]) -> None:
    written, _ = applied([A], Topic(*there)(), prune)
    assert [record for record in written if record[0] != "a"] == unsubscribed


def test_a_plan_names_each_change() -> None:
    plan = ApplyPlan("")
    for number, document in enumerate((NEW_A, B), 1):
        plan.take(number, json.dumps(document).encode())
    plan.compare(Topic(("a", A), ("c", C))(), Decisions())
    assert list(plan.changes()) == [("a", "changed"), ("b", "new"), ("c", "unsubscribed")]
    assert plan.as_data() == counts(new=1, changed=1, unsubscribed=1)
