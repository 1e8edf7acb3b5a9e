"""Publish deliveries from the task that matched their events, in transactions with the offsets of these events."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from streaming.documents.trace_context import TRACED_EVENTS
from streaming.errors import ExecutorLost, TopicMissing, Unsettled
from streaming.progress import Progress, note
from streaming.publishing.batch_limits import BatchLimits
from streaming.publishing.connection.client import Client
from streaming.publishing.contract import LEAST_ATTEMPTS, Aborted, RecordBatches, TopicPartition
from streaming.publishing.fencing import slot_name
from streaming.publishing.slot import Committed, Slot
from streaming.rows import SPARK_IS_RIGHT_FROM_MS, Published, RowKind
from streaming.worker.events.matches import MATCHES_AT_ONCE, Matches
from streaming.worker.publication import Publication
from streaming.worker.settings import TaskSettings
from streaming.worker.subscriber_counter import SubscriberCounter
from streaming.worker.transaction import SUBSCRIBERS, MatchedBatch, Transaction


@dataclass
class Task:
    """The publishing of one task, in its slot."""

    settings: TaskSettings
    publication: Publication
    false_positives: float
    number: int
    client: Client
    _stopped: bool = field(default=False, init=False)
    _missing: set[str] = field(default_factory=set, init=False)
    _rejected: dict[str, str] = field(default_factory=dict, init=False)  # by topic
    _limits: BatchLimits = field(init=False)
    _read: Progress = field(default_factory=Progress, init=False)
    _published: Published = field(default_factory=Published, init=False)

    @classmethod
    def of(cls, settings: TaskSettings, publication: Publication, false_positives: float) -> Task:
        """The present task. Raises ExecutorLost in all attempts at it but the first: that one may be at work, or have
        published."""
        context = TaskContext.get()
        if context is not None and context.attemptNumber():
            raise ExecutorLost("an executor was lost, and only the first attempt of its task may publish")
        number = context.partitionId() if context is not None else 0
        client = _client(settings.bootstrap_servers, tuple(settings.options.items()))
        return cls(settings, publication, false_positives, number, client)

    def __post_init__(self) -> None:
        query = self.settings.query
        self._slot = Slot(self.client, slot_name(query, self.number), query)
        self._producer = self.publication.producers[self.number]
        self._limits = _limits(min(self.client.options.batch_bytes, self.settings.max_batch_bytes))
        self._left = dict(self.publication.quota.left)
        self._sources = {topic.name: source for source, topic in self.settings.topics.items()}
        self._counter: SubscriberCounter | None = None
        if self.settings.counts_subscribers:
            self._counter = SubscriberCounter(SUBSCRIBERS, self.settings.counts_subscriptions)

    def report(self) -> list[Mapping[str, Any]]:
        """The PROGRESS rows of the events that this task has committed, its PUBLISHED row if there are any, its
        SUBSCRIBER_COUNTS rows, and its SLOT row."""
        facts = {
            "slot": self.number,
            "producer_id": self._producer.id,
            "epoch": self._producer.epoch,
            "missing": sorted(self._missing),
        }
        published = {"kind": RowKind.PUBLISHED, "value": self._published.to_json()}
        return [
            *self._read.rows(),
            *([published] if self._published.commits else []),
            *(self._counter.rows() if self._counter is not None else ()),
            {"kind": RowKind.SLOT, "value": orjson.dumps(facts)},
        ]

    def publish(
        self, rows: pa.RecordBatch, matches: Matches, taken: float | None = None
    ) -> tuple[int, list[Mapping[str, Any]]]:
        """Publish the events' deliveries and dead letters; returns the number of rows done, and a MISREAD row if a
        timestamp is wrong. `taken` is when the task had read the events (epoch s), unless Spark did.

        At the first row that it cannot do, because a topic is missing or a timestamp wrong, the task stops: what comes
        later must not overtake. Raises JobError.
        """
        matched = time.time()
        taken = self.publication.began if taken is None else taken
        if self._stopped:
            return 0, []
        if not self.publication.exact and pc.min(rows["timestamp"]).as_py() < SPARK_IS_RIGHT_FROM_MS:
            self._stopped = True
            return 0, [{"kind": RowKind.MISREAD}]
        batch = MatchedBatch(
            self.settings, self.publication, self.client, self.false_positives, rows, matches, self._left
        )
        slices = matches.slices(MATCHES_AT_ONCE)
        for transaction in chain.from_iterable(Transaction.fitting(batch, begin, end) for begin, end in slices):
            read = self._read.copy()
            read.add(rows[transaction.begin : transaction.end])
            committed = self._committed(transaction, read)
            if committed is None:
                self._stopped = True
                return transaction.begin, []
            self._read = read
            traced = TRACED_EVENTS - len(self._published.trace_contexts)
            self._published.add(transaction.published(taken, matched, committed, traced))
            if self._counter is not None:
                self._counter.add(transaction.counted_deliveries())
        return len(rows), []

    def _committed(self, transaction: Transaction, read: Progress) -> Committed | None:
        """Commit the transaction, after which `read` counts; None if topics are missing. Deleted topics, and topics
        whose records or record batches the broker rejects, are found while it is sent: the transaction is then composed
        again."""
        in_vain = 0  # attempts in a row that showed nothing new
        while True:
            self._missing |= transaction.compose(self._rejected)
            if self._missing:
                return None
            notes: dict[TopicPartition, str] = {}
            try:
                committed = self._slot.publish(
                    self._producer,
                    self._pieces(transaction, read, notes),
                    transaction.destinations,
                    transaction.offsets,
                    notes,
                )
            except Aborted as aborted:
                self._producer = aborted.producer
                if self.settings.dead_letters in {*aborted.gone, *aborted.rejected}:
                    raise TopicMissing(f"dead letters cannot be written: {aborted}") from aborted
                is_new = aborted.too_large or aborted.rejected.keys() - self._rejected.keys()
                in_vain = 0 if is_new else in_vain + 1
                if in_vain >= LEAST_ATTEMPTS:
                    raise Unsettled(f"aborted {LEAST_ATTEMPTS} times: {aborted}") from aborted
                self._limits.reduce(aborted.too_large)
                self._rejected |= aborted.rejected
                transaction.aborted += 1
            else:
                self._producer = committed.producer
                return committed

    def _pieces(
        self, transaction: Transaction, read: Progress, notes: dict[TopicPartition, str]
    ) -> Iterator[RecordBatches]:
        """Yield the pieces of a transaction; after the last one, set the notes to commit with it."""
        yield from transaction.pieces(self._producer, self._limits)
        published = self._published.counts()
        published.add(transaction.counts)
        for topic, partition in transaction.offsets:
            text = note(self.publication.job, self.number, read.of[self._sources[topic], partition], published)
            notes[topic, partition] = f"{self.publication.note} {text}"


@lru_cache(1)
def _client(bootstrap_servers: str, options: tuple[tuple[str, str], ...]) -> Client:
    """The connections of this process."""
    return Client(bootstrap_servers, dict(options))


@lru_cache(1)
def _limits(most_bytes: int) -> BatchLimits:
    """The limits of topics, as far as this process has learned them."""
    return BatchLimits(most_bytes)
