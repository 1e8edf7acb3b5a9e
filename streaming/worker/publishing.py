"""Publish deliveries from the task that matched their events, in transactions with the offsets of these events."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from pyspark import TaskContext

from matchers.contract.tables import Int64
from matchers.index.snapshot import Part
from matchers.index.texts import Texts
from streaming.documents import records
from streaming.documents.records import Origin, Record
from streaming.errors import BrokerUnreachable, TopicMissing, Unsettled
from streaming.index import notes
from streaming.publishing import record_batches
from streaming.publishing.columns import event_columns
from streaming.publishing.connection.client import Client
from streaming.publishing.contract import Aborted, Batches, Producer, TopicPartition
from streaming.publishing.grouping import group
from streaming.publishing.headers import event_headers
from streaming.publishing.numbering import Numbering
from streaming.publishing.partitioner import partition_of, partitions_of
from streaming.publishing.record_batches import Format, events_keys, subscribers_keys
from streaming.publishing.slot import Committed, Slot
from streaming.publishing.sweep import slot_name
from streaming.rows import Kind, consumer_records
from streaming.worker.matches import Matches

LEAST_ATTEMPTS = 5  # at a transaction, unless the broker refuses another topic
AT_ONCE = 200_000  # matches, in a transaction, unless they are of one event
PIECE_BYTES = 16 << 20  # of records, encoded at once
LOOKED_AT = 8  # of the events that are delivered: whether they belong to traces
TRACE_CONTEXT = ("traceparent", "tracestate")  # headers, as the W3C has them

_subscribers = Numbering()  # of this process


@dataclass(frozen=True)
class Publication:
    """How the tasks of a batch publish. A task's slot is its number in the stage."""

    bootstrap_servers: str
    options: Mapping[str, str]  # of Kafka's clients, under librdkafka's names
    query: str  # also the group of the offsets
    note: str  # metadata of the offsets
    producers: tuple[Producer, ...]  # of the slots
    version: int  # of the state that events are matched against
    events: str  # topic
    dead_letters: str  # topic
    prefix: str  # of subscribers' topics
    shared: str  # the topic of all deliveries; empty: each subscriber has one
    max_bytes: int  # of a delivery
    max_matches: int  # of an event; 0: any number
    absent: frozenset[str] = frozenset()  # subscribers' topics that do not exist, and are not to be waited for

    def task(self, parts: Sequence[Part], false_positives: float) -> Task:
        """Raises Unsettled in all attempts at a task but the first: that one may be at work, or have published."""
        context = TaskContext.get()
        if context is not None and context.attemptNumber():
            raise Unsettled(f"attempt {context.attemptNumber()} at a task: only the first may publish")
        number = context.partitionId() if context is not None else 0
        return Task(self, parts, false_positives, number, _client(self.bootstrap_servers, tuple(self.options.items())))


@lru_cache(1)
def _client(bootstrap_servers: str, options: tuple[tuple[str, str], ...]) -> Client:
    """The connections of this process."""
    return Client(bootstrap_servers, dict(options))


@dataclass
class Task:
    """The publishing of one task, in its slot."""

    publication: Publication
    parts: Sequence[Part]
    false_positives: float
    number: int
    client: Client
    stopped: bool = field(default=False, init=False)
    _missing: set[str] = field(default_factory=set, init=False)
    _refused: dict[str, str] = field(default_factory=dict, init=False)  # by topic

    def __post_init__(self) -> None:
        query = self.publication.query
        self._slot = Slot(self.client, slot_name(query, self.number), query)
        self._producer = self.publication.producers[self.number]

    def stop(self) -> None:
        """Publish no more: what comes later must not overtake what could not be published."""
        self.stopped = True

    def report(self) -> Mapping[str, Any]:
        """The SLOT row of this task."""
        facts = {
            "slot": self.number,
            "producer_id": self._producer.id,
            "epoch": self._producer.epoch,
            "missing": sorted(self._missing),
        }
        return {"kind": Kind.SLOT, "value": orjson.dumps(facts)}

    def publish(self, rows: pa.RecordBatch, matches: Matches) -> tuple[int, list[Mapping[str, Any]]]:
        """Publish the events' deliveries and dead letters; returns the number of rows done and PUBLISHED rows.

        If topics are missing, only the first rows may be done, and the task has stopped. Raises JobError.
        """
        matched = time.time()
        published: list[Mapping[str, Any]] = []
        matches = _bounded(matches, self.publication.max_matches)
        batch = _Batch(self, rows, matches)
        for begin, end in _slices(matches.total):
            transaction = _Transaction(batch, begin, end)
            committed = self._committed(transaction)
            if committed is None:
                self.stop()
                return begin, published
            published.append(transaction.row(matched, committed))
        return len(rows), published

    def _committed(self, transaction: _Transaction) -> Committed | None:
        """Commit the transaction; None if topics are missing. Topics that are gone, or for which the broker refuses
        records, show only while it is sent: then it is composed again."""
        while True:
            self._missing |= transaction.compose(self._refused)
            if self._missing:
                return None
            try:
                committed = self._slot.publish(
                    self._producer,
                    transaction.pieces(self._producer),
                    transaction.destinations,
                    transaction.offsets,
                    self.publication.note,
                )
            except Aborted as aborted:
                self._producer = aborted.producer
                if self.publication.dead_letters in {*aborted.gone, *aborted.refused}:
                    raise TopicMissing(f"dead letters cannot be written: {aborted}") from aborted
                if not aborted.refused.keys() - self._refused.keys() and transaction.aborted >= LEAST_ATTEMPTS:
                    raise
                self._refused |= aborted.refused
                transaction.aborted += 1
            else:
                self._producer = committed.producer
                return committed


@dataclass
class _Batch:
    """An Arrow batch of events with what they match."""

    task: Task
    rows: pa.RecordBatch
    matches: Matches

    def __post_init__(self) -> None:
        self.columns = event_columns(self.rows)

    @cached_property
    def some_trace_contexts(self) -> list[Mapping[str, str]]:
        """Of the first events that are delivered, as far as they have any."""
        rows = np.flatnonzero(self.matches.total)[:LOOKED_AT].tolist()
        contexts: list[Mapping[str, str]] = []
        for row in rows:
            headers = {h["key"]: h["value"] for h in self.rows["headers"][row].as_py() or ()}
            context = {name: value.decode(errors="replace") for name in TRACE_CONTEXT if (value := headers.get(name))}
            if context:
                contexts.append(context)
        return contexts


@dataclass
class _Transaction:
    """The deliveries and dead letters of the rows begin .. end of a batch, and the offsets that they reach.

    It groups and measures the deliveries at once. `compose` decides about them, `pieces` encodes them for the slot, and
    `row` tells the driver what became of them; if the slot aborts, `compose` and `pieces` are called again.
    """

    batch: _Batch
    begin: int
    end: int
    aborted: int = field(default=0, init=False)  # attempts
    destinations: list[TopicPartition] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        batch, task = self.batch, self.batch.task
        events, subscribers, ids = [np.empty(0, np.int64)], [], []
        for part, (rows, position) in zip(task.parts, batch.matches.parts, strict=True):
            first, last = np.searchsorted(rows, (self.begin, self.end))
            some = position[first:last]
            events.append(rows[first:last].astype(np.int64))
            subscribers.append(notes.subscribers(part.segment).take(some))
            ids.append(part.segment.ids.take(some))
        numbers = _subscribers.numbers(Texts.joined(subscribers))
        columns, publication = batch.columns, task.publication
        self.deliveries = group(np.concatenate(events), numbers, Texts.joined(ids), len(batch.rows))
        self._headers = event_headers(
            columns,
            self.deliveries.event,
            publication.events,
            publication.version,
            false_positives=task.false_positives,
        )
        names = _subscribers.names
        self._keys = (
            subscribers_keys(names, self.deliveries) if publication.shared else events_keys(columns, self.deliveries)
        )
        self._sizes = record_batches.sizes(columns, self._headers, self.deliveries, self._keys)

    @cached_property
    def offsets(self) -> Mapping[TopicPartition, int]:
        columns, rows = self.batch.columns, slice(self.begin, self.end)
        topic, partitions, offsets = self.batch.task.publication.events, columns.partition[rows], columns.offset[rows]
        return {(topic, p): int(offsets[partitions == p].max()) + 1 for p in np.unique(partitions).tolist()}

    def compose(self, refused: Mapping[str, str]) -> set[str]:
        """Decide where each delivery goes, and which become dead letters; returns the topics that are missing.

        Raises BrokerUnreachable if there are dead letters and no topic for them.
        """
        publication, client, deliveries = self.batch.task.publication, self.batch.task.client, self.deliveries
        distinct, of = np.unique(deliveries.subscriber, return_inverse=True)  # of: [D] positions in distinct
        names = _subscribers.names.at(distinct)
        topics = [publication.shared] if publication.shared else [publication.prefix + name for name in names]
        there = client.partitions({*topics, publication.dead_letters})
        if missing := {*topics, publication.dead_letters} - there.keys() - publication.absent:
            return missing
        counts = np.array([there.get(topic, 0) for topic in topics], np.int64)
        self.destinations = [(topic, p) for topic, n in zip(topics, counts.tolist(), strict=True) for p in range(n)]
        if publication.shared:  # _to: [D] positions in destinations
            self._to = partitions_of(_subscribers.names.take(distinct), max(int(counts[0]), 1))[of]
            topic_of = np.zeros(len(of), np.int64)
        else:
            begins = np.cumsum(counts) - counts
            self._to = begins[of] + self.batch.columns.partition[deliveries.event] % np.maximum(counts[of], 1)
            topic_of = of
        is_absent = (counts == 0)[topic_of]
        is_oversize = self._sizes > publication.max_bytes
        is_refused = np.array([topic in refused for topic in topics], bool)[topic_of]
        bad = is_absent | is_oversize | is_refused
        self._good = np.flatnonzero(~bad)  # the others become dead letters
        self.letters: list[tuple[str, Record]] = [*self._event_letters()]
        for delivery in np.flatnonzero(bad).tolist():
            topic, name = topics[topic_of[delivery]], names[of[delivery]]
            if is_absent[delivery]:
                reason, detail = records.MISSING_TOPIC, f"topic {topic} of subscriber {name} does not exist"
            elif is_oversize[delivery]:
                size = self._sizes[delivery]
                reason = records.OVERSIZE
                detail = f"{size} bytes with headers; deliveries.max_bytes is {publication.max_bytes}"
            else:
                reason, detail = records.TOPIC_REFUSED, f"the broker refuses it for topic {topic}: {refused[topic]}"
            self.letters.append((reason, self._delivery_letter(delivery, name, reason, detail)))
        if self.letters:
            if publication.dead_letters not in there:  # the next start tells whether that is so for good
                raise BrokerUnreachable(f"no broker knows {publication.dead_letters}, which dead letters need")
            first, n = len(self.destinations), there[publication.dead_letters]
            self.destinations += [(publication.dead_letters, partition) for partition in range(n)]
            self._letters_to = [first + partition_of(letter.key, n) for _, letter in self.letters]
        return set()

    def pieces(self, producer: Producer) -> Iterator[Batches]:
        """Record batches, some at a time: one event can have a million deliveries."""
        self.encoded_s, self.size_bytes = 0.0, 0
        form = Format(
            producer,
            np.zeros(len(self.destinations), np.int64),
            time.time_ns() // 1_000_000,
            self.batch.task.client.options.compression,
            self.batch.task.client.options.batch_bytes,
        )
        piece = np.cumsum(self._sizes[self._good]) // PIECE_BYTES
        for some in np.split(self._good, np.flatnonzero(np.diff(piece)) + 1) if len(self._good) else ():
            began = time.perf_counter()
            batches = record_batches.encode(
                self.batch.columns, self._headers, self.deliveries, self._keys, self._to, some, form
            )
            self.encoded_s += time.perf_counter() - began
            self.size_bytes += len(batches.data)
            yield batches
        if self.letters:
            batches = record_batches.of_records([letter for _, letter in self.letters], self._letters_to, form)
            self.size_bytes += len(batches.data)
            yield batches

    def row(self, matched: float, committed: Committed) -> Mapping[str, Any]:
        """The PUBLISHED row."""
        total = self.batch.matches.total[self.begin : self.end]
        delivered = np.flatnonzero(total) + self.begin
        facts = {
            "events": len(delivered),
            "matches": int(total.sum()),
            "deliveries": len(self._good),
            "dead_letters": Counter(reason for reason, _ in self.letters),
            "aborted": self.aborted,
            "size_bytes": self.size_bytes,
            "errors": committed.errors,
            "matched": matched,
            "encoded_s": self.encoded_s,
            "sent": committed.sent_at,
            "committed": committed.committed_at,
            "trace_contexts": self.batch.some_trace_contexts if self.begin == 0 else [],
        }
        return {
            "kind": Kind.PUBLISHED,
            "value": orjson.dumps(facts),
            "matches": self.batch.columns.timestamp[delivered].tobytes(),
        }

    def _event_letters(self) -> Iterator[tuple[str, Record]]:
        for row in sorted(self.batch.matches.dead):
            if self.begin <= row < self.end:
                reason, detail = self.batch.matches.dead[row]
                yield reason, self._letter(row, reason, detail)

    def _delivery_letter(self, delivery: int, subscriber: str, reason: str, detail: str) -> Record:
        task, deliveries = self.batch.task, self.deliveries
        ids = deliveries.ids[deliveries.ids_start[delivery] : deliveries.ids_start[delivery + 1]].tobytes().decode()
        about = {"subscriber": subscriber, "subscriptionids": ids, "matchversion": str(task.publication.version)}
        if task.false_positives:
            about["approximate"] = str(task.false_positives)
        return self._letter(int(deliveries.event[delivery]), reason, detail, **about)

    def _letter(self, row: int, reason: str, detail: str, **about: str) -> Record:
        publication = self.batch.task.publication
        (record,) = consumer_records(self.batch.rows[row : row + 1])
        origin = Origin(publication.events, record.partition, record.offset, record.timestamp_ms)
        return records.dead_letter(publication.dead_letters, record, origin, reason, detail, **about)


def _bounded(matches: Matches, most: int) -> Matches:
    """The matches, with an event that has more than `most` as a dead one."""
    if not most or not (matches.total > most).any():
        return matches
    many = matches.total > most
    dead = dict(matches.dead)
    for row in np.flatnonzero(many).tolist():
        detail = f"{matches.total[row]:,} subscriptions match it; matching.max_per_event is {most:,}"
        dead[row] = records.TOO_MANY_MATCHES, detail
    parts = [(rows[~many[rows]], position[~many[rows]]) for rows, position in matches.parts]
    return Matches(dead, parts, np.where(many, 0, matches.total))


def _slices(total: Int64) -> Iterator[tuple[int, int]]:
    """The rows of one transaction after the other, as (begin, end)."""
    ends = np.cumsum(total)
    begin = 0
    while begin < len(total):
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + AT_ONCE, side="right")))
        yield begin, end
        begin = end
