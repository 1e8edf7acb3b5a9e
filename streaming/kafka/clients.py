"""Producers and consumers outside of jobs: write records, and read topics to their end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from streaming.documents.messages import place_of, topic_of
from streaming.documents.records import BY_KEY
from streaming.errors import BrokerUnreachable
from streaming.kafka import login
from streaming.kafka.errors import is_passing, is_without_group, translate
from streaming.kafka.topics import CLIENT, TIMEOUT_S, Topics, given

if TYPE_CHECKING:
    from config.model import Settings

NewHeaders = dict[str, str | bytes | None]  # as confluent-kafka takes them
# key and value, maybe a partition, maybe headers too
Writable = (
    tuple[bytes | None, bytes | None]
    | tuple[bytes | None, bytes | None, int]
    | tuple[bytes | None, bytes | None, int, NewHeaders]
)

PAUSE_S = 0.1
_NO_HEADERS: NewHeaders = {}


@dataclass(frozen=True)
class Cluster:
    """The address of the brokers and the options of librdkafka."""

    bootstrap_servers: str
    options: Mapping[str, str]

    @classmethod
    def of(cls, settings: Settings) -> Cluster:
        return cls(settings.kafka.bootstrap_servers, settings.kafka.client)

    def topics(self) -> Topics:
        return Topics(self.bootstrap_servers, self.options)

    def client(self, **options: Any) -> dict[str, Any]:
        settings = {name.replace("_", "."): value for name, value in options.items()}
        return {**CLIENT, **settings, **given(self.options), "bootstrap.servers": self.bootstrap_servers}

    def reader(self, **options: Any) -> Consumer:
        """A consumer of committed records, which reports the end of each partition. Without a `group_id` it joins no
        group, and reads partitions that are assigned to it: librdkafka only requires a name.

        A full queue is looked at again after 10 ms. librdkafka's own 1,000 would hold a reader of one partition to what
        the queue holds, 100,000 records, in a second.
        """
        chosen = {
            "group_id": "unused",
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",  # read on with the first record that is left, if retention removed some
            "fetch_queue_backoff_ms": 10,
            "isolation_level": "read_committed",
            "enable_partition_eof": True,
        }
        return Consumer(self.client(**chosen | options))


class RecordWriter:
    """A producer that is opened once: its first record takes half a second, a later one milliseconds.

    Threads may share it; one call writes at a time.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._topics: Topics | None = None
        self._producer: Producer | None = None

    def write(
        self,
        topic: str,
        records: Iterable[Writable],
        progress: Callable[[int], object] = lambda written: None,
        taken: Callable[[Message], object] = lambda message: None,
    ) -> int:
        """Write to a topic, in order within a partition; returns the number once the broker has them all.

        `taken` is called with each record once it has its offset. Raises JobError.
        """
        with self._lock:
            try:
                return self._write(topic, records, progress, taken)
            except BaseException:
                self._end()  # what is left in its queue must not be written later
                raise

    def close(self) -> None:
        with self._lock:
            self._end()

    def _write(
        self,
        topic: str,
        records: Iterable[Writable],
        progress: Callable[[int], object],
        taken: Callable[[Message], object],
    ) -> int:
        self._topics = self._topics or self._cluster.topics()
        self._topics.required([topic], "`run_stream.py topics create` creates the topics of the job")
        failed: list[KafkaError] = []

        def delivered(error: Any, message: Message) -> None:
            if error is not None:
                failed.append(error)
            else:
                taken(message)

        written = 0
        try:
            producer = self._opened()
            for record in _given(records, producer):
                key, value = record[0], record[1]
                partition = record[2] if len(record) > 2 else BY_KEY
                headers = record[3] if len(record) > 3 else _NO_HEADERS
                while True:
                    try:
                        producer.produce(topic, value, key, partition, on_delivery=delivered, headers=headers)
                        break
                    except BufferError:  # the queue is full: let it send
                        producer.poll(0.1)
                    except KafkaException as error:
                        lost = producer.flush(TIMEOUT_S) + len(failed)
                        raise translate(
                            error.args[0],
                            f"record {written + 1} was not written to {topic}; {written - lost} before it were",
                        ) from error
                producer.poll(0)
                written += 1
                progress(written)
                if failed:
                    break
            left = producer.flush(TIMEOUT_S)
        except KafkaException as error:
            raise translate(error.args[0], f"records were not written to {topic}") from error
        if failed:
            raise translate(
                failed[0], f"{left + len(failed)} of the first {written} records were not written to {topic}"
            )
        if left:
            raise BrokerUnreachable(
                f"{left} of {written} records were not acknowledged by {topic} within {TIMEOUT_S:g} s; check the "
                "brokers and min.insync.replicas"
            )
        return written

    def _opened(self) -> Producer:
        if self._producer is None:
            options = self._cluster.client(enable_idempotence=True, linger_ms=5, compression_type="lz4")
            self._producer = Producer(options)
        login.renew(self._producer, self._cluster.options)
        return self._producer

    def _end(self) -> None:
        self._topics = None
        if (producer := self._producer) is not None:
            self._producer = None
            producer.purge()


def _given(records: Iterable[Writable], producer: Producer) -> Iterator[Writable]:
    """The records. If there is an error in them, those before it are written all the same."""
    try:
        yield from records
    except Exception:
        producer.flush(TIMEOUT_S)
        raise


def write(
    cluster: Cluster,
    topic: str,
    records: Iterable[Writable],
    progress: Callable[[int], object] = lambda written: None,
) -> int:
    """Write records to a topic once; returns their number. Raises JobError."""
    with closing(RecordWriter(cluster)) as writer:
        return writer.write(topic, records, progress)


def read(
    cluster: Cluster,
    topics: Sequence[str],
    *,
    follow: bool,
    starts: Mapping[tuple[str, int], int] | None = None,
    settled: bool = False,
    idle_s: float = 0.02,
) -> Generator[Message | None, None, None]:
    """Committed records of topics, without a group, from the first or from `starts` (by topic and partition) on.

    Ends at the present end; with `follow` it never ends, and yields None whenever nothing came for `idle_s`. The end is
    before the first open transaction; with `settled` it is the present end of the log, and open transactions before it
    are waited for. Raises JobError.
    """
    there = cluster.topics().required(topics)
    # A bounded read must not wait for more data at the end.
    consumer = cluster.reader(fetch_wait_max_ms=500 if follow else 10)
    try:
        partitions = [TopicPartition(topic, p) for topic in topics for p in range(there[topic])]
        for partition in partitions:
            low = first_offset(consumer, partition)
            partition.offset = max(low, (starts or {}).get((partition.topic, partition.partition), low))
        ends = _ends(cluster, partitions) if settled else {}
        consumer.assign(partitions)
        open_ends = {(p.topic, p.partition) for p in partitions}
        heard_s = time.monotonic()
        while follow or open_ends:
            messages = polled(consumer, 1_000, idle_s)
            if not follow and time.monotonic() - heard_s > TIMEOUT_S:
                for topic, number in sorted(open_ends):
                    first_offset(consumer, TopicPartition(topic, number))  # raises if its leader does not answer
                heard_s = time.monotonic()
            for message in messages:
                error = message.error()
                if error is not None:
                    if is_without_group(error):
                        continue
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                number, offset = place_of(message)
                at = topic_of(message), number
                if at in open_ends:
                    heard_s = time.monotonic()
                if error is None and (not settled or offset < ends[at]):
                    yield message
                # Without an error it is a record, otherwise the present end of the committed records.
                if (offset + (error is None) >= ends[at]) if settled else error is not None:
                    open_ends.discard(at)
            if follow and not messages:
                login.renew(consumer, cluster.options)
                yield None
    except KafkaException as error:
        raise translate(error.args[0], f"{', '.join(topics)} cannot be read") from error
    finally:
        consumer.close()


def polled(consumer: Consumer, most: int, timeout_s: float) -> list[Message]:
    """Return at most so many messages that are there, and wait for the first one only: `consume` alone would wait all
    this time for more."""
    first = consumer.poll(timeout_s)
    return [] if first is None else [first, *consumer.consume(most - 1, 0)]


def first_offset(consumer: Consumer, partition: TopicPartition) -> int:
    """The first offset, as the leader of the partition returns it. That of a new topic may not act as leader for a
    moment. Raises KafkaException."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            low, _ = consumer.get_watermark_offsets(partition, TIMEOUT_S)
            return low
        except KafkaException as error:
            if not is_passing(error.args[0]) or time.monotonic() > deadline:
                raise
        time.sleep(PAUSE_S)


def _ends(cluster: Cluster, partitions: Sequence[TopicPartition]) -> dict[tuple[str, int], int]:
    """The ends of the logs, uncommitted records included."""
    consumer = Consumer(cluster.client(group_id="unused", isolation_level="read_uncommitted"))
    try:
        return {(p.topic, p.partition): consumer.get_watermark_offsets(p, TIMEOUT_S)[1] for p in partitions}
    finally:
        consumer.close()


def paced(records: Iterable[Any], per_second: float) -> Iterator[Any]:
    """Yield the records, no faster than a rate."""
    began = time.monotonic()
    for n, record in enumerate(records):
        ahead = began + n / per_second - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        yield record
