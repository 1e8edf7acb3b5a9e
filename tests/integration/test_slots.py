"""Slots on a real broker: what they commit, and what becomes of everything that can go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from streaming.kafka.clients import Cluster, read
from streaming.kafka.topics import Topic, Topics
from streaming.publishing.connection.client import Client
from streaming.publishing.contract import Aborted, Producer, Unsettled
from streaming.publishing.slot import Slot
from streaming.publishing.sweep import settle, slot_name
from tests.plain_batches import batches, body


class Stage:
    """Topics `out-0`, `out-1` with two partitions each, `events` with two, and a client."""

    def __init__(self, kafka: str, name: str) -> None:
        self.kafka = kafka
        self.name = name
        self.topics = Topics(kafka, {})
        self.events = f"{name}.events"
        self.out = [f"{name}.out-0", f"{name}.out-1"]
        assert not self.topics.create([Topic(topic, 2) for topic in (self.events, *self.out)])
        self.destinations = [(topic, partition) for topic in self.out for partition in range(2)]
        self.group = f"{name}.query"
        self.client = Client(kafka, {})

    def slot(self, number: int = 0) -> Slot:
        return Slot(self.client, slot_name(self.group, number), self.group, body)

    def read(self, *topics: str) -> list[bytes]:
        """What readers of committed records see, sorted."""
        records = read(Cluster(self.kafka, {}), topics or self.out, follow=False)
        return sorted(record.value() for record in records if record is not None)

    def committed(self) -> dict[int, tuple[int, str | None]]:
        """Offset and note of the partitions of the events, as librdkafka reads them."""
        consumer = Consumer({"bootstrap.servers": self.kafka, "group.id": self.group})
        with closing(consumer):
            positions = consumer.committed([Position(self.events, partition) for partition in range(2)], 10)
        return {p.partition: (p.offset, p.metadata) for p in positions if p.offset >= 0}


@pytest.fixture
def stage(kafka: str, name: str) -> Iterator[Stage]:
    stage = Stage(kafka, name)
    with closing(stage.client):
        yield stage


def test_records_and_offsets_are_committed_together(stage: Stage) -> None:
    slot = stage.slot()
    producer = slot.open()
    some = batches(producer, [(0, [b"a", b"b"]), (1, [b"c"]), (3, [b"d"])])
    done = slot.publish(producer, [some], stage.destinations, {(stage.events, 0): 5, (stage.events, 1): 7}, "mine")
    assert stage.read() == [b"a", b"b", b"c", b"d"]
    assert stage.committed() == {0: (5, "mine"), 1: (7, "mine")}
    assert (done.records, done.bytes) == (4, len(some.data))
    assert done.sent_at <= done.committed_at
    again = slot.publish(done.producer, [batches(done.producer, [(0, [b"e"])])], stage.destinations, {})
    assert stage.read() == [b"a", b"b", b"c", b"d", b"e"]
    assert again.producer != done.producer != producer


def test_notes_are_read_as_they_were_written_by_slots_and_by_librdkafka(stage: Stage) -> None:
    slot = stage.slot()
    producer = slot.open()
    at = (stage.events, 0)
    for note in ("mine", "x" * 36, "Grüße"):
        producer = slot.publish(producer, [], stage.destinations, {at: 5}, note).producer
        assert stage.committed() == {0: (5, note)}
        assert settle(stage.client, [], stage.group, [at, (stage.events, 1)]) == ({}, {at: 5}, {at: note})
    consumer = Consumer({"bootstrap.servers": stage.kafka, "group.id": stage.group})
    with closing(consumer):
        consumer.commit(offsets=[Position(*at, 6, "of librdkafka")], asynchronous=False)
    assert settle(stage.client, [], stage.group, [at]) == ({}, {at: 6}, {at: "of librdkafka"})
