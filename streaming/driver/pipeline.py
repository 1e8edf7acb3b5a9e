"""Process one batch of the state machine.

deliveries(N) = match(state(N), events(N)), and state(N + 1) = apply(state(N), changes(N)).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from matchers.contract.tables import Int64
from streaming.documents import records
from streaming.driver import first_start
from streaming.driver.attempts import MissingTopicsCache, RetryDeadline, commit
from streaming.driver.batch_order import Last, in_order, last_changes
from streaming.driver.composition import Composition, Outputs, TopicNames, in_force_from
from streaming.driver.isolation import Isolation, WorkersLost, ranges, workers_lost
from streaming.driver.limits.load_shedding import LoadShedder
from streaming.driver.limits.quotas import DeliveryQuota, SubscriptionQuota, Wants, wants
from streaming.driver.limits.time_limit import TimeLimit
from streaming.driver.rereading import Misread, misread
from streaming.driver.slots import Slots
from streaming.errors import BrokerUnreachable, ExecutorLost, SparkFailed, Unsettled, of_worker
from streaming.kafka.deleted import DeletedEvents
from streaming.log import logger
from streaming.monitoring.reporting import CommittedTransaction, Observer, Report
from streaming.publishing.contract import Offsets
from streaming.publishing.ownership import Owner
from streaming.rows import (
    EVENTS,
    PACKED,
    SPARK_IS_RIGHT_FROM_MS,
    AcceptedChange,
    DeadLetter,
    MisreadTimes,
    Published,
    ReadProgress,
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
from streaming.state.state import State, registered
from streaming.worker.matching import Work
from streaming.worker.publication import Publication
from streaming.worker.settings import TaskSettings
from streaming.worker.shards import ORDER, SHIPPED

log = logger("sluice.batch")

# Made once: Spark would parse a text anew for every batch.
OUTPUT = from_arrow_schema(PACKED)
BETWEEN = from_arrow_schema(SHIPPED)
BEYOND_SPARK = "a record has one beyond those that Spark knows"
OF_ANOTHER_CALENDAR = "a record has one that Spark takes for another calendar's or zone's"
SMALL_TASK_ROWS = 2_000  # that are worth one task more
ROWS_PER_PARTITION = 25  # likewise, for each partition that each task writes to
LARGE_ROW_BYTES = 8 << 10  # on average: then a batch is looked at before it is matched


@dataclass
class Pipeline:
    """Process batches. Spark calls it with one batch after the other, each again until it has returned once
    (`foreachBatch`).

    A batch that was committed before a crash comes again after it: the workers drop its rows, which lie below
    `state.positions`, and nothing is left to do.
    """

    state: State
    settings: TaskSettings
    owner: Owner
    slots: Slots
    outputs: Outputs
    names: TopicNames
    subscription_quota: SubscriptionQuota = field(default_factory=lambda: SubscriptionQuota(0))
    delivery_quota: DeliveryQuota = field(default_factory=lambda: DeliveryQuota(0))
    load_shedder: LoadShedder = field(default_factory=lambda: LoadShedder(0, ()))
    tasks: int = 1  # of a shard and batch, at most: more than there are cores would only cost
    cores: Callable[[], int] | None = None  # how many there are now, where executors come and go
    # Whether the next batch may be too large to be matched at once: the last one may have ended the previous process.
    careful: bool = True
    time_limit: TimeLimit | None = None  # of the tasks of a batch
    describe: Callable[[str], object] = lambda text: None  # the next job of Spark, for its UI
    observer: Observer = field(default_factory=Observer)
    deleted: DeletedEvents = field(default_factory=DeletedEvents)
    # The partitions of both topics that a batch reads, by its number.
    planned: Callable[[int], Iterable[tuple[str, int]]] = lambda number: ()
    # The rows of a batch, by its number, from some positions on, without Spark (`rereading.Rereading`).
    reread: Callable[[int, Mapping[SourcePartition, int]], Iterable[pa.Table]] | None = None
    missing_topics: MissingTopicsCache = field(default_factory=MissingTopicsCache, init=False)
    _rows: int = field(default=0, init=False)  # of the last batch that had any
    _partitions: int = field(default=0, init=False)  # that each of its tasks wrote to

    def __post_init__(self) -> None:
        self.deleted.begin(of_source(self.state.positions, EVENTS))

    def __call__(self, batch: DataFrame, number: int) -> None:
        report = Report(number, self.load_shedder.false_positives)
        if self.cores is not None and (cores := self.cores()) != self.tasks:
            self.slots.open(cores, self.state.broadcast)
            self.tasks = cores
        try:
            for rows in BatchRun(self, number, report).pieces(batch):
                report.saw(rows)
                self._look_for_gaps(rows)
                if (published := self.take(rows, number)) is not None:
                    report.add(published)
                self.observer.progressed()
        except WorkersLost as reason:
            raise SparkFailed(f"Spark workers fail even on an empty batch: {reason}") from reason
        finally:
            self.observer.idle()
        if report.rows:
            report.counts["deleted_unread"] += self.deleted.count()
            self._rows, self._partitions = report.rows, report.partitions
            self.careful = report.bytes > LARGE_ROW_BYTES * report.rows
            self.load_shedder.seen(report.waited_ms)
            snapshot = self.state.snapshot
            report.state = {"version": self.state.version, "subscriptions": len(snapshot), "parts": len(snapshot.parts)}
            log.info("batch", **report.fields())
            self.observer.batch(report)

    def adopt(
        self, slices: Sequence[Slice], chosen: Sequence[Chosen], positions: Mapping[SourcePartition, int]
    ) -> None:
        """Begin where the first start has read to, and publish the statuses of all that it has read."""
        self.state.positions.update(positions)
        self.deleted.begin(of_source(self.state.positions, EVENTS))
        first_start.publish_statuses(self.owner, self.names, self.outputs, slices, chosen, positions)

    def take(self, rows: Sequence[Row], number: int) -> CommittedTransaction | None:
        """Apply the changes of a batch and publish their statuses, and the dead letters that no task can publish."""
        positions: dict[SourcePartition, int] = {
            (r.source, r.partition): r.offset + 1 for r in rows if isinstance(r, ReadProgress)
        }
        if not positions:
            return None
        # Slots have committed the offsets of what they published.
        left = {at: to for at, to in positions.items() if to > self.state.positions.get(at, 0)}
        rows = in_order(rows)
        decided = self.subscription_quota.checked(rows, self.state.snapshot)
        refused = [d.record for r, d in zip(rows, decided, strict=True) if isinstance(d, Refusal) and d is not r]
        self.state.refuse([(record.partition, record.offset) for record in refused])
        published = self._publish(number, decided, left) if left else None
        self.state.apply(decided, left)
        return published and published._replace(applied=time.time())

    def rest(self) -> None:
        """Do the work between two batches, while there is none."""
        self.state.step()
        if deleted := self.deleted.count():
            self.observer.deleted(deleted)

    def _look_for_gaps(self, rows: Sequence[Row]) -> None:
        """Look for gaps among the offsets of the events in these rows."""
        records: Counter[int] = Counter()
        last: dict[int, int] = {}
        for row in rows:
            if isinstance(row, ReadProgress) and row.source == EVENTS:
                records[row.partition] += row.records
                last[row.partition] = max(row.offset, last.get(row.partition, 0))
        self.deleted.read(records, last)

    def slots_needed(self) -> int:
        """The number of slots, for a batch like the last one.

        Every slot has records for nearly every partition, and the broker works about 0.2 ms for each partition of a
        transaction. With a thousand topics that is more than a task of 10,000 events.
        """
        return min(self.tasks, 1 + self._rows // max(SMALL_TASK_ROWS, ROWS_PER_PARTITION * self._partitions))

    def reached(self, offsets: Offsets) -> None:
        """Take note of offsets that slots have committed."""
        reached = {(EVENTS, p): offset for (topic, p), offset in offsets.items() if topic == self.names.events}
        self.state.positions = {**self.state.positions, **reached}  # another thread may read the old ones

    def places(self, batch: DataFrame) -> Int64:
        """The places of the rows, as `Isolation` takes them, found without a worker."""
        size = reduce(lambda a, b: a + b, (f.coalesce(f.length(name), f.lit(0)) for name in ("key", "value")))
        table = batch.select("source", "partition", "offset", size.cast("long").alias("bytes")).toArrow()
        places = np.column_stack([table[name].to_numpy().astype(np.int64) for name in table.column_names])
        places = places[[offset >= self.state.positions.get((s, p), 0) for s, p, offset, _ in places.tolist()]]
        return places[np.lexsort(places.T[::-1])]

    def _publish(
        self, number: int, rows: Sequence[Row], positions: Mapping[SourcePartition, int]
    ) -> CommittedTransaction:
        began = time.time()
        self.observer.doing(number, "publish")
        subscribers = {r.subscriber for r in rows if isinstance(r, AcceptedChange) and r.subscriber is not None}
        self.outputs.missing(set(map(self.names.delivery_topic, subscribers)))
        failed = [r.id for r in rows if isinstance(r, Refusal) and r.id]
        in_force = registered(self.state.snapshot, failed)
        last = {id: Last(subscription.place, withdrawn=False) for id, subscription in in_force.items()}
        since = in_force_from({**self.state.positions, **positions}, self.names)
        composition = Composition(self.names, since, {**last, **last_changes(rows)})
        aborted, sent, committed = commit(self.owner, self.names, partial(composition.records, rows), positions)
        return CommittedTransaction(
            rows=rows,
            dead_letters=composition.dead_letters,
            aborted=aborted,
            began=began,
            sent=sent,
            committed=committed,
            applied=committed,
        )


@dataclass(frozen=True)
class BatchRun:
    """Give one batch to tasks, and count in its report. `exact`: the timestamps are as Kafka has them."""

    pipeline: Pipeline
    number: int
    report: Report
    exact: bool = False

    def pieces(self, batch: DataFrame) -> Iterator[Sequence[Row]]:
        """The workers' rows, piece by piece. Consume each before the next."""
        pipeline = self.pipeline
        try:
            yield from self._isolation().pieces(batch, pipeline.careful)
        except Misread as reason:
            if pipeline.reread is None:
                raise
            fields = {"batch": self.number, "reason": str(reason)}
            log.warning("Spark cannot read all timestamps, so the driver reads the batch", **fields)
            isolation = replace(self, exact=True)._isolation()
            for table in pipeline.reread(self.number, dict(pipeline.state.positions)):
                yield from isolation.pieces(batch.sparkSession.createDataFrame(table), careful=False)

    def _isolation(self) -> Isolation[DataFrame, Row]:
        return Isolation(self._published, self._places, _only, self._aside)

    def _published(self, batch: DataFrame) -> list[Row]:
        """Publish a batch, again and again, until no task lacks a topic, and none was fenced; returns the other rows of
        the workers. What was published meanwhile is dropped from the batch by its offsets.

        Raises Misread unless the timestamps are exact; WorkersLost, JobError, or our own error.
        """
        n = 1 if self.exact else self.pipeline.slots_needed()
        done: list[Row] = []
        wanted: Wants = Counter()  # at the last attempt
        deadline = RetryDeadline()
        while True:
            before = self.pipeline.state.positions
            try:
                before_it, wanted = wanted, self._wanted(batch, n)
                self.pipeline.delivery_quota.count(before_it - wanted)  # that was published meanwhile
                publication = self.pipeline.slots.work(
                    n,
                    self.pipeline.state.version,
                    self.pipeline.missing_topics.topics(),
                    self.pipeline.outputs.unusual(),
                    self.pipeline.delivery_quota.of(wanted),
                    self.exact,
                )
                rows = self._stage(batch, n, publication)
            except Exception as error:
                self.pipeline.reached(self.pipeline.slots.settle(self._own(), self.pipeline.planned(self.number)))
                self.report.counts["unreported"] += sum(self.pipeline.state.positions.values()) - sum(before.values())
                if not isinstance(error, Unsettled) or deadline.ends(self.pipeline.state.positions != before):
                    raise
                log.warning("a task could not publish, trying again", reason=str(error))
                self.report.counts["transactions_aborted"] += not isinstance(error, ExecutorLost)
                deadline.pause()
                continue
            missing = self._took(rows)
            if not self.exact and any(isinstance(row, MisreadTimes) for row in rows):
                raise Misread(OF_ANOTHER_CALENDAR)
            if not missing:
                self.pipeline.delivery_quota.count(wanted)
                return done + [row for row in rows if not isinstance(row, SlotReport | Published)]
            if deadline.ends(self.pipeline.state.positions != before):
                raise BrokerUnreachable(f"{min(missing)} was made, but tasks do not find it")
            done += _progress_of_events(rows)  # the rest comes again
            deadline.pause()
            self.pipeline.outputs.refresh()
            self.pipeline.missing_topics.add(self.pipeline.outputs.missing(missing))

    def _took(self, rows: Sequence[Row]) -> set[str]:
        """Take note of what tasks have published; returns the topics that they lack."""
        reports = [row for row in rows if isinstance(row, SlotReport)]
        self.pipeline.slots.take(reports)
        for row in rows:
            if isinstance(row, Published):
                self.report.add_task(row)
                self.pipeline.state.seen = self.pipeline.state.seen.plus(row.met, row.attributes, row.batches)
        reached = {(self.pipeline.names.events, row.partition): row.offset + 1 for row in _progress_of_events(rows)}
        self.pipeline.slots.committed(reached)
        self.pipeline.reached(reached)
        return {topic for report in reports for topic in report.missing}

    def _wanted(self, batch: DataFrame, n: int) -> Wants:
        """The deliveries that subscribers would get without a quota; not counted where there is none."""
        if not self.pipeline.delivery_quota.most:
            return Counter()
        return wants(self._stage(batch.filter(f"source = {EVENTS:d}"), n, None))

    def _own(self) -> list[tuple[str, int]]:
        """The partitions whose offsets the driver commits."""
        topic = self.pipeline.names.subscriptions
        return [(topic, partition) for partition in self.pipeline.state.subscription_offsets()]

    def _stage(self, batch: DataFrame, n: int, publication: Publication | None) -> list[Row]:
        """The rows of at most n tasks, which publish, or count deliveries without a publication."""
        self._begin("prepare")
        with self.report.stage("prepare"):
            works = [
                replace(work, publication=publication)
                for work in self.pipeline.state.work(self.pipeline.settings, self.report.false_positives)
            ]
        self._begin("match")
        self._describe("match and publish" if publication else "count deliveries")
        with self.report.stage("match"):
            try:
                return unpacked(self._in_time(_answers(batch.coalesce(n), works, n)))
            except (PySparkException, Py4JJavaError) as error:
                if not self.exact and misread(str(error)):
                    raise Misread(BEYOND_SPARK) from error
                cause = of_worker(str(error)) or workers_lost(str(error)) or error
                self.report.counts["workers_lost"] += isinstance(cause, WorkersLost | ExecutorLost)
                raise cause from error

    def _in_time(self, answers: DataFrame) -> pa.Table:
        """The answers of tasks. Raises WorkersLost if they take too long, and what Spark raises."""
        if self.pipeline.time_limit is None:
            return answers.toArrow()
        with self.pipeline.time_limit.watched() as cancelled:
            try:
                return answers.toArrow()
            except (PySparkException, Py4JJavaError) as error:
                if not cancelled.is_set():
                    raise
                self.report.counts["workers_lost"] += 1
                self.report.counts["workers_hung"] += 1
                raise WorkersLost("workers did not answer in time, and were killed", again=True) from error

    def _places(self, batch: DataFrame) -> Int64:
        """The places of the rows. Raises Misread."""
        self._begin("measure")
        self._describe("measure")
        with self.report.stage("measure"):
            try:
                return self.pipeline.places(batch)
            except (PySparkException, Py4JJavaError) as error:
                if misread(str(error)):
                    raise Misread(BEYOND_SPARK) from error
                raise

    def _aside(self, batch: DataFrame, reason: str) -> list[Row]:
        """The dead letter of a row that kills workers. Raises Misread unless the timestamps are exact."""
        detail = f"no worker survives it ({reason})"
        rows: list[Row] = []
        for table in batch.toArrow().to_batches():
            for source, record in zip(table["source"].to_pylist(), consumer_records(table), strict=True):
                if not self.exact and record.timestamp_ms < SPARK_IS_RIGHT_FROM_MS:
                    raise Misread(OF_ANOTHER_CALENDAR)
                if source == EVENTS:
                    rows.append(DeadLetter(record, records.POISON_EVENT, detail))
                else:
                    rows.append(Refusal(record, record.key.decode(errors="replace") if record.key else None, detail))
                rows.append(
                    ReadProgress(
                        source=Source(source),
                        partition=record.partition,
                        offset=record.offset,
                        records=1,
                        size_bytes=0,
                        timestamp_ms=None,
                    )
                )
        return rows

    def _begin(self, stage: str) -> None:
        self.pipeline.observer.doing(self.number, stage)

    def _describe(self, job: str) -> None:
        self.pipeline.describe(f"batch {self.number}: {job}")


def _answers(batch: DataFrame, works: Sequence[Work], n: int) -> DataFrame:
    """The packed rows of n tasks: those that match the batch, or those that get what the tasks of shards match."""
    first, *others = works
    if not others:
        return batch.mapInArrow(first, OUTPUT)
    shards = reduce(lambda one, other: one.union(other), (batch.mapInArrow(work.ship, BETWEEN) for work in works))
    together = shards.repartition(n, "source", "partition").sortWithinPartitions(*ORDER)
    return together.mapInArrow(replace(first, parts=()).publish, OUTPUT)


def _progress_of_events(rows: Iterable[Row]) -> list[ReadProgress]:
    return [row for row in rows if isinstance(row, ReadProgress) and row.source == EVENTS]


def _only(batch: DataFrame, places: Int64) -> DataFrame:
    among = (
        (f.col("source") == source) & (f.col("partition") == partition) & f.col("offset").between(first, last)
        for source, partition, first, last in ranges(places)
    )
    return batch.filter(reduce(or_, among, f.lit(False)))
