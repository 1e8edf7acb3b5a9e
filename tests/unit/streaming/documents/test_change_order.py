"""The change of a subscription that counts if its changes lie in several partitions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streaming.admin.subscription_topic import last_written, stored_subscriptions
from streaming.documents.change_order import Decisions, LastWords
from streaming.documents.records import Record as Written
from streaming.driver.batch_order import last_changes
from tests.support.doubles.stage import ALICE, BOB, ListSink, change, delivered, event, pipeline, step
from tests.support.doubles.topic import Record

TOPIC = "topic-1"


def status(id: str, state: str, partition: int, offset: int, read_up_to: dict[str, int], **more: Any) -> Record:
    change = {"partition": partition, "offset": offset}
    common = {"id": id, "status": state, "version": sum(read_up_to.values()), "read_up_to": read_up_to}
    where = more.pop("where", 0)
    return Record(id, {**common, "query": "job", "topic_id": TOPIC, "change": change, **more}, where)


def last(words: list[tuple[int, int, int]], *statuses: Record) -> list[tuple[int, int]]:
    """Return those of the words (partition, offset, timestamp) on an id that count."""
    found: LastWords[None] = LastWords(Decisions(TOPIC, statuses=statuses))
    for word in words:
        found.take(b"s", *word, None)
    return [(partition, offset) for _, partition, offset, _ in found]


WORDS = [(0, 4, 10), (0, 9, 30), (1, 2, 40), (1, 7, 20)]
UP_TO = {"0": 10, "1": 8}
CASES: list[tuple[str, list[tuple[int, int, int]], list[Record], list[tuple[int, int]]]] = [
    ("within a partition the last one counts, whatever its time", [(0, 4, 30), (0, 9, 10)], [], [(0, 9)]),
    ("of several partitions the one whose last word is latest", WORDS, [], [(0, 9)]),
    ("of equal times, the highest partition", [(2, 0, 5), (0, 9, 5), (1, 3, 5)], [], [(2, 0)]),
    ("what was decided counts, whatever the times", WORDS, [status("s", "accepted", 1, 2, UP_TO)], [(1, 2)]),
    ("what was not read then is later", WORDS, [status("s", "accepted", 0, 9, {"0": 10, "1": 7})], [(1, 7)]),
    ("a partition that was not there then is later", WORDS, [status("s", "accepted", 0, 9, {"0": 10})], [(1, 7)]),
    ("a deletion whose tombstone is gone", WORDS[:2], [status("s", "unsubscribed", 1, 5, UP_TO)], []),
    (
        "what a rejected one left in force",
        WORDS,
        [status("s", "rejected", 0, 9, UP_TO, in_force={"partition": 0, "offset": 4})],
        [(0, 4)],
    ),
    ("a rejected one that left nothing", WORDS, [status("s", "rejected", 0, 9, UP_TO, in_force=None)], []),
    (
        "the last status",
        WORDS,
        [status("s", "accepted", 0, 4, {"0": 5, "1": 0}), status("s", "accepted", 1, 2, UP_TO)],
        [(1, 2)],
    ),
    (
        "of several partitions of the status topic, the one of the latest batch",
        WORDS,
        [status("s", "accepted", 1, 2, UP_TO, where=1), status("s", "accepted", 0, 4, {"0": 5, "1": 0})],
        [(1, 2)],
    ),
    (
        "of several partitions of the status topic, the one of the latest batch, after a tenant was left out",
        WORDS,
        [status("s", "accepted", 1, 2, UP_TO, where=1), status("s", "accepted", 0, 4, {"0": 5, "1": 0}, version=99)],
        [(1, 2)],
    ),
    (
        "a superseded one is not the last word of its batch",
        WORDS,
        [
            status("s", "accepted", 1, 2, UP_TO),
            status("s", "accepted", 0, 4, UP_TO, superseded_by={"partition": 1, "offset": 2}),
        ],
        [(1, 2)],
    ),
    (
        "a status of another topic says nothing",
        WORDS,
        [status("s", "unsubscribed", 1, 7, UP_TO, topic_id="2")],
        [(0, 9)],
    ),
    ("nor does one of another id", WORDS, [status("t", "unsubscribed", 1, 7, UP_TO)], [(0, 9)]),
]


@pytest.mark.parametrize(("words", "statuses", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_last_word_on_an_id(words: Any, statuses: list[Record], expected: list[tuple[int, int]]) -> None:
    assert last(words, *statuses) == expected
    by_partition = sorted(words, key=lambda word: (-word[0], word[1]))  # partitions may be read in any order
    assert last(by_partition, *statuses) == expected


def test_statuses_of_earlier_versions_and_of_other_queries_say_nothing() -> None:
    old = Record("s", {"id": "s", "status": "unsubscribed", "version": 9, "change": {"partition": 1, "offset": 7}})
    assert len(Decisions("", statuses=[old])) == 0
    one = status("s", "unsubscribed", 1, 7, UP_TO)
    strange = [Record("s", b"{"), Record("s", b"[]"), Record(None, None)]
    assert len(Decisions(TOPIC, statuses=strange)) == 0
    assert len(Decisions(TOPIC, "another".__eq__, [one])) == 0
    assert len(Decisions(TOPIC, "job".__eq__, [one, None])) == 1


def at(offset: int, document: Any, partition: int, timestamp: int) -> dict[str, Any]:
    return change(offset, "s", document, partition) | {"timestamp": timestamp}


BATCHES: list[tuple[str, list[dict[str, Any]], list[str], list[str]]] = [
    ("the later time", [at(0, BOB, 1, 20), at(0, ALICE, 0, 10)], ["accepted", "accepted"], ["bob"]),
    ("the later time, read last", [at(0, ALICE, 0, 10), at(0, BOB, 1, 20)], ["accepted", "accepted"], ["bob"]),
    ("a deletion", [at(0, None, 0, 20), at(0, BOB, 1, 10)], ["accepted", "unsubscribed"], []),
    (
        "the last of each partition, whatever the others say",
        [at(0, BOB, 1, 90), at(0, ALICE, 0, 20), at(1, None, 1, 10)],
        ["accepted", "unsubscribed", "accepted"],
        ["alice"],
    ),
    (
        "a rejected one counts for nothing",
        [at(0, {"subscriber": "?", "pattern": {}}, 1, 90), at(0, ALICE, 0, 20)],
        ["accepted", "rejected"],
        ["alice"],
    ),
]


@pytest.mark.parametrize("most", [9, 1], ids=["in one piece", "each by itself"])
@pytest.mark.parametrize(("rows", "states", "to"), [b[1:] for b in BATCHES], ids=[b[0] for b in BATCHES])
def test_a_batch_with_changes_of_one_id_in_two_partitions(
    rows: list[dict[str, Any]], states: list[str], to: list[str], most: int
) -> None:
    p = pipeline(ListSink())
    published = step(p, *rows, most=most)
    assert [s["status"] for s in statuses(published)] == states
    final = [s for s in statuses(published) if "superseded_by" not in s and s["status"] != "rejected"]
    assert len(final) == 1
    assert all(s.get("superseded_by", final[0]["change"]) == final[0]["change"] for s in statuses(published))
    in_force = None if final[0]["status"] == "unsubscribed" else final[0]["change"]
    assert all(s["in_force"] == in_force for s in statuses(published) if s["status"] == "rejected")
    assert list(delivered(p.state, event(0, {"x": 1})).get(0, {})) == to


def test_a_rejected_change_says_what_stays_in_force() -> None:
    p = pipeline(ListSink())
    step(p, change(7, "s", ALICE, 1), change(3, "t", BOB))
    wrong = {"subscriber": "?", "pattern": {}}
    rejected = statuses(step(p, change(8, "s", wrong, 1), change(4, "new", wrong)))
    assert [s["in_force"] for s in rejected] == [{"partition": 1, "offset": 7}, None]
    assert [s["version"] for s in rejected] == [14, 14]


def statuses(written: list[Written]) -> list[dict[str, Any]]:
    return [json.loads(r.value or b"") for r in written if r.topic == "status"]


def test_commands_that_read_the_topic_follow_the_same_order() -> None:
    """The id s was unsubscribed in partition 1. Compaction removed the tombstone and left a document in partition 0."""
    records = [Record("s", ALICE, 0, 3, 10), Record("t", ALICE, 0, 4, 10), Record("t", BOB, 1, 2, 5)]
    decisions = Decisions(TOPIC, statuses=[status("s", "unsubscribed", 1, 1, {"0": 5, "1": 2})])
    assert [(one.id, one.partition) for one in stored_subscriptions(lambda: records, decisions)] == [("t", 0)]
    assert [*last_written(records, ["s", "t"], decisions)] == ["t"]
    assert last_changes(()) == {}
