"""The work of tasks and of the driver without Spark and without a broker: input rows, and lists as sinks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from kafka.record import MemoryRecords
from pyspark.errors import PySparkException

from matchers.contract.tables import Int32, Int64
from matchers.index.snapshot import Snapshot
from streaming.documents.records import Record
from streaming.driver.batch_order import in_order
from streaming.driver.composition import TopicNames
from streaming.driver.pipeline import Pipeline
from streaming.monitoring.reporting import Observer, Report
from streaming.progress import noted
from streaming.publishing.connection.options import Options
from streaming.publishing.contract import Aborted, Notes, Offsets, ProducerEpoch, RecordBatches, TopicPartition
from streaming.publishing.delivery import DeliveryRule
from streaming.publishing.ownership import of_task
from streaming.publishing.slot import Committed
from streaming.rows import (
    EVENTS,
    INPUT,
    PACKED,
    SUBSCRIPTIONS,
    ReadProgress,
    Row,
    SlotReport,
    SourcePartition,
    unpacked,
)
from streaming.source_topics import SourceTopics
from streaming.state.state import State
from streaming.subscriber_counts import SubscriberCounts
from streaming.worker import epoch, publishing
from streaming.worker.compiling import ChangeRecords
from streaming.worker.publication import UNLIMITED, Publication, Quota
from streaming.worker.settings import TaskSettings
from tests.support.doubles.spark_double import Frame, WithoutSpark, traceback_of

NAMES = TopicNames(SourceTopics("subs", ["events"]), "status", "dead", lambda s: f"to.{s}")
SETTINGS = TaskSettings(
    query="q",
    topics=NAMES.sources.events,
    dead_letters=NAMES.dead_letters,
    rule=DeliveryRule("to."),
    max_bytes=1_000,
)
PUBLICATION = Publication(note="", producers=(), version=0, job=0, began=0.0)
Result = TypeVar("Result")


class Value:
    """A broadcast, as Spark would make it."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.destroyed = False

    def destroy(self) -> None:
        self.destroyed = True


def state(positions: dict[SourcePartition, int] | None = None) -> State:
    return State(Snapshot(), Value, positions or {(EVENTS, 0): 0})


def event(offset: int, value: Any, timestamp: int = 1_000, partition: int = 0, **more: Any) -> dict[str, Any]:
    raw = value if isinstance(value, bytes | None) else json.dumps(value).encode()
    at = {"source": EVENTS, "partition": partition, "offset": offset, "timestamp": timestamp}
    return at | {"key": None, "value": raw, "headers": None} | more


def change(offset: int, id: str, document: Any, partition: int = 0) -> dict[str, Any]:
    raw = None if document is None else json.dumps({"id": id, **document}).encode()
    return event(offset, raw, partition=partition) | {"source": SUBSCRIPTIONS, "key": id.encode()}


def changes(records: Sequence[tuple[bytes | None, bytes | None]]) -> ChangeRecords:
    """(key, value), from the first offset of partition 0 on."""
    values = pa.array([value for _, value in records], pa.binary())
    return ChangeRecords([key for key, _ in records], values, *places(len(records)))


def places(n: int) -> tuple[Int32, Int64]:
    """Partitions and offsets of the first records of a topic."""
    return np.zeros(n, np.int32), np.arange(n, dtype=np.int64)


ALICE = {"subscriber": "alice", "pattern": {"x": [1]}}
BOB = {"subscriber": "bob", "pattern": {"x": [{"exists": True}]}}


class ListSink:
    """A sink in place of a query's owner: it keeps what is published."""

    def __init__(self, aborts: int = 0) -> None:
        self.transactions: list[tuple[list[Record], Offsets]] = []
        self.aborts = aborts

    def publish(self, records: Iterable[Record], offsets: Offsets, *, starting: bool = False) -> tuple[float, float]:
        taken = list(records)
        if self.aborts:
            self.aborts -= 1
            raise Aborted("a topic was deleted", ProducerEpoch(0, 0))
        self.transactions.append((taken, offsets))
        return time.time(), time.time()


@dataclass
class Slots:
    """The slots of a job without brokers, as the driver has them; for a task also its client and its slot.

    What a task publishes becomes a transaction of the sink, with its records in the order of their topics. All topics
    exist but those that are absent, and all take records but those that reject them, or batches of that size.
    """

    sink: Any = field(default_factory=ListSink)
    absent: set[str] = field(default_factory=set)
    rejecting: set[str] = field(default_factory=set)
    batch_bytes: Mapping[str, int] = field(default_factory=dict)  # that a topic takes, if not any number
    partitions_each: int = 1  # of a topic
    publication: Publication = PUBLICATION
    options: Options = field(default_factory=lambda: Options.of({"compression.type": "none"}))
    sources: SourceTopics = NAMES.sources
    _producers: list[ProducerEpoch] = field(default_factory=lambda: [ProducerEpoch(7 + slot, 0) for slot in range(3)])
    _epochs: dict[int, int] = field(default_factory=dict)  # the newest of each producer id
    _offsets: dict[TopicPartition, int] = field(default_factory=dict)
    _notes: dict[TopicPartition, str] = field(default_factory=dict)
    _job: int = 0

    # For the driver

    def work(
        self,
        number: int,
        version: int,
        began: float,
        absent: frozenset[str],
        unusual: Mapping[str, int],
        quota: Quota,
        exact: bool,
    ) -> Publication:
        self._job += 1
        producers = tuple(self._producers[:number])
        batch = replace(
            self.publication, job=self._job, version=version, began=began, absent=absent, quota=quota, exact=exact
        )
        return replace(batch, producers=producers)

    def take(self, reports: Iterable[SlotReport]) -> None:
        self._job += 1
        for report in reports:
            self._producers[report.slot] = ProducerEpoch(report.producer_id, report.epoch)

    def committed(self, offsets: Offsets) -> None:
        assert offsets.items() <= self._offsets.items()

    def settle(self, own: Iterable[TopicPartition], read: Iterable[TopicPartition]) -> tuple[Offsets, list[Row]]:
        self._producers = [producer._replace(epoch=self._epochs.get(producer.id, 0)) for producer in self._producers]
        sources = self.sources.sources
        notes = (((sources[at[0]], at[1]), self._offsets[at], of_task(text)) for at, text in self._notes.items())
        return self._offsets, noted(notes, self._job)

    # For tasks

    def partitions(self, topics: Iterable[str], least: Mapping[str, int]) -> dict[str, int]:
        return dict.fromkeys(set(topics) - self.absent, self.partitions_each)

    def publish(
        self,
        producer: ProducerEpoch,
        pieces: Iterable[RecordBatches],
        destinations: Sequence[TopicPartition],
        offsets: Offsets,
        notes: Notes,
    ) -> Committed:
        assert producer.epoch == self._epochs.get(producer.id, 0), "it was fenced"
        following = producer._replace(epoch=producer.epoch + 1)
        self._epochs[producer.id] = following.epoch
        taken = list(pieces)
        records = [record for batches in taken for record in decoded(batches, destinations)]
        too_large, never_fit = (
            frozenset(topic for batches in taken for topic in self._too_large(batches, destinations, is_single))
            for is_single in (False, True)
        )
        rejecting = self.rejecting | never_fit
        rejected = {record.topic: "no" for record in records if record.topic in rejecting}
        if rejected or too_large:
            raise Aborted("rejected", following, rejected, too_large=too_large - never_fit)
        try:
            sent, committed = self.sink.publish(sorted(records, key=lambda record: record.topic), offsets)
        except Aborted as aborted:
            raise Aborted(str(aborted), following) from aborted
        self._offsets |= offsets
        self._notes |= notes
        return Committed(following, sent, committed, bytes=0, records=len(records), errors={})

    def _too_large(
        self, batches: RecordBatches, destinations: Sequence[TopicPartition], is_single: bool
    ) -> Iterator[str]:
        """The topics that reject batches of single or of several records."""
        sizes = batches.end - batches.begin
        for size, n, destination in zip(sizes, batches.records, batches.destination, strict=True):
            topic, _ = destinations[destination]
            if size > self.batch_bytes.get(topic, size) and (n == 1) == is_single:
                yield topic

    def task(self, number: int, work: Callable[[], Result]) -> Result:
        """Run the work of the task with that number."""
        context = SimpleNamespace(partitionId=lambda: number, attemptNumber=lambda: 0)
        of_tasks = SimpleNamespace(get=lambda: context)
        with (
            patch.multiple(publishing, TaskContext=of_tasks, _client=lambda *_: self, Slot=lambda *_: self),
            patch.object(epoch, "TaskContext", of_tasks),
        ):
            return work()

    def stage(self, works: Sequence[Callable[[], Result]]) -> list[Result]:
        """Run the tasks of a stage as Spark does, one after the other."""
        try:
            return [self.task(number, work) for number, work in enumerate(works)]
        except Exception as error:
            raise PySparkException(traceback_of(error)) from error


@dataclass
class SlotsOn(Slots):
    """The slots of a job whose topics are a broker's."""

    broker: Any = None

    def partitions(self, topics: Iterable[str], least: Mapping[str, int]) -> dict[str, int]:
        there = self.broker.partitions()
        return {topic: there[topic] for topic in topics if topic in there}


def decoded(batches: RecordBatches, destinations: Sequence[TopicPartition]) -> Iterator[Record]:
    places = zip(batches.begin.tolist(), batches.end.tolist(), batches.destination.tolist(), strict=True)
    for begin, end, destination in places:
        topic, partition = destinations[destination]
        batch = MemoryRecords(batches.data[begin:end].tobytes()).next_batch()
        assert batch is not None
        for record in batch:
            yield Record(topic, record.key, record.value, list(record.headers), partition)


def work(
    state: State,
    *batches: list[dict[str, Any]],
    settings: TaskSettings = SETTINGS,
    slots: Slots | None = None,
    exact: bool = True,
) -> list[Row]:
    """The rows of a task that gets these batches of Arrow's. `exact`: their timestamps are as Kafka has them."""
    slots = slots or Slots()
    (work,) = state.work(settings)
    work = replace(work, publication=slots.work(1, state.version, 0.0, slots.publication.absent, {}, UNLIMITED, exact))
    given = [pa.RecordBatch.from_pylist(rows, schema=INPUT) for rows in batches]
    packed = slots.task(0, lambda: list(work(given)))
    rows = unpacked(pa.Table.from_batches(packed, PACKED))
    slots.take(row for row in rows if isinstance(row, SlotReport))
    return rows


def apply(state: State, *batches: list[dict[str, Any]], settings: TaskSettings = SETTINGS) -> None:
    rows = in_order(work(state, *batches, settings=settings))
    state.apply(rows, {(r.source, r.partition): r.offset + 1 for r in rows if isinstance(r, ReadProgress)})


def delivered(state: State, *rows: dict[str, Any]) -> dict[int, dict[str, list[str]]]:
    """Return the ids by the event's offset and the subscriber."""
    sink = ListSink()
    work(state, list(rows), slots=Slots(sink))
    found: dict[int, dict[str, list[str]]] = {}
    for record in published(sink):
        headers = headers_of(record)
        offset, subscriber = int(headers["ce_id"].split(b"-")[-1]), record.topic.removeprefix("to.")
        found.setdefault(offset, {})[subscriber] = json.loads(headers["ce_subscriptionids"])
    return found


def headers_of(record: Record) -> dict[str, bytes]:
    """Return the headers that have a value."""
    return {name: value for name, value in record.headers if value is not None}


def published(sink: ListSink) -> list[Record]:
    return [record for records, _ in sink.transactions for record in records]


class SomeTopics:
    def __init__(self, absent: set[str]) -> None:
        self.absent = absent
        self.refreshed = 0

    def missing(self, topics: Any) -> set[str]:
        return set(topics) & self.absent

    def partitions(self, topic: str) -> int:
        return 1

    def unusual(self) -> dict[str, int]:
        return {}

    def refresh(self) -> None:
        self.refreshed += 1


def pipeline(sink: ListSink, absent: set[str] | None = None, max_bytes: int = 1_000, max_matches: int = 0) -> Pipeline:
    absent = set() if absent is None else absent
    slots: Any = Slots(sink, absent)
    owner: Any = sink
    settings = replace(SETTINGS, max_bytes=max_bytes, max_matches=max_matches)
    return WithoutSpark(state(), settings, owner, slots, SomeTopics(absent), NAMES, careful=False)


def sink_of(p: Pipeline) -> ListSink:
    sink: Any = p.owner
    assert isinstance(sink, ListSink)
    return sink


def slots_of(p: Pipeline) -> Slots:
    slots: Any = p.slots
    assert isinstance(slots, Slots)
    return slots


def step(p: Pipeline, *rows: dict[str, Any], most: int = 1_000_000) -> list[Record]:
    """The records of all transactions for a batch of these rows, of which Arrow's batches have at most so many."""
    sink = sink_of(p)
    before = len(sink.transactions)
    frame: Any = Frame.of(rows, most, slots_of(p).stage)
    p(frame, 0)
    return [record for records, _ in sink.transactions[before:] for record in records]


class Reports(Observer):
    """The reports of batches that had rows, and the counts of tasks by subscriber."""

    def __init__(self) -> None:
        self.seen: list[Report] = []
        self.counts: list[SubscriberCounts] = []
        self.progress = 0

    def progressed(self) -> None:
        self.progress += 1

    def batch(self, report: Report) -> None:
        self.seen.append(report)

    def counted(self, subscribers: bytes) -> None:
        self.counts.append(SubscriberCounts.from_bytes(subscribers))


class Later(Executor):
    """Begins nothing before it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []
        self.ended = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.ended:
            raise RuntimeError("nothing more is taken")
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    def work(self) -> None:
        while self.waiting:
            future, call = self.waiting.pop(0)
            try:
                future.set_result(call())
            except Exception as error:
                future.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.ended = True
        for future, _ in self.waiting:
            future.cancel()


class AtOnce(Executor):
    """Does it when it is told of it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future
