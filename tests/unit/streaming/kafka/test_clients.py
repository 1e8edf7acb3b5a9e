"""Reading topics: records are passed on as they come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming.errors import BrokerUnreachable, JobError
from streaming.kafka import clients
from streaming.kafka.clients import Cluster
from streaming.kafka.topics import Topics


class Message:
    """A message as long as its value, like librdkafka's messages: one without a value is false."""

    def __init__(self, offset: int, end: bool = False) -> None:
        self._offset, self._end = offset, end

    def __len__(self) -> int:
        return 0

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self._end else None

    def topic(self) -> str:
        return "events"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset


class SlowConsumer:
    """Records arrive one after the other; a call that waits for several of them waits for a timeout."""

    def __init__(self, records: int) -> None:
        self._left = [*(Message(offset) for offset in range(records)), Message(records, end=True)]
        self.waited: list[float] = []

    def get_watermark_offsets(self, partition: Any, timeout: float) -> tuple[int, int]:
        return 0, len(self._left)

    def assign(self, partitions: Any) -> None: ...

    def close(self) -> None: ...

    def poll(self, timeout: float) -> Any:
        return self._left.pop(0) if self._left else None

    def consume(self, most: int, timeout: float) -> list[Any]:
        self.waited.append(timeout)
        return [self._left.pop(0)] if self._left else []


class SameTopics:
    """Topics with so many partitions each."""

    def __init__(self, partitions: int = 1) -> None:
        self._partitions = partitions

    def required(self, names: Any, what_to_do: str = "") -> Mapping[str, int]:
        return dict.fromkeys(names, self._partitions)


def test_a_reader_passes_a_record_on_without_waiting_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = SlowConsumer(5)
    monkeypatch.setattr(Cluster, "topics", lambda self: SameTopics())
    monkeypatch.setattr(Cluster, "reader", lambda self, **options: consumer)
    cluster = Cluster("", {})
    found = [message.offset() for message in clients.read(cluster, ["events"], follow=False) if message is not None]
    assert found == [0, 1, 2, 3, 4]
    assert set(consumer.waited) == {0}


def test_the_leader_of_any_partition_that_goes_away_ends_a_bounded_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(0, 5)]

    def watermarks(partition: Any, timeout: float) -> tuple[int, int]:
        if partition.partition == 0:
            return 0, 5
        if not answers:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return answers.pop()

    consumer = SlowConsumer(0)
    later = iter(range(1_000))
    monkeypatch.setattr(consumer, "consume", lambda most, timeout: [Message(next(later))])  # of partition 0
    monkeypatch.setattr(consumer, "get_watermark_offsets", watermarks)
    monkeypatch.setattr(clients, "TIMEOUT_S", 0.0)
    monkeypatch.setattr(Cluster, "topics", lambda self: SameTopics(2))
    monkeypatch.setattr(Cluster, "reader", lambda self, **options: consumer)
    with pytest.raises(BrokerUnreachable):
        list(clients.read(Cluster("", {}), ["events"], follow=False))


def test_readers_go_on_with_the_first_record_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "Consumer", lambda options: options)
    options: Any = Cluster("", {}).reader()
    assert options["auto.offset.reset"] == "earliest"


def test_records_before_one_that_fails_are_sent() -> None:
    class Flushed:
        times = 0

        def flush(self, timeout_s: float) -> int:
            self.times += 1
            return 0

    def records() -> Iterator[tuple[bytes, bytes]]:
        yield b"a", b"1"
        raise ValueError("line 2")

    producer: Any = Flushed()
    with pytest.raises(ValueError, match="line 2"):
        list(clients._given(records(), producer))
    assert producer.times == 1


def write_by(producer: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `clients.write` write by this producer."""
    monkeypatch.setattr(Cluster, "topics", lambda self: SameTopics())
    monkeypatch.setattr(clients, "Producer", lambda options: producer)
    monkeypatch.setattr("streaming.kafka.clients.login.renew", lambda *_: None)


def test_records_before_one_that_kafka_does_not_take_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bytes] = []

    class Producer:
        flushed = 0

        def produce(self, topic: str, value: bytes, *_: Any, **__: Any) -> None:
            if value == b"large":
                raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
            taken.append(value)

        def poll(self, timeout_s: float) -> None: ...

        def purge(self) -> None:
            assert self.flushed == 1

        def flush(self, timeout_s: float) -> int:
            self.flushed += 1
            return 0

    producer = Producer()
    write_by(producer, monkeypatch)
    with pytest.raises(JobError, match="record 3 was not written to events; 2 before it were"):
        clients.write(Cluster("", {}), "events", [(None, b"1"), (None, b"2"), (None, b"large"), (None, b"3")])
    assert (taken, producer.flushed) == ([b"1", b"2"], 1)


def test_options_on_which_guarantees_depend_cannot_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "Consumer", lambda options: options)
    given = {
        "bootstrap.servers": "elsewhere:1",
        "group.id": "ours",
        "enable.auto.commit": "true",
        "auto.offset.reset": "latest",
        "isolation.level": "read_uncommitted",
        "enable.partition.eof": "false",
        "fetch.queue.backoff.ms": "20",
    }
    options: Any = Cluster("here:1", given).reader(group_id="theirs")
    assert options["bootstrap.servers"] == "here:1"
    assert (options["group.id"], options["enable.auto.commit"]) == ("theirs", False)
    assert (options["auto.offset.reset"], options["isolation.level"]) == ("earliest", "read_committed")
    assert (options["enable.partition.eof"], options["fetch.queue.backoff.ms"]) == (True, "20")
    config = Topics("here:1", given)._config()
    assert (config["bootstrap.servers"], config["fetch.queue.backoff.ms"]) == ("here:1", "20")
    assert "isolation.level" not in config


def test_a_write_ends_with_the_first_record_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Producer:
        produced = 0

        def produce(self, *_: Any, on_delivery: Any, **__: Any) -> None:
            self.produced += 1
            if self.produced == 3:
                on_delivery(KafkaError(KafkaError._MSG_TIMED_OUT), None)

        def poll(self, timeout_s: float) -> None: ...

        def purge(self) -> None: ...

        def flush(self, timeout_s: float) -> int:
            return 0

    producer = Producer()
    write_by(producer, monkeypatch)
    with pytest.raises(JobError, match="1 of the first 3 records were not written to events"):
        clients.write(Cluster("", {}), "events", [(None, b"1")] * 9)
    assert producer.produced == 3


def test_a_client_that_lost_a_leader_looks_for_it_within_seconds() -> None:
    """librdkafka's five minutes kept producers silent after a single broker had not answered its controller."""
    assert Cluster("127.0.0.1:1", {}).client()["topic.metadata.refresh.interval.ms"] <= 10_000
    of_the_user = {"topic.metadata.refresh.interval.ms": "60000"}
    assert Cluster("127.0.0.1:1", of_the_user).client()["topic.metadata.refresh.interval.ms"] == "60000"
