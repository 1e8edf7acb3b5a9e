"""Write a batch exactly once: its records and how far the sources were read, in one Kafka transaction."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from streaming.errors import BrokerUnreachable, Fenced, JobError
from streaming.records import Record

TIMEOUT_S = 60.0

Offsets = Mapping[tuple[str, int], int]  # (topic, partition) -> offset of the first record not yet read
Notes = Mapping[tuple[str, int], str]  # what is kept beside such an offset, for as long as it is


class Aborted(JobError):
    """The transaction was given up and nothing of it is visible; a topic may have been deleted. Worth another try."""


class TransactionalSink:
    """The only writer of a query. Opening it stops every older one of that name from ever committing again.

    `publish` is called once a batch. If the process dies within, the batch is either wholly there or not at all for
    readers with isolation.level=read_committed, and `committed` tells which.
    """

    def __init__(self, bootstrap_servers: str, options: Mapping[str, str], name: str) -> None:
        common = {"bootstrap.servers": bootstrap_servers, "log_level": 0, **options}
        self._name = name
        self._config = {
            "linger.ms": 0,
            "batch.size": 1 << 20,
            "message.max.bytes": 20_000_000,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
            "compression.type": "lz4",
            **common,
            "transactional.id": name,
        }
        self._consumer = Consumer({**common, "group.id": name, "enable.auto.commit": False})
        self._last: dict[tuple[str, int], int] = {}  # what we committed last, or found committed
        self._producer = self._opened()

    def committed(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Where the last committed batch ended; partitions that none has touched are left out."""
        self._last = {(tp.topic, tp.partition): tp.offset for tp in self._found(partitions)}
        return dict(self._last)

    def notes(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], str]:
        """What the last committed batch noted; partitions without a note are left out."""
        return {(tp.topic, tp.partition): tp.metadata for tp in self._found(partitions) if tp.metadata}

    def publish(
        self, records: Sequence[Record], offsets: Offsets, notes: Notes = MappingProxyType({})
    ) -> tuple[float, float]:
        """Commit the records together with the offsets; returns when sending and when committing ended (epoch s).

        Raises Aborted, Fenced, or another JobError; then nothing of it is visible.
        """
        positions = [TopicPartition(*at, offset, notes.get(at, "")) for at, offset in offsets.items()]
        try:
            self._producer.begin_transaction()
            for record in records:
                self._produce(record)
            self._producer.flush(TIMEOUT_S)
            sent = time.time()
            if positions:
                group = self._consumer.consumer_group_metadata()
                self._producer.send_offsets_to_transaction(positions, group, TIMEOUT_S)
            self._commit()
        except KafkaException as error:
            if error.args[0].fatal() or not error.args[0].txn_requires_abort():
                raise self._translated(error) from error
            self._abort()
            raise Aborted(error.args[0].str()) from error
        self._last |= offsets
        return sent, time.time()

    def close(self) -> None:
        self._consumer.close()

    def _found(self, partitions: Sequence[tuple[str, int]]) -> list[TopicPartition]:
        try:
            found = self._consumer.committed([TopicPartition(t, p) for t, p in partitions], TIMEOUT_S)
        except KafkaException as error:
            raise self._translated(error) from error
        return [tp for tp in found if tp.offset >= 0]

    def _opened(self) -> Producer:
        producer = Producer(self._config)
        try:
            producer.init_transactions(TIMEOUT_S)
        except KafkaException as error:
            raise self._translated(error) from error
        return producer

    def _produce(self, record: Record) -> None:
        while True:
            try:
                self._producer.produce(record.topic, record.value, record.key, headers=record.headers)
                return
            except BufferError:  # librdkafka's queue is full: let it send
                self._producer.poll(0.1)

    def _commit(self) -> None:
        """Committing may be asked again for as long as the broker says so."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                self._producer.commit_transaction(TIMEOUT_S)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise

    def _abort(self) -> None:
        try:
            self._producer.abort_transaction(TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.INVALID_TXN_STATE:
                raise self._translated(error) from error
            self._reopen()

    def _reopen(self) -> None:
        """When no partition could be added to a transaction, the broker knows of none to abort, and the producer is
        of no more use. A new one of the name is; but if another job has committed meanwhile, we are the older one."""
        self._producer = self._opened()
        before = dict(self._last)
        if self.committed(list(before)) != before:
            raise self._fenced()

    def _translated(self, error: KafkaException) -> JobError:
        cause: KafkaError = error.args[0]
        if cause.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
            return self._fenced()
        unreachable = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
        if cause.retriable() or cause.code() in unreachable:
            return BrokerUnreachable(f"the broker does not answer: {cause.str()}")
        return JobError(f"Kafka refused the transaction of {self._name!r}: {cause.str()}")

    def _fenced(self) -> Fenced:
        return Fenced(
            f"another job with query.name = {self._name!r} has taken over, so this one stops; nothing was lost. "
            "Two jobs that are to run side by side need two names."
        )
