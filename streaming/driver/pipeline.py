"""Process one batch of the state machine.

deliveries(N) = match(state(N), events(N)), and state(N + 1) = apply(state(N), changes(N)).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import chain, islice
from operator import or_
from typing import Protocol

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from matchers.contract.tables import Int64
from matchers.index.texts import Texts
from streaming.documents import records
from streaming.documents.records import Record
from streaming.driver.batch_order import Last, in_order, last_changes
from streaming.driver.composition import Composition, Names, Outputs, in_force_from
from streaming.driver.isolation import Isolation, Lost, lost, ranges
from streaming.driver.limits.load_shedding import Precision
from streaming.driver.limits.quotas import DeliveryQuota, SubscriptionQuota, Wants, wants
from streaming.driver.limits.time_limit import TimeLimit
from streaming.driver.rereading import Misread, misread
from streaming.driver.slots import Slots
from streaming.errors import BrokerUnreachable, ExecutorLost, SparkFailed, Unsettled, of_worker
from streaming.index import notes
from streaming.kafka.deleted import DeletedEvents
from streaming.kafka.sink import Aborted, Offsets
from streaming.log import logger
from streaming.monitoring.reporting import CommittedTransaction, NullObserver, Observer, Report
from streaming.rows import (
    EVENTS,
    PACKED,
    SPARK_IS_RIGHT_FROM_MS,
    Change,
    ConsumerRecord,
    DeadLetter,
    MisreadTimes,
    Progress,
    Published,
    Refusal,
    Row,
    SlotReport,
    Source,
    SourcePartition,
    consumer_records,
    of_source,
    unpacked,
)
from streaming.state.first_load import Chosen, Slice
from streaming.state.state import State
from streaming.worker.matching import Work
from streaming.worker.publication import Publication
from streaming.worker.settings import TaskSettings
from streaming.worker.shards import ORDER, SHIPPED

log = logger("sluice.batch")

# Made once: Spark would parse a text anew for every batch.
OUTPUT = from_arrow_schema(PACKED)
BETWEEN = from_arrow_schema(SHIPPED)
LEAST_ATTEMPTS = 5  # at one transaction, however long they take
KEEP_TRYING_S = 30.0  # since the first attempt
LONGEST_PAUSE_S = 1.0  # between two attempts
ANSWERED_AT_ONCE = 10_000  # changes, in a transaction of the first start
BEYOND_SPARK = "a record has one beyond those that Spark knows"
OF_ANOTHER_CALENDAR = "a record has one that Spark takes for another calendar's or zone's"
ABSENT_S = 5.0
SMALL = 2_000  # rows that are worth one task more
ROWS_PER_PARTITION = 25  # likewise, for each partition that each task writes to
LARGE = 8 << 10  # bytes of a row, on average: then a batch is looked at before it is matched


class Sink(Protocol):
    def publish(self, records: Iterable[Record], offsets: Offsets) -> tuple[float, float]: ...


@dataclass
class Pipeline:
    """Process batches. Spark calls it with one batch after the other, each again until it has returned once
    (`foreachBatch`).

    A batch that was committed before a crash comes again after it: the workers drop its rows, which lie below
    `state.positions`, and nothing is left to do.
    """

    state: State
    settings: TaskSettings
    sink: Sink
    slots: Slots
    outputs: Outputs
    names: Names
    subscription_quota: SubscriptionQuota = field(default_factory=lambda: SubscriptionQuota(0))
    delivery_quota: DeliveryQuota = field(default_factory=lambda: DeliveryQuota(0))
    precision: Precision = field(default_factory=lambda: Precision(0, ()))
    tasks: int = 1  # of a shard and batch, at most: more than there are cores would only cost
    cores: Callable[[], int] | None = None  # how many there are now, where executors come and go
    # Whether the next batch may be too large to be matched at once: the last one may have ended the previous process.
    careful: bool = True
    time_limit: TimeLimit | None = None  # of the tasks of a batch
    describe: Callable[[str], object] = lambda text: None  # the next job of Spark, for its UI
    observer: Observer = field(default_factory=NullObserver)
    deleted: DeletedEvents = field(default_factory=DeletedEvents)
    # The partitions of both topics that a batch reads, by its number.
    planned: Callable[[int], Iterable[tuple[str, int]]] = lambda number: ()
    # The rows of a batch, by its number, from some positions on, without Spark (`rereading.Rereading`).
    reread: Callable[[int, Mapping[SourcePartition, int]], Iterable[pa.Table]] | None = None
    _number: int = field(default=0, init=False)  # of the batch in hand
    _rows: int = field(default=0, init=False)  # of the last batch that had any
    _partitions: int = field(default=0, init=False)  # that each of its tasks wrote to
    _absent: Absent = field(default_factory=lambda: Absent(), init=False)

    def __post_init__(self) -> None:
        self.deleted.begin(of_source(self.state.positions, EVENTS))

    def __call__(self, batch: DataFrame, number: int) -> None:
        self._number = number
        report = Report(number, self.precision.false_positives)
        if self.cores is not None and (cores := self.cores()) != self.tasks:
            self.slots.open(cores, self.state.broadcast)
            self.tasks = cores
        try:
            for rows in self._pieces(report, batch, number):
                report.saw(rows)
                self._look_for_gaps(rows)
                if (published := self.take(rows)) is not None:
                    report.add(published)
                self.observer.progressed()
        except Lost as reason:
            raise SparkFailed(f"Spark workers fail even on an empty batch: {reason}") from reason
        finally:
            self.observer.idle()
        if report.rows:
            report.counts["deleted_unread"] += self.deleted.count()
            self._rows, self._partitions = report.rows, report.partitions
            self.careful = report.bytes > LARGE * report.rows
            self.precision.seen(report.waited_ms)
            snapshot = self.state.snapshot
            report.state = {"version": self.state.version, "subscriptions": len(snapshot), "parts": len(snapshot.parts)}
            log.info("batch", **report.fields())
            self.observer.batch(report)

    def _pieces(self, report: Report, batch: DataFrame, number: int) -> Iterator[Sequence[Row]]:
        """The workers' rows, piece by piece. Consume each before the next."""
        isolation = self._isolation(report)
        try:
            yield from isolation.pieces(batch, self.careful)
        except Misread as reason:
            if self.reread is None:
                raise
            fields = {"batch": number, "reason": str(reason)}
            log.warning("Spark cannot read all timestamps, so the driver reads the batch", **fields)
            isolation = self._isolation(report, exact=True)
            for table in self.reread(number, dict(self.state.positions)):
                yield from isolation.pieces(batch.sparkSession.createDataFrame(table), careful=False)

    def _isolation(self, report: Report, exact: bool = False) -> Isolation[DataFrame, Row]:
        """`exact`: the timestamps are as Kafka has them."""
        return Isolation(
            partial(self._published, report, exact), partial(self._places, report), _only, partial(self._aside, exact)
        )

    def take(self, rows: Sequence[Row]) -> CommittedTransaction | None:
        """Apply the changes of a batch and publish their statuses, and the dead letters that no task can publish."""
        positions: dict[SourcePartition, int] = {
            (r.source, r.partition): r.offset + 1 for r in rows if isinstance(r, Progress)
        }
        if not positions:
            return None
        # Slots have committed the offsets of what they published.
        left = {at: to for at, to in positions.items() if to > self.state.positions.get(at, 0)}
        rows = in_order(rows)
        decided = self.subscription_quota.checked(rows, self.state.snapshot)
        refused = [d.record for r, d in zip(rows, decided, strict=True) if isinstance(d, Refusal) and d is not r]
        self.state.refuse([(record.partition, record.offset) for record in refused])
        published = self._publish(decided, left) if left else None
        self.state.apply(decided, left)
        return published and published._replace(applied=time.time())

    def rest(self) -> None:
        """Do the work between two batches, while there is none."""
        self.state.step()
        if deleted := self.deleted.count():
            self.observer.deleted(deleted)

    def _look_for_gaps(self, rows: Sequence[Row]) -> None:
        """Among the offsets of the events in these rows."""
        records: Counter[int] = Counter()
        last: dict[int, int] = {}
        for row in rows:
            if isinstance(row, Progress) and row.source == EVENTS:
                records[row.partition] += row.records
                last[row.partition] = max(row.offset, last.get(row.partition, 0))
        self.deleted.read(records, last)

    def adopt(
        self, slices: Sequence[Slice], chosen: Sequence[Chosen], positions: Mapping[SourcePartition, int]
    ) -> None:
        """Publish the statuses of all subscriptions at the first start, and commit the offsets where reading begins.

        The last change of each id has a status, and so has every refused change; superseded changes have none. After a
        crash before the end it is repeated: statuses may then be written twice, with the same content.
        """
        self.state.positions.update(positions)
        self.deleted.begin(of_source(self.state.positions, EVENTS))
        refused = [row for slice_ in slices for row in slice_.refusals]
        last = _last_words(slices, chosen, {row.id for row in refused if row.id})
        composition = self._composition(positions, last)
        late = [row for row in refused if _is_later(row, last)]
        early = [row for row in refused if not _is_later(row, last)]
        self._answer(chain.from_iterable(map(composition.answer, early)))
        for slice_, chosen_rows in zip(slices, chosen, strict=True):
            kept = np.flatnonzero(chosen_rows.subscriptions)
            subscribers = notes.subscribers(slice_.segment).at(kept)
            self._make_topics(set(subscribers))
            offsets = notes.numbers(slice_.segment, "offset")[kept].tolist()
            changes = zip(slice_.segment.ids.at(kept), subscribers, offsets, slice_.paused[kept].tolist(), strict=True)
            self._answer(records.statuses(self.names.statuses, slice_.partition, changes, composition.since))
            self._answer(chain.from_iterable(map(composition.answer, _withdrawals(slice_, chosen_rows))))
        self._answer(chain.from_iterable(map(composition.answer, late)))
        self._commit(tuple, positions)

    def _answer(self, statuses: Iterator[Record]) -> None:
        while some := list(islice(statuses, ANSWERED_AT_ONCE)):
            self._commit(partial(iter, some), {})

    def _published(self, report: Report, exact: bool, batch: DataFrame) -> list[Row]:
        """The workers' rows of a batch: again and again, until no task lacks a topic, and none was fenced. What was
        published meanwhile is dropped from the batch by its offsets.

        Raises Misread unless the timestamps are exact; Lost, JobError, or our own error.
        """
        n = 1 if exact else self._slots()
        done: list[Row] = []
        wanted: Wants = Counter()  # at the last attempt
        patience = Patience()
        while True:
            before = self.state.positions
            try:
                before_it, wanted = wanted, self._wanted(report, exact, batch, n)
                self.delivery_quota.count(before_it - wanted)  # that was published meanwhile
                publication = self.slots.work(
                    n,
                    self.state.version,
                    self._absent.topics(),
                    self.outputs.unusual(),
                    self.delivery_quota.of(wanted),
                    exact,
                )
                rows = self._stage(report, exact, batch, n, publication)
            except Exception as error:
                self._reached(self.slots.settle(self._own(), self.planned(self._number)))
                report.counts["unreported"] += sum(self.state.positions.values()) - sum(before.values())
                if not isinstance(error, Unsettled) or patience.ends(self.state.positions != before):
                    raise
                log.warning("a task could not publish, trying again", reason=str(error))
                report.counts["transactions_aborted"] += not isinstance(error, ExecutorLost)
                patience.pause()
                continue
            missing = self._took(report, rows)
            if not exact and any(isinstance(row, MisreadTimes) for row in rows):
                raise Misread(OF_ANOTHER_CALENDAR)
            if not missing:
                self.delivery_quota.count(wanted)
                return done + [row for row in rows if not isinstance(row, SlotReport | Published)]
            if patience.ends(self.state.positions != before):
                raise BrokerUnreachable(f"{min(missing)} was made, but tasks do not find it")
            done += _progress_of_events(rows)  # the rest comes again
            patience.pause()
            self.outputs.refresh()
            self._absent.add(self.outputs.missing(missing))

    def _slots(self) -> int:
        """The number of slots, for a batch like the last one.

        Every slot has records for nearly every partition, and the broker works about 0.2 ms for each partition of a
        transaction. With a thousand topics that is more than a task of 10,000 events.
        """
        return min(self.tasks, 1 + self._rows // max(SMALL, ROWS_PER_PARTITION * self._partitions))

    def _took(self, report: Report, rows: Sequence[Row]) -> set[str]:
        """Take note of what tasks have published; returns the topics that they lack."""
        reports = [row for row in rows if isinstance(row, SlotReport)]
        self.slots.take(reports)
        for row in rows:
            if isinstance(row, Published):
                report.add_task(row)
                self.state.seen = self.state.seen.plus(row.met, row.attributes, row.batches)
        reached = {(self.names.events, row.partition): row.offset + 1 for row in _progress_of_events(rows)}
        self.slots.committed(reached)
        self._reached(reached)
        return {topic for report in reports for topic in report.missing}

    def _wanted(self, report: Report, exact: bool, batch: DataFrame, n: int) -> Wants:
        """The deliveries that subscribers would get without a quota. Nobody asks where there is none."""
        if not self.delivery_quota.most:
            return Counter()
        return wants(self._stage(report, exact, batch.filter(f"source = {EVENTS:d}"), n, None))

    def _own(self) -> list[tuple[str, int]]:
        """The partitions whose offsets the driver commits."""
        return [(self.names.subscriptions, partition) for partition in self.state.subscription_offsets()]

    def _reached(self, offsets: Offsets) -> None:
        """Take note of offsets that slots have committed."""
        reached = {(EVENTS, p): offset for (topic, p), offset in offsets.items() if topic == self.names.events}
        self.state.positions = {**self.state.positions, **reached}  # another thread may read the old ones

    def _stage(
        self, report: Report, exact: bool, batch: DataFrame, n: int, publication: Publication | None
    ) -> list[Row]:
        """The rows of at most n tasks, which publish, or count deliveries without a publication."""
        self._begin("prepare")
        with report.stage("prepare"):
            works = [
                replace(work, publication=publication)
                for work in self.state.work(self.settings, report.false_positives)
            ]
        self._begin("match")
        self._describe("match and publish" if publication else "count deliveries")
        with report.stage("match"):
            try:
                return unpacked(self._in_time(report, _answers(batch.coalesce(n), works, n)))
            except (PySparkException, Py4JJavaError) as error:
                if not exact and misread(str(error)):
                    raise Misread(BEYOND_SPARK) from error
                cause = of_worker(str(error)) or lost(str(error)) or error
                report.counts["workers_lost"] += isinstance(cause, Lost | ExecutorLost)
                raise cause from error

    def _in_time(self, report: Report, answers: DataFrame) -> pa.Table:
        """The answers of tasks. Raises Lost if they take too long, and what Spark raises."""
        if self.time_limit is None:
            return answers.toArrow()
        with self.time_limit.watched() as cancelled:
            try:
                return answers.toArrow()
            except (PySparkException, Py4JJavaError) as error:
                if not cancelled.is_set():
                    raise
                report.counts["workers_lost"] += 1
                report.counts["workers_hung"] += 1
                raise Lost("workers did not answer in time, and were killed", again=True) from error

    def _places(self, report: Report, batch: DataFrame) -> Int64:
        """The places of the rows, as `Isolation` takes them, found without a worker."""
        size = reduce(lambda a, b: a + b, (f.coalesce(f.length(name), f.lit(0)) for name in ("key", "value")))
        self._begin("measure")
        self._describe("measure")
        with report.stage("measure"):
            try:
                table = batch.select("source", "partition", "offset", size.cast("long").alias("bytes")).toArrow()
            except (PySparkException, Py4JJavaError) as error:
                if misread(str(error)):
                    raise Misread(BEYOND_SPARK) from error
                raise
        places = np.column_stack([table[name].to_numpy().astype(np.int64) for name in table.column_names])
        places = places[[offset >= self.state.positions.get((s, p), 0) for s, p, offset, _ in places.tolist()]]
        return places[np.lexsort(places.T[::-1])]

    def _aside(self, exact: bool, batch: DataFrame, reason: str) -> list[Row]:
        """The dead letter of a row that kills workers. Raises Misread unless the timestamps are exact."""
        detail = f"no worker survives it ({reason})"
        rows: list[Row] = []
        for table in batch.toArrow().to_batches():
            for source, record in zip(table["source"].to_pylist(), consumer_records(table), strict=True):
                if not exact and record.timestamp_ms < SPARK_IS_RIGHT_FROM_MS:
                    raise Misread(OF_ANOTHER_CALENDAR)
                if source == EVENTS:
                    rows.append(DeadLetter(record, records.POISON_EVENT, detail))
                else:
                    rows.append(Refusal(record, record.key.decode(errors="replace") if record.key else None, detail))
                rows.append(
                    Progress(
                        source=Source(source),
                        partition=record.partition,
                        offset=record.offset,
                        records=1,
                        size_bytes=0,
                        timestamp_ms=None,
                    )
                )
        return rows

    def _publish(self, rows: Sequence[Row], positions: Mapping[SourcePartition, int]) -> CommittedTransaction:
        began = time.time()
        self._begin("publish")
        self._make_topics({r.subscriber for r in rows if isinstance(r, Change) and r.subscriber is not None})
        failed = [r.id for r in rows if isinstance(r, Refusal) and r.id]
        last = {id: Last(place, withdrawn=False) for id, place in self.state.places(failed).items()}
        composition = self._composition(positions, {**last, **last_changes(rows)})
        aborted, sent, committed = self._commit(partial(composition.records, rows), positions)
        return CommittedTransaction(
            rows=rows,
            dead_letters=composition.dead_letters,
            aborted=aborted,
            began=began,
            sent=sent,
            committed=committed,
            applied=committed,
        )

    def _describe(self, what: str) -> None:
        self.describe(f"batch {self._number}: {what}")

    def _begin(self, stage: str) -> None:
        self.observer.doing(self._number, stage)

    def _make_topics(self, subscribers: set[str]) -> None:
        self.outputs.missing({self.names.delivery_topic(s) for s in subscribers})

    def _commit(
        self, make: Callable[[], Iterable[Record]], positions: Mapping[SourcePartition, int]
    ) -> tuple[int, float, float]:
        """The number of aborts, and the sink's result. `make` composes the records, for each attempt again."""
        offsets = {(self.names.source(source), p): offset for (source, p), offset in positions.items()}
        deadline = time.monotonic() + KEEP_TRYING_S
        aborts = 0
        while True:
            try:
                return aborts, *self.sink.publish(make(), offsets)
            except Aborted as aborted:
                if aborts + 1 >= LEAST_ATTEMPTS and time.monotonic() > deadline:
                    raise
                # A topic that was deleted a moment ago may still be listed, so the pauses grow.
                aborts += 1
                _pause(aborts)
                log.warning("transaction aborted, trying again", reason=str(aborted))

    def _composition(self, positions: Mapping[SourcePartition, int], last: Mapping[str, Last]) -> Composition:
        return Composition(self.names, in_force_from({**self.state.positions, **positions}, self.names), last)


def _pause(failures: int) -> None:
    """Wait before the next try: not after the first failure, then longer and longer."""
    time.sleep(min(LONGEST_PAUSE_S, 0.05 * (failures - 1)))


@dataclass
class Patience:
    """A limit on the time without progress. It begins with the first failure, so at least one more try follows. The
    pauses between tries grow from nothing."""

    _until: float = math.inf  # by the monotonic clock
    _failures: int = 0  # since there was progress

    def ends(self, progress: bool) -> bool:
        """Called after each try that failed."""
        if progress:
            self._until, self._failures = math.inf, 0
        self._failures += 1
        if self._until < math.inf:
            return time.monotonic() > self._until
        self._until = time.monotonic() + KEEP_TRYING_S
        return False

    def pause(self) -> None:
        """Called before the next try."""
        _pause(self._failures)


@dataclass
class Absent:
    """Topics that do not exist, for a while: then somebody may have made them."""

    _topics: frozenset[str] = frozenset()
    _since: float = 0.0  # by the monotonic clock

    def add(self, topics: Iterable[str]) -> None:
        self._topics = self.topics() | frozenset(topics)
        self._since = self._since or time.monotonic()

    def topics(self) -> frozenset[str]:
        if self._since and time.monotonic() > self._since + ABSENT_S:
            self._topics, self._since = frozenset(), 0.0
        return self._topics


def _answers(batch: DataFrame, works: Sequence[Work], n: int) -> DataFrame:
    """The packed rows of n tasks: those that match the batch, or those that get what the tasks of shards match."""
    first, *others = works
    if not others:
        return batch.mapInArrow(first, OUTPUT)
    shards = reduce(lambda one, other: one.union(other), (batch.mapInArrow(work.ship, BETWEEN) for work in works))
    together = shards.repartition(n, "source", "partition").sortWithinPartitions(*ORDER)
    return together.mapInArrow(replace(first, parts=()).publish, OUTPUT)


def _progress_of_events(rows: Iterable[Row]) -> list[Progress]:
    return [row for row in rows if isinstance(row, Progress) and row.source == EVENTS]


def _only(batch: DataFrame, places: Int64) -> DataFrame:
    among = (
        (f.col("source") == source) & (f.col("partition") == partition) & f.col("offset").between(first, last)
        for source, partition, first, last in ranges(places)
    )
    return batch.filter(reduce(or_, among, f.lit(False)))


def _last_words(slices: Sequence[Slice], chosen: Sequence[Chosen], ids: Iterable[str]) -> dict[str, Last]:
    """The last word on each of these ids that has one."""
    wanted = Texts.of(ids)
    last: dict[str, Last] = {}
    for slice_, chosen_rows in zip(slices, chosen, strict=True):
        for texts, is_last, offset, withdrawn in (
            (slice_.segment.ids, chosen_rows.subscriptions, notes.numbers(slice_.segment, "offset"), False),
            (slice_.withdrawn, chosen_rows.withdrawn, slice_.withdrawn_offset, True),
        ):
            place = texts.find(wanted)
            for i in np.flatnonzero(place >= 0).tolist():
                if is_last[place[i]]:
                    last[wanted[i]] = Last((slice_.partition, int(offset[place[i]])), withdrawn)
    return last


def _is_later(row: Refusal, last: Mapping[str, Last]) -> bool:
    """Whether a refused change comes after the last word on its id."""
    if row.id is None or row.id not in last:
        return True
    partition, offset = last[row.id].place
    return partition == row.record.partition and offset < row.record.offset


def _withdrawals(slice_: Slice, chosen_rows: Chosen) -> Iterator[Change]:
    gone = np.flatnonzero(chosen_rows.withdrawn)
    for id, offset in zip(slice_.withdrawn.at(gone), slice_.withdrawn_offset[gone].tolist(), strict=True):
        yield Change(ConsumerRecord(slice_.partition, offset, timestamp_ms=0), id, subscriber=None)
