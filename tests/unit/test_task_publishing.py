"""What a task publishes, and what becomes dead letters, without a broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from streaming.driver.slots import Slots
from streaming.errors import BrokerUnreachable, TopicMissing
from streaming.publishing.connection.options import Options
from streaming.publishing.contract import Aborted, Batches, Offsets, Producer, TopicPartition
from streaming.publishing.slot import Committed
from streaming.rows import INPUT, PACKED, Published, Row, SlotReport, unpacked
from streaming.state.state import State
from streaming.worker.publication import Publication
from streaming.worker.publishing import Task
from tests.stage import ALICE, BOB, Value, apply, change, event, state

pytestmark = pytest.mark.kernels

PUBLICATION = Publication(
    bootstrap_servers="",
    options={},
    query="q",
    note="",
    producers=(Producer(7, 0),),
    version=2,
    events="events",
    dead_letters="dead",
    prefix="to.",
    shared="",
    max_bytes=1_000,
    max_matches=0,
    partitions=1,
)
SHARED = replace(PUBLICATION, shared="all")


@dataclass
class Brokers:
    """A client and a slot that takes everything, but for topics that it refuses."""

    topics: Mapping[str, int]
    refuses: frozenset[str] = frozenset()
    options: Options = field(default_factory=lambda: Options.of({}))
    taken: list[tuple[dict[TopicPartition, int], Offsets]] = field(default_factory=list)  # records by destination

    def partitions(self, topics: Iterable[str], least: Mapping[str, int]) -> dict[str, int]:
        return {topic: self.topics[topic] for topic in topics if topic in self.topics}

    def publish(
        self,
        producer: Producer,
        pieces: Iterable[Batches],
        destinations: Sequence[TopicPartition],
        offsets: Offsets,
        note: str,
    ) -> Committed:
        following = Producer(producer.id, producer.epoch + 1)
        records: dict[TopicPartition, int] = {}
        for batches in pieces:
            for at, n in zip(batches.destination.tolist(), batches.records.tolist(), strict=True):
                records[destinations[at]] = records.get(destinations[at], 0) + n
        if refused := {topic: "no" for topic, _ in records if topic in self.refuses}:
            raise Aborted("refused", following, refused)
        self.taken.append((records, offsets))
        return Committed(following, 1.0, 2.0, 0, 0, {})


def publish(brokers: Brokers, publication: Publication, *batches: list[dict[str, Any]]) -> list[Row]:
    """The rows of a task; alice and bob have a subscription each."""

    def task(given: Publication, parts: Any, false_positives: float) -> Task:
        task = Task(given, parts, false_positives, 0, brokers)  # type: ignore[arg-type]
        task._slot = brokers  # type: ignore[assignment]
        return task

    (work,) = subscribed().work()
    given = [pa.RecordBatch.from_pylist(rows, schema=INPUT) for rows in batches]
    with patch.object(Task, "of", task):
        packed = list(replace(work, publication=publication)(given))
    return unpacked(pa.Table.from_batches(packed, PACKED))


def subscribed() -> State:
    subscribed = state()
    apply(subscribed, [change(0, "a", ALICE), change(1, "b", BOB)])
    return subscribed


def published(rows: Sequence[Row]) -> list[tuple[int, Mapping[str, int]]]:
    """Deliveries and dead letters of each transaction."""
    return [(row.deliveries, row.dead_letters) for row in rows if isinstance(row, Published)]


def report(rows: Sequence[Row]) -> SlotReport:
    (report,) = (row for row in rows if isinstance(row, SlotReport))
    return report


def test_a_transaction_has_deliveries_dead_letters_and_the_offsets_of_their_events() -> None:
    brokers = Brokers({"to.alice": 2, "to.bob": 1, "dead": 1})
    rows = publish(brokers, PUBLICATION, [event(3, {"x": 1}), event(4, b"{"), event(9, {"x": 2}, partition=1)])
    assert brokers.taken == [
        ({("to.alice", 0): 1, ("to.bob", 0): 2, ("dead", 0): 1}, {("events", 0): 5, ("events", 1): 10})
    ]
    assert published(rows) == [(3, {"undecodable_event": 1})]
    assert report(rows) == SlotReport(0, 7, 1, [])


def test_the_driver_tells_how_many_partitions_topics_have() -> None:
    """The broker has more by now, which other tasks may not know."""
    brokers = Brokers({"to.alice": 4, "to.bob": 2, "dead": 1})
    told = replace(PUBLICATION, unusual=Value({"to.alice": 3}))
    publish(brokers, told, [event(0, {"x": 1}, partition=5)])
    assert brokers.taken[0][0] == {("to.alice", 2): 1, ("to.bob", 0): 1}
    shared = Brokers({"all": 4, "dead": 1})
    publish(shared, SHARED, [event(0, {"x": 1})])
    assert shared.taken[0][0] == {("all", 0): 2}


def test_topics_with_fewer_partitions_than_the_driver_says_are_reported() -> None:
    brokers = Brokers({"to.alice": 2, "to.bob": 1, "dead": 1})
    rows = publish(brokers, replace(PUBLICATION, unusual=Value({"to.alice": 3})), [event(0, {"x": 1})])
    assert brokers.taken == []
    assert report(rows) == SlotReport(0, 7, 0, ["to.alice"])


def test_numbers_of_partitions_are_sent_when_they_change() -> None:
    sent: list[Value] = []

    def broadcast(value: Any) -> Value:
        sent.append(Value(value))
        return sent[-1]

    sink: Any = SimpleNamespace(note="", slots=1)
    slots = Slots(sink, PUBLICATION, ())
    slots.open(1, broadcast)
    usual: Mapping[str, int] = {}
    some, other = {"to.alice": 3}, {"to.alice": 4}
    unusual = [slots.work(1, 0, frozenset(), counts).unusual for counts in (usual, some, some, other, usual)]
    assert unusual == [None, sent[0], sent[0], sent[1], None]
    assert [value.value for value in sent] == [some, other]
    assert all(value.destroyed for value in sent)


def test_without_a_topic_nothing_is_published_and_nothing_later_overtakes() -> None:
    brokers = Brokers({"to.bob": 1, "dead": 1})
    rows = publish(brokers, PUBLICATION, [event(0, {"x": 1})], [event(1, {"x": 2})])
    assert brokers.taken == []
    assert report(rows) == SlotReport(0, 7, 0, ["to.alice"])


@pytest.mark.parametrize(
    ("publication", "topic", "letters"),
    [(PUBLICATION, "to.alice", 1), (SHARED, "all", 2)],
    ids=["a topic each", "shared"],
)
def test_deliveries_to_a_topic_that_is_absent_are_dead_letters(
    publication: Publication, topic: str, letters: int
) -> None:
    brokers = Brokers({"to.bob": 1, "dead": 1})
    rows = publish(brokers, replace(publication, absent=frozenset({topic})), [event(0, {"x": 1})])
    assert published(rows) == [(2 - letters, {"missing_topic": letters})]
    assert brokers.taken[0][0]["dead", 0] == letters


def test_a_topic_that_the_broker_refuses_is_composed_again_with_dead_letters() -> None:
    brokers = Brokers({"to.alice": 1, "to.bob": 1, "dead": 1}, refuses=frozenset({"to.alice"}))
    rows = publish(brokers, PUBLICATION, [event(0, {"x": 1})], [event(1, {"x": 1})])
    assert published(rows) == [(1, {"topic_refused": 1})] * 2
    assert [row.aborted for row in rows if isinstance(row, Published)] == [1, 0]
    assert report(rows).epoch == 3


def test_a_missing_topic_of_dead_letters_matters_once_there_is_one() -> None:
    brokers = Brokers({"to.alice": 1, "to.bob": 1})
    assert published(publish(brokers, PUBLICATION, [event(0, {"x": 1})])) == [(2, {})]
    with pytest.raises(BrokerUnreachable, match="dead, which dead letters need"):
        publish(brokers, PUBLICATION, [event(1, b"{")])


def test_dead_letters_that_cannot_be_written_end_the_job() -> None:
    refusing = Brokers({"to.alice": 1, "to.bob": 1, "dead": 1}, refuses=frozenset({"dead"}))
    with pytest.raises(TopicMissing, match="dead letters cannot be written"):
        publish(refusing, PUBLICATION, [event(0, b"{")])
