"""Give a batch of Spark's source to tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import ClassVar

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from matchers.contract.tables import Int64
from streaming.driver.isolation import RAISED, ranges
from streaming.driver.runs.batch_run import BatchRun, answers
from streaming.driver.runs.epoch_run import EpochPlan, EpochReading, EpochRun
from streaming.log import error_fields, logger
from streaming.publishing.contract import TopicPartition
from streaming.rows import (
    SPARK_IS_RIGHT_FROM_MS,
    SUBSCRIPTIONS,
    ConsumerRecord,
    MisreadTimes,
    Row,
    Source,
    SourcePartition,
    consumer_records,
)
from streaming.worker.matching import Work

log = logger("sluice.batch")

BEYOND_SPARK = "a record has a timestamp outside Spark's range"
OF_ANOTHER_CALENDAR = "Spark would read a record's timestamp in another calendar or zone"
SMALL_TASK_ROWS = 2_000  # that are worth one task more
ROWS_PER_PARTITION = 25  # the same, for each partition that each task writes to


class Misread(Exception):
    """Raised for a batch with timestamps that Spark cannot represent, or misrepresents."""


@dataclass(frozen=True)
class SourceRun(BatchRun[DataFrame]):
    """A batch of Spark's source. Spark distorts some timestamps: then a bounded epoch reads the batch.

    Spark keeps a timestamp in microseconds, so it fails on a record whose milliseconds are too many for that, whichever
    columns the query reads. It takes a time before 1582 for a date of the Julian calendar. Kafka keeps any 64 bits, and
    a single such record must not stop the job.
    """

    exact: ClassVar[bool] = False

    planned: Callable[[int], Mapping[SourcePartition, int]]  # the ends of a batch, by its number
    reading: EpochReading

    def pieces(self, batch: DataFrame) -> Iterator[Sequence[Row]]:
        try:
            yield from super().pieces(batch)
        except Misread as reason:
            log.warning("timestamps_unreadable", batch_id=self.number, **error_fields(reason))
            epoch = EpochRun(self.pipeline, self.number, self.report, self.reading)
            yield from epoch.pieces(EpochPlan(0.0, self.planned(self.number)))

    def tasks(self, batch: DataFrame) -> int:
        """Return the number of tasks, as for a batch like the last one.

        Every slot has records for nearly every partition, and the broker works about 0.2 ms for each partition of a
        transaction. With a thousand topics that is more than a task of 10,000 events.
        """
        last = self.pipeline.last
        if last is None:
            return 1
        return min(self.pipeline.tasks, 1 + last.rows // max(SMALL_TASK_ROWS, ROWS_PER_PARTITION * last.partitions))

    def job(self, batch: DataFrame, works: Sequence[Work], n: int) -> Callable[[], pa.Table]:
        return answers(batch.coalesce(n), works, n).toArrow

    def epoch(self, batch: DataFrame, n: int) -> None:
        return None

    def events(self, batch: DataFrame) -> DataFrame:
        return batch.filter(f"source < {SUBSCRIPTIONS}")

    def partitions(self) -> Iterable[TopicPartition]:
        return [*self.pipeline.names.by_topic(self.planned(self.number))]

    def places(self, batch: DataFrame) -> Int64:
        size = reduce(lambda a, b: a + b, (f.coalesce(f.length(name), f.lit(0)) for name in ("key", "value")))
        try:
            table = batch.select("source", "partition", "offset", size.cast("long").alias("bytes")).toArrow()
        except (PySparkException, Py4JJavaError) as error:
            if _is_misread(error):
                raise Misread(BEYOND_SPARK) from error
            raise
        positions = self.pipeline.state.positions
        places = np.column_stack([table[name].to_numpy().astype(np.int64) for name in table.column_names])
        places = places[[offset >= positions.get((s, p), 0) for s, p, offset, _ in places.tolist()]]
        return places[np.lexsort(places.T[::-1])]

    def only(self, batch: DataFrame, places: Int64) -> DataFrame:
        among = (
            (f.col("source") == source) & (f.col("partition") == partition) & f.col("offset").between(first, last)
            for source, partition, first, last in ranges(places)
        )
        # Not `lit(False)`: Spark starts no task for what it knows to be empty, and an empty batch is to show whether
        # workers work.
        return batch.filter(reduce(or_, among, f.col("offset") < 0))

    def records(self, batch: DataFrame) -> Iterator[tuple[Source, ConsumerRecord]]:
        for table in batch.toArrow().to_batches():
            for source, record in zip(table["source"].to_pylist(), consumer_records(table), strict=True):
                if record.timestamp_ms < SPARK_IS_RIGHT_FROM_MS:
                    raise Misread(OF_ANOTHER_CALENDAR)
                yield source, record

    def took(self, rows: Sequence[Row]) -> set[str]:
        missing = super().took(rows)
        if any(isinstance(row, MisreadTimes) for row in rows):
            raise Misread(OF_ANOTHER_CALENDAR)
        return missing

    def cause(self, error: Exception) -> Exception:
        return Misread(BEYOND_SPARK) if _is_misread(error) else super().cause(error)


def _is_misread(error: Exception) -> bool:
    """Whether a Spark job failed because it could not represent a timestamp."""
    return "java.lang.ArithmeticException" in str(error) and RAISED not in str(error)
