"""Replay past events for one subscription, each delivery exactly once, however often the replay is interrupted.

A replay has a name. Its range, of each partition of the topics of events the first offset and the one to stop before,
is settled at the beginning and committed as a note beside the offsets of a consumer group of its own, before any event
is read. Each batch's deliveries and the offsets it reached are one transaction. So who runs the same name again goes on
from there with the same range, and the process that ran it until then can commit nothing more.

An event is read and matched as the live job does it. One that cannot be read is only counted: the job has made a dead
letter of it. A delivery carries the header `sluice_replay`, and no `ce_matchversion`: that is a version of the job's
state, and no state of the job was used.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from math import ceil, inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Message

from streaming import tenants
from streaming.admin.pause import NoSubscription
from streaming.admin.replay_batch import ReplayMatching
from streaming.admin.start_position import NotJoined, answered, live_from, offsets_of, start_of, until_live
from streaming.admin.subscription_topic import StoredSubscription, decided, last_written
from streaming.documents.starts import Start
from streaming.documents.subscriptions import Change, Rejected, id_of, read_change
from streaming.errors import BrokerUnreachable, Fenced, JobError, TopicMissing, Unsettled
from streaming.kafka import clients, times
from streaming.kafka.clients import Cluster
from streaming.kafka.errors import translate
from streaming.kafka.event_topics import resolved
from streaming.kafka.outputs import outputs
from streaming.kafka.times import Span
from streaming.publishing.connection.client import Client
from streaming.publishing.contract import Aborted, Offsets, TopicPartition
from streaming.publishing.delivery import DeliveryRule
from streaming.publishing.encode.columns import offsets_behind
from streaming.publishing.fencing import committed_offsets
from streaming.publishing.producer import TransactionalProducer
from streaming.reading.contract import Position
from streaming.reading.fetcher import Fetcher
from streaming.rows import Source, sorted_by_topic, topic_runs
from streaming.source_topics import SourceTopics
from streaming.tenants import Tenant

if TYPE_CHECKING:
    from config.model import Settings

BATCH = 10_000  # events a transaction at most
NAME = re.compile(r"[a-zA-Z0-9._-]{1,100}")
POLL_S = 0.1


class DeliveryRejected(JobError):
    """The subscriber's topic rejects a delivery of a replay, so it cannot go on."""


@dataclass(frozen=True)
class ReplayRange:
    """The metadata that a replay commits with its offset in a partition. Brokers take 4,096 bytes."""

    subscription: str  # within the job; earlier versions wrote the id that the tenant gave
    document: str  # its digest
    start: int
    end: int


@dataclass
class ReplaySummary:
    """Counts of what this process did for a replay."""

    name: str
    events: int = 0
    matched: int = 0
    delivered: int = 0
    undecodable: int = 0
    oversize: int = 0  # matches larger than deliveries.max_bytes
    deleted: int = 0  # offsets of its range that retention deleted before it began, or before this process read them
    finished: bool = False

    def as_data(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"replay {self.name}: {self.events:,} events read, {self.matched:,} matched, {self.delivered:,} delivered; "
            f"skipped: {self.undecodable:,} undecodable, {self.oversize:,} oversize"
            f"{f'; {self.deleted:,} offsets deleted before they were read' if self.deleted else ''}"
        )


@contextmanager
def opened(settings: Settings, id: str, from_ms: int | None, to_ms: int | None, name: str | None) -> Iterator[Replay]:
    """The replay with that name; without a name, it is derived from the subscription and the range.

    The times are the range of a new replay (to now, without the second); one that has begun keeps its range. Either a
    name or the first time must be given. Raises JobError.
    """
    cluster = Cluster.of(settings)
    settings = resolved(settings, cluster.topics().partitions)
    word = latest(cluster, settings, id)

    def spans(consumer: Consumer, bounds: Mapping[TopicPartition, Span]) -> Mapping[TopicPartition, Span]:
        return {} if from_ms is None else times.between(consumer, bounds, from_ms, to_ms)

    absent = JobError(f"replay {name!r} not found; pass --from to start it")
    with _of_spans(cluster, settings, word, spans, name, absent) as replay:
        yield replay


@contextmanager
def joined(settings: Settings, id: str, start: Start | None, timeout_s: float) -> Iterator[Replay]:
    """The replay of what lies between the start of a subscription and its live deliveries.

    The start is that of its record, that of its document or the one given, the first of them that there is. Waits until
    the job has answered the record; creates the subscriber's topic, as the job does. Raises NotJoined, also without
    that topic, ChangeRejected, NoSubscription, Unanswered and other JobErrors.
    """
    cluster = Cluster.of(settings)
    topics = cluster.topics()
    settings = resolved(settings, topics.partitions)
    word = latest(cluster, settings, id)
    if word.change.paused:
        raise NotJoined(
            f"the subscription {id!r} is paused; `resume {id} --catch-up` resumes it and delivers the past events"
        )
    recorded = start_of(word)
    chosen = next((one for one in (recorded, word.change.start, start) if one is not None), None)
    if chosen is None:
        raise NotJoined(
            f"the subscription {id!r} has no start: its document has no `from`, and neither `subscribe --from` nor "
            f"`resume --catch-up` recorded one; `replay {id} --from TIME` delivers past events"
        )
    statuses = answered(cluster, settings, {id: word}, timeout_s)[id]
    live = live_from(settings, statuses[-1]) if statuses else None
    # Looked up after the answer: a present end, which stands for no past events, is then not before `live`.
    begin = offsets_of(cluster, settings, chosen) if recorded is None else recorded
    to = _topic(settings, word)
    if outputs(settings, topics).missing([to]) and settings.deliveries.layout == "topic_per_subscriber":
        try:
            topics.required([to])
        except TopicMissing as missing:
            raise NotJoined(
                f"{missing}, and it was not created; once the subscriber {word.change.subscription.subscriber!r} has "
                f"its topic, `catch-up {id}` delivers the past events"
            ) from None
    name = _name(id, [topics.id(settings.subscriptions.topic), word.partition, word.offset])

    def spans(consumer: Consumer, bounds: Mapping[TopicPartition, Span]) -> Mapping[TopicPartition, Span]:
        return {} if live is None else until_live(bounds, begin, live)

    absent = NotJoined(
        f"the status with the first event of {id!r} was replaced by the status of a later, rejected change; "
        f"`replay {id} --from TIME --to TIME` delivers past events"
    )
    wanted = {} if live is None else {at: (begin.get(at, 0), end) for at, end in live.items()}
    with _of_spans(cluster, settings, word, spans, name, absent, wanted) as replay:
        yield replay


@contextmanager
def _of_spans(
    cluster: Cluster,
    settings: Settings,
    word: StoredSubscription,
    spans: Callable[[Consumer, Mapping[TopicPartition, Span]], Mapping[TopicPartition, Span]],
    name: str | None,
    absent: JobError,
    wanted: Mapping[TopicPartition, Span] = MappingProxyType({}),
) -> Iterator[Replay]:
    """The replay with that name, or a new one of the offsets that `spans` gives within the bounds of the topics; if it
    gives none, the error is `absent`. What is `wanted` before the range of a partition is deleted."""
    assert word.value is not None
    topics, to = settings.events.names, _topic(settings, word)
    digest = hashlib.sha256(word.value).hexdigest()[:16]
    id = tenants.own(settings).qualified(word.id)
    try:
        there = cluster.topics().required([*topics, to])
        with closing(cluster.reader()) as consumer:
            bounds = times.bounds(consumer, [(topic, p) for topic in topics for p in range(there[topic])])
            ranges = spans(consumer, bounds)
        name = name or _name(word.id, _facts(id, digest, ranges))
        notes = {at: ReplayRange(id, digest, *span) for at, span in ranges.items()}
        group = f"{settings.query.name}.replay.{name}"
        cluster.topics().check_group(group)
        with closing(Client(cluster.bootstrap_servers, cluster.options)) as client:
            producer = TransactionalProducer(client, group)
            committed = committed_offsets(client, group, bounds)
            noted = {at: ReplayRange(**orjson.loads(note)) for at, (_, note) in committed.items() if note}
            reached = {at: offset for at, (offset, _) in committed.items()}
            matching = ReplayMatching.of(settings, name, word.change.subscription, word.value, there[to])
            replay = Replay(settings, name, word.change, noted or notes, reached, matching, producer)
            replay._look_for_deleted(wanted, bounds)
            if noted:
                replay._check(id, digest, bounds)
            elif notes:
                replay._publish(None, {at: note.start for at, note in notes.items()})
            else:
                raise absent
            yield replay
    except KafkaException as error:
        raise translate(error.args[0], f"{', '.join([*topics, to])} cannot be read") from error


def _topic(settings: Settings, word: StoredSubscription) -> str:
    """The topic of a subscription's deliveries."""
    return DeliveryRule.of(settings.deliveries).topic(word.change.subscription.subscriber)


def latest(cluster: Cluster, settings: Settings, id: str) -> StoredSubscription:
    """The last word on a subscription. Raises NoSubscription if none is in force."""
    topic, status_topic = settings.subscriptions.topic, settings.subscriptions.status_topic
    statuses = partial(clients.read, cluster, [status_topic], follow=False)
    decisions = decided(cluster.topics(), settings, statuses, [id])
    records = [
        message
        for message in clients.read(cluster, [topic], follow=False)
        if message is not None and id_of(message.key(), message.value()) == id.encode()
    ]
    tenant = tenants.own(settings)
    last = last_written(records, [id], decisions, tenant).get(id)
    if last is None:
        raise NoSubscription(_why_none(records, id, tenant))
    if last.value is None:
        raise NoSubscription(f"the subscription {id!r} is unsubscribed")
    return last


def _why_none(records: Sequence[Message], id: str, tenant: Tenant) -> str:
    """The reason that none of the records of an id is in force."""
    for message in reversed(records):
        try:
            read_change(message.key(), message.value(), tenant)
        except Rejected as rejected:
            return f"the job rejects the subscription {id!r}: {rejected}"
    return f"there is no subscription {id!r} in the topic {tenant.topic}"


@dataclass
class Replay:
    """An open replay of one subscription. `notes` has its range in each partition, `at` the offset reached there."""

    settings: Settings
    name: str
    change: Change
    notes: Mapping[TopicPartition, ReplayRange]
    at: dict[TopicPartition, int]
    matching: ReplayMatching
    producer: TransactionalProducer
    truncated: bool = False  # older events are deleted
    summary: ReplaySummary = field(init=False)
    _is_in_doubt: bool = field(default=False, init=False)  # whether the last transaction is committed

    def __post_init__(self) -> None:
        self.summary = ReplaySummary(self.name)

    @property
    def size(self) -> int:
        """The number of offsets in the range. Some of them may hold no event."""
        return sum(note.end - note.start for note in self.notes.values())

    @property
    def done(self) -> int:
        """The number of processed offsets."""
        return sum(self.at[p] - note.start for p, note in self.notes.items())

    def __str__(self) -> str:
        if self.done == self.size > 0:
            return f"the replay {self.name} is finished; pass --from and another --name to replay again"
        return (
            f"replay {self.name} of {self.change.subscription.id} for {self.change.subscription.subscriber}: "
            f"{self.done:,} of {self.size:,} offsets of {', '.join(self.settings.events.names)} done"
            f"{'; older events are deleted' if self.truncated else ''}"
        )

    def _look_for_deleted(self, wanted: Mapping[TopicPartition, Span], bounds: Mapping[TopicPartition, Span]) -> None:
        """Find out whether events are deleted: those that are wanted before the range, or some of the range that are
        not read yet. The latter are counted once they are skipped."""
        spans = [(note, *wanted.get(at, (0, 0))) for at, note in self.notes.items()]
        self.summary.deleted = sum(max(0, min(note.start, end) - start) for note, start, end in spans)
        self.truncated = self.summary.deleted > 0 or any(
            0 < bounds[at][0] == note.start < note.end or self.at.get(at, note.start) < min(bounds[at][0], note.end)
            for at, note in self.notes.items()
        )

    def _check(self, id: str, digest: str, bounds: Mapping[TopicPartition, Span]) -> None:
        """Check that a replay that has begun can go on. Raises JobError."""
        begun = next(iter(self.notes.values()))
        if begun.subscription != id and (begun.subscription, begun.document) != (self.change.subscription.id, digest):
            raise JobError(f"the replay {self.name!r} is for the subscription {begun.subscription!r}, not for {id!r}")
        if self.done == self.size:
            return
        if begun.document != digest:
            raise JobError(
                f"the subscription {id!r} was changed since the replay {self.name!r} began; pass --from and another "
                "--name to start a new replay"
            )
        if shorter := [topic for (topic, p), note in self.notes.items() if note.end > bounds[topic, p][1]]:
            raise JobError(
                f"the topic {shorter[0]} has fewer records than when the replay {self.name!r} began; pass --from and "
                "another --name to start a new replay"
            )

    def run(
        self,
        stop: threading.Event | None = None,
        rate: float | None = None,
        progress: Callable[[int], object] = lambda done: None,
    ) -> ReplaySummary:
        """Run until the replay is finished or, once `stop` is set, until the current transaction is committed.

        `rate` limits the events per second. `progress` is called with `done` after each transaction.
        Raises ValueError if `rate` is not a positive number, and JobError. After an error with `retry` another call
        goes on, unless the outcome of the last transaction is unknown: then the replay has to be opened again.
        """
        if rate is not None and not 0 < rate < inf:
            raise ValueError(f"rate must be a positive number, not {rate}")
        if self._is_in_doubt:
            raise JobError(f"the last transaction of the replay {self.name!r} may be committed; open the replay again")
        stop = stop or threading.Event()
        kafka, topics = self.settings.kafka, SourceTopics.of(self.settings)
        ends = {at: note.end for at, note in self.notes.items()}
        begins = {at: Position(offset) for at, offset in self.at.items() if offset < self.notes[at].end}
        most = min(BATCH, ceil(rate)) if rate else BATCH
        due = time.monotonic()
        deleted = self.summary.deleted
        progress(self.done)
        client = Client(kafka.bootstrap_servers, kafka.client)
        with closing(Fetcher(client, topics.sources, begins, ends=ends)) as fetcher:
            while not fetcher.is_done() and not stop.is_set():
                read = fetcher.poll(POLL_S)
                self.summary.deleted = deleted + fetcher.deleted.total()
                rows = None if read is None else sorted_by_topic(read.rows)
                for events in () if rows is None else [rows[i : i + most] for i in range(0, len(rows), most)]:
                    if stop.wait(max(0.0, due - time.monotonic())):
                        return self.summary
                    self._publish(events, _behind(events, topics.names))
                    progress(self.done)
                    if rate:
                        due = max(due, time.monotonic()) + len(events) / rate
                reached = {at: position.offset for at, position in fetcher.positions.items()}
                if not reached.items() <= self.at.items():  # what has no events: ends of transactions, deleted records
                    self._publish(None, reached)
                    progress(self.done)
            self.summary.finished = fetcher.is_done()
        return self.summary

    def _publish(self, events: pa.RecordBatch | None, reached: Offsets) -> None:
        """Commit the deliveries of these events, with the offsets of all partitions, so that they expire together."""
        batch = None if events is None else self.matching(events)
        offsets, notes = {**self.at, **reached}, {at: orjson.dumps(note).decode() for at, note in self.notes.items()}
        try:
            if batch is None:
                self.producer.publish([], offsets, notes)
            else:
                self.producer.publish_pieces(batch.pieces, self.matching.destinations, offsets, notes)
        except BrokerUnreachable:
            self._is_in_doubt = True
            raise
        except Unsettled:
            self._is_in_doubt = True
            if self.producer.is_timed_out:
                raise Unsettled(
                    f"a transaction of the replay {self.name!r} took longer than transaction.timeout.ms; nothing was "
                    f"lost. Resume with: replay {self.change.subscription.id} --name {self.name}"
                ) from None
            raise Fenced(
                f"the replay {self.name!r} was started elsewhere, so this one stops; nothing was lost"
            ) from None
        except Aborted as aborted:
            # Without the permission to write, all other subscriptions would fail likewise.
            permitted = not any("authorization" in reason for reason in aborted.rejected.values())
            of_one = aborted.rejected and permitted and self.settings.deliveries.layout == "topic_per_subscriber"
            failed = (DeliveryRejected if of_one else JobError)(
                f"the current transaction was aborted ({aborted}); none of it is visible. Resume with: "
                f"replay {self.change.subscription.id} --name {self.name}"
            )
            failed.retry = not aborted.rejected
            raise failed from aborted
        self.at = offsets
        if events is not None and batch is not None:
            summary = self.summary
            summary.events += len(events)
            summary.undecodable += batch.undecodable
            summary.matched += batch.matched
            summary.delivered += batch.delivered
            summary.oversize += batch.oversize


def _behind(events: pa.RecordBatch, names: Mapping[Source, str]) -> dict[TopicPartition, int]:
    """The offset behind the last of these events in each partition."""
    topics = ((names[source], begin, end) for source, begin, end in topic_runs(events))
    return offsets_behind(np.asarray(events["partition"]), np.asarray(events["offset"]), topics)


def _facts(id: str, document: str, ranges: Mapping[TopicPartition, Span]) -> list[Any]:
    """A document and its ranges, for a name."""
    is_one = len({topic for topic, _ in ranges}) == 1
    return [(p if is_one else (topic, p), id, document, *span) for (topic, p), span in sorted(ranges.items())]


def _name(id: str, facts: Sequence[Any]) -> str:
    """A name that is the same for the same facts."""
    digest = hashlib.sha256(orjson.dumps(facts))
    return f"{re.sub('[^a-zA-Z0-9._-]', '_', id)[:40]}-{digest.hexdigest()[:10]}"
