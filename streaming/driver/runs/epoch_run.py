"""Give one epoch to tasks: an open one, which ends by time, or a bounded one, which ends at offsets."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import RDD
from pyspark.sql import SparkSession

from matchers.contract.tables import Int64
from streaming.driver import sources
from streaming.driver.isolation import ranges
from streaming.driver.runs.batch_run import BatchRun, answers
from streaming.driver.runs.task_count import EVENTS_PER_PARTITION, TaskCount
from streaming.publishing.connection.client import Client
from streaming.publishing.contract import TopicPartition
from streaming.reading.contract import Position
from streaming.reading.fetcher import Fetcher
from streaming.rows import PACKED, ConsumerRecord, Row, Source, SourcePartition, consumer_records, of_events
from streaming.source_topics import SourceTopics
from streaming.worker.epoch import Epoch
from streaming.worker.matching import Work

MOST_EVENTS = 10_000  # of a transaction, unless it writes to many partitions
MOST_ISOLATED = 10_000  # offsets of a partition, in a search for records that kill workers
MOST_ISOLATED_IN_ALL = 1_000_000  # of all partitions
POLL_S = 0.5


class EpochPlan(NamedTuple):
    """An epoch that is to come."""

    seconds: float  # of an open one, at most
    ends: Mapping[SourcePartition, int] | None = None  # of a bounded one: the offsets to stop before


@dataclass(frozen=True)
class EpochReading:
    """The topics that epochs read, and the limits of an epoch."""

    spark: SparkSession
    topics: SourceTopics
    client: Callable[[], Client]  # a new one, for the driver's own fetchers
    most_events: int  # of a transaction, and of a bounded epoch
    most_changes: int

    task_count: TaskCount = field(default_factory=TaskCount, init=False)
    _seeds: dict[int, RDD[int]] = field(default_factory=dict, init=False)

    def seeds(self, n: int) -> RDD[int]:
        """An RDD of n partitions: a job on it has n tasks."""
        if n not in self._seeds:
            self._seeds[n] = self.spark.sparkContext.parallelize(range(n), n)
        return self._seeds[n]


@dataclass(frozen=True)
class EpochRun(BatchRun[EpochPlan]):
    """A batch is an epoch. What precedes its ends is read from the positions of the state on."""

    exact: ClassVar[bool] = True

    reading: EpochReading

    def is_open(self, batch: EpochPlan) -> bool:
        return batch.ends is None

    def awaited(self, batch: EpochPlan) -> Set[SourcePartition]:
        return of_events(self.pipeline.state.positions if batch.ends is None else batch.ends).keys()

    def pieces(self, batch: EpochPlan) -> Iterator[Sequence[Row]]:
        return self.isolation().pieces(batch, self.pipeline.careful and not self.is_open(batch))

    def tasks(self, batch: EpochPlan) -> int:
        partitions = len(of_events(self.pipeline.state.positions))
        return self.reading.task_count.of(self.pipeline.last, min(self.pipeline.tasks, partitions))

    def job(self, batch: EpochPlan, works: Sequence[Work], n: int) -> Callable[[], pa.Table]:
        """Without shards it is a job of an RDD, which starts in two thirds of the time of a DataFrame's."""
        if len(works) > 1:
            return answers(self.reading.spark.range(0, n, 1, n).toDF("id"), works, n).toArrow
        tasks = self.reading.seeds(n).mapPartitions(works[0].packed)
        return lambda: pa.table({"rows": tasks.collect()}, schema=PACKED)

    def epoch(self, batch: EpochPlan, n: int) -> Epoch:
        pipeline, last = self.pipeline, self.pipeline.last
        written = last.partitions if last is not None else 0
        most = min(self.reading.most_events, max(MOST_EVENTS, EVENTS_PER_PARTITION * written))
        return Epoch(
            tasks=n,
            topics=self.reading.topics.names,
            ends=batch.ends,
            seconds=batch.seconds,
            most_events=sources.events_per_batch(most, pipeline.state),
            most_changes=self.reading.most_changes,
        )

    def events(self, batch: EpochPlan) -> EpochPlan:
        assert batch.ends is not None, "what is counted before it is published has an end"
        return batch._replace(ends=of_events(batch.ends))

    def partitions(self) -> Iterable[TopicPartition]:
        return [*self.pipeline.names.by_topic(self.pipeline.state.positions)]

    def places(self, batch: EpochPlan) -> Int64:
        """The places of the records; an open epoch has those of MOST_ISOLATED offsets per partition, or fewer of many
        partitions, the first that have any."""
        places = [np.empty((0, 4), np.int64)]
        for rows in self._read(batch):
            lengths = [pc.fill_null(pc.binary_length(rows[name]), 0) for name in ("key", "value")]
            columns = [*(rows[name] for name in ("source", "partition", "offset")), pc.add(*lengths)]
            places.append(np.column_stack([np.asarray(column).astype(np.int64) for column in columns]))
        found = np.concatenate(places)
        return found[np.lexsort(found.T[::-1])]

    def only(self, batch: EpochPlan, places: Int64) -> EpochPlan:
        return batch._replace(ends={(source, p): last + 1 for source, p, _, last in ranges(places)})

    def records(self, batch: EpochPlan) -> Iterator[tuple[Source, ConsumerRecord]]:
        for rows in self._read(batch):
            yield from zip(rows["source"].to_pylist(), consumer_records(rows), strict=True)

    def _read(self, batch: EpochPlan) -> Iterator[pa.RecordBatch]:
        """The records, read by the driver."""
        positions = self.pipeline.state.positions
        if batch.ends is not None:
            begins = {at: positions.get(at, 0) for at, end in batch.ends.items() if positions.get(at, 0) < end}
            yield from self._window(begins, batch.ends, is_open=False)
            return
        begins = positions
        while begins:
            most = min(MOST_ISOLATED, max(1, MOST_ISOLATED_IN_ALL // len(begins)))
            ends = {at: begin + most for at, begin in begins.items()}
            begins = yield from self._window(begins, ends, is_open=True)

    def _window(
        self, begins: Mapping[SourcePartition, int], ends: Mapping[SourcePartition, int], *, is_open: bool
    ) -> Generator[pa.RecordBatch, None, dict[SourcePartition, int]]:
        """The records of these offsets, up to the ends of the logs if it `is_open`. Returns where to go on, if it found
        none: where the logs have more."""
        topics, found = self.reading.topics.names, False
        fetcher = Fetcher(
            self.reading.client(),
            self.reading.topics.sources,
            {(topics[source], p): Position(offset) for (source, p), offset in begins.items()},
            ends={(topics[source], p): ends[source, p] for source, p in begins},
        )
        with closing(fetcher):
            while not fetcher.is_done():
                read = fetcher.poll(POLL_S)
                if read is not None:
                    self.pipeline.observer.progressed()
                    found = found or read.rows.num_rows > 0
                    yield read.rows
                elif is_open and fetcher.log_ends.keys() >= fetcher.positions.keys() and not fetcher.is_behind():
                    break
        log_ends = {at: fetcher.log_ends.get((topics[at[0]], at[1])) for at in begins}
        goes_on = {at: ends[at] for at, end in log_ends.items() if end is not None and end.last_stable > ends[at]}
        return {} if found else goes_on
