"""Give one batch to tasks, again and again until it is done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar, Generic, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from matchers.contract.tables import Int64
from streaming.documents import records
from streaming.driver.attempts import RetryDeadline
from streaming.driver.isolation import Isolation, WorkersLost, failure, workers_hung
from streaming.driver.limits.quotas import Wants, wants
from streaming.driver.pipeline import Pipeline
from streaming.errors import BrokerUnreachable, ExecutorLost, OffsetsBeyondEnd, TopicMissing, Unsettled
from streaming.log import error_fields, logger
from streaming.monitoring.reporting import Report
from streaming.publishing.contract import TopicPartition
from streaming.rows import (
    PACKED,
    ConsumerRecord,
    CountedSubscribers,
    DeadLetter,
    LookedAt,
    Published,
    ReadProgress,
    Row,
    SlotReport,
    Source,
    SourcePartition,
    is_events,
    unpacked,
)
from streaming.worker.epoch import Epoch
from streaming.worker.matching import Work
from streaming.worker.publication import UNLIMITED, Publication
from streaming.worker.shards import ORDER, SHIPPED

log = logger("sluice.batch")

# Made once: Spark would parse a text anew for every batch.
OUTPUT = from_arrow_schema(PACKED)
BETWEEN = from_arrow_schema(SHIPPED)

_OF_TASKS = (SlotReport, Published, CountedSubscribers, LookedAt)  # rows that are done with once they are taken

Batch = TypeVar("Batch")


@dataclass(frozen=True)
class BatchRun(ABC, Generic[Batch]):
    """Give one batch to tasks, and count in its report."""

    exact: ClassVar[bool]  # the timestamps are as Kafka has them

    pipeline: Pipeline
    number: int
    report: Report

    def is_open(self, batch: Batch) -> bool:
        """Whether the batch ends by time, so that it may have read nothing."""
        return False

    def awaited(self, batch: Batch) -> Set[SourcePartition] | None:
        """The partitions of events that may hold older ones than the batch has shown, unless the report knows them;
        None if the batch shows nothing of that. Spark takes a share of each partition that has any."""
        return frozenset() if self.report.known else None

    @abstractmethod
    def tasks(self, batch: Batch) -> int:
        """The number of tasks, each with its slot, for this batch."""

    @abstractmethod
    def job(self, batch: Batch, works: Sequence[Work], n: int) -> Callable[[], pa.Table]:
        """Start the Spark job of n tasks, and wait for their packed rows. There is a work for each shard."""

    @abstractmethod
    def epoch(self, batch: Batch, n: int) -> Epoch | None:
        """The epoch that n tasks read themselves; None if the frame has their rows."""

    @abstractmethod
    def events(self, batch: Batch) -> Batch:
        """The batch without its changes."""

    @abstractmethod
    def partitions(self) -> Iterable[TopicPartition]:
        """Return the partitions of the batch."""

    @abstractmethod
    def places(self, batch: Batch) -> Int64:
        """The places of the rows, as `Isolation` takes them, found without a worker. Raises Misread."""

    @abstractmethod
    def only(self, batch: Batch, places: Int64) -> Batch:
        """The rows in these places, which are contiguous."""

    @abstractmethod
    def records(self, batch: Batch) -> Iterator[tuple[Source, ConsumerRecord]]:
        """The records, read by the driver. Raises Misread unless the timestamps are exact."""

    def pieces(self, batch: Batch) -> Iterator[Sequence[Row]]:
        """The workers' rows, piece by piece. Consume each before the next."""
        return self.isolation().pieces(batch, self.pipeline.careful)

    def isolation(self) -> Isolation[Batch, Row]:
        return Isolation(self._published, self._measured, self.only, self._aside)

    def _published(self, batch: Batch) -> list[Row]:
        """Publish a batch, again and again, until no task lacks a topic, and none was fenced; returns the other rows of
        the workers. What was published meanwhile is dropped from the batch by its offsets.

        Raises Misread unless the timestamps are exact; WorkersLost, JobError, or our own error.
        """
        n = self.tasks(batch)
        done: list[Row] = []
        wanted: Wants = Counter()  # at the last attempt
        quota = UNLIMITED
        absent: set[str] = set()  # topics: counting may take longer than the cache keeps them
        deadline = RetryDeadline()
        while True:
            before = self.pipeline.state.positions
            try:
                before_it, wanted = wanted, self._wanted(batch, n)
                self.pipeline.delivery_quota.count(quota.allowed(before_it - wanted))  # that was published meanwhile
                quota = self.pipeline.delivery_quota.of(wanted)
                publication = self.pipeline.slots.work(
                    n,
                    self.pipeline.state.version,
                    self.report.start,
                    self.pipeline.missing_topics.topics() | absent,
                    self.pipeline.outputs.unusual(),
                    quota,
                    self.exact,
                )
                rows = self._stage(batch, n, publication)
            except (OffsetsBeyondEnd, TopicMissing):
                raise  # with nothing committed: it would be committed to a topic that was created again
            except Exception as error:
                offsets, rows = self.pipeline.slots.settle(self._own(), self.partitions())
                self.pipeline.reached(offsets)
                self.took(rows)
                self._saw([*done, *_progress_of_events(rows)])
                done = []
                if not isinstance(error, Unsettled) or deadline.ends(self.pipeline.state.positions != before):
                    raise
                log.warning("publish_retried", **error_fields(error))
                self.report.counts["transactions_aborted"] += not isinstance(error, ExecutorLost)
                deadline.pause()
                continue
            try:
                missing = self.took(rows)
            except Exception:  # timestamps were misread
                self._saw([*done, *_progress_of_events(rows)])
                raise
            if not missing:
                self.pipeline.delivery_quota.count(wanted)
                self._looked_at(rows)
                return done + [row for row in rows if not isinstance(row, _OF_TASKS)]
            if deadline.ends(self.pipeline.state.positions != before):
                raise BrokerUnreachable(
                    f"topic {min(missing)} was created, but executors do not see it; all brokers in "
                    "kafka.bootstrap_servers must belong to one cluster"
                )
            done += _progress_of_events(rows)  # the rest comes again
            deadline.pause()
            self.pipeline.outputs.refresh()
            absent |= self.pipeline.outputs.missing(missing)
            self.pipeline.missing_topics.add(absent)

    def took(self, rows: Sequence[Row]) -> set[str]:
        """Take note of what tasks have published; returns the topics that they lack."""
        reports = [row for row in rows if isinstance(row, SlotReport)]
        self.pipeline.slots.take(reports)
        for row in rows:
            if isinstance(row, CountedSubscribers):
                self.pipeline.observer.counted(row.value)
            elif isinstance(row, Published):
                self.report.add_task(row)
                self.pipeline.state.seen = self.pipeline.state.seen.plus(row.met, row.attributes, row.batches)
        positions = {(row.source, row.partition): row.offset + 1 for row in _progress_of_events(rows)}
        reached = self.pipeline.names.by_topic(positions)
        self.pipeline.slots.committed(reached)
        self.pipeline.reached(reached)
        return {topic for report in reports for topic in report.missing}

    def _saw(self, progress: Sequence[Row]) -> None:
        """Count events that were committed, but whose rows nobody else sees."""
        self.report.saw(progress)
        self.pipeline.look_for_gaps(progress)

    def _looked_at(self, rows: Sequence[Row]) -> None:
        looked = [row for row in rows if isinstance(row, LookedAt)]
        self.report.behind = sum(row.behind or 0 for row in looked if is_events(row.source))
        self.report.known |= {(row.source, row.partition) for row in looked if row.behind == 0}
        if looked:
            reached = {(row.source, row.partition): row.offset for row in looked}
            self.pipeline.state.looked_at = {**self.pipeline.state.looked_at, **reached}  # as in `Pipeline.reached`

    def _wanted(self, batch: Batch, n: int) -> Wants:
        """The deliveries that subscribers would get without a quota; not counted where there is none."""
        if not self.pipeline.delivery_quota.most:
            return Counter()
        return wants(self._stage(self.events(batch), n, None))

    def _own(self) -> list[tuple[str, int]]:
        """The partitions whose offsets the driver commits."""
        positions = self.pipeline.state.positions
        return [*self.pipeline.names.by_topic({at: to for at, to in positions.items() if not is_events(at[0])})]

    def _stage(self, batch: Batch, n: int, publication: Publication | None) -> list[Row]:
        """The rows of at most n tasks, which publish, or count deliveries without a publication."""
        self._begin("prepare")
        with self.report.stage("prepare"):
            epoch = self.epoch(batch, n)
            works = [
                replace(work, publication=publication, epoch=epoch)
                for work in self.pipeline.state.work(self.pipeline.settings, self.report.false_positives)
            ]
        self._begin("match")
        self._describe(f"match and publish{self._last()}" if publication else "count deliveries")
        with self.report.stage("match"):
            try:
                return unpacked(self._in_time(self.job(batch, works, n)))
            except (PySparkException, Py4JJavaError) as error:
                cause = self.cause(error)
                self.report.counts["workers_lost"] += isinstance(cause, WorkersLost | ExecutorLost)
                raise cause from error

    def cause(self, error: Exception) -> Exception:
        """Why a job of Spark failed."""
        return failure(error)

    def _in_time(self, job: Callable[[], pa.Table]) -> pa.Table:
        """Run the job and return its rows. Raises WorkersLost if its tasks take too long, or the error of Spark."""
        if self.pipeline.time_limit is None:
            return job()
        with self.pipeline.time_limit.watched() as cancelled:
            try:
                return job()
            except (PySparkException, Py4JJavaError) as error:
                if not cancelled.is_set():
                    raise
                self.report.counts["workers_lost"] += 1
                self.report.counts["workers_hung"] += 1
                self.pipeline.observer.progressed()
                raise workers_hung() from error

    def _measured(self, batch: Batch) -> Int64:
        self._begin("measure")
        self._describe("measure")
        with self.report.stage("measure"):
            return self.places(batch)

    def _aside(self, batch: Batch, reason: str) -> list[Row]:
        """The dead letter of a row that kills workers. Raises Misread."""
        detail = f"no worker survives it ({reason})"
        rows: list[Row] = []
        for source, record in self.records(batch):
            if is_events(source):
                rows.append(DeadLetter(source, record, records.POISON_EVENT, detail))
            else:
                rejection = self.pipeline.names.rejection(source, record, detail)
                # Nothing in the document is wrong, so a restart would accept it.
                self.pipeline.state.reject([(rejection.record.partition, rejection.record.offset)])
                rows.append(rejection)
            rows.append(
                ReadProgress(
                    source=source,
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

    def _last(self) -> str:
        """The counts of the last batch. Spark's UI shows them in place of its own, which leave out what tasks read."""
        last = self.pipeline.last
        return (
            f"; before it {last.events:,} events, {last.counts['deliveries']:,} deliveries" if last is not None else ""
        )


def answers(batch: DataFrame, works: Sequence[Work], n: int) -> DataFrame:
    """The packed rows of n tasks: those that match the batch, or those that get what the tasks of shards match."""
    first, *others = works
    if not others:
        return batch.mapInArrow(first, OUTPUT)
    shards = reduce(lambda one, other: one.union(other), (batch.mapInArrow(work.ship, BETWEEN) for work in works))
    together = shards.repartition(n, "source", "partition").sortWithinPartitions(*ORDER)
    return together.mapInArrow(replace(first, parts=()).publish, OUTPUT)


def _progress_of_events(rows: Iterable[Row]) -> list[ReadProgress]:
    return [row for row in rows if isinstance(row, ReadProgress) and is_events(row.source)]
