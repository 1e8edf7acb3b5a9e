"""A batch as Spark gives it to the pipeline, whose tasks run where a test says."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from streaming.driver.isolation import ranges
from streaming.driver.pipeline import BatchPieces, Pipeline
from streaming.driver.runs.batch_run import BatchRun
from streaming.driver.runs.source_run import SourceRun
from streaming.monitoring.reporting import Report
from streaming.rows import INPUT, PACKED, Row, SourcePartition
from streaming.worker.shards import SHIPPED

Work = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
Partitions = Mapping[SourcePartition, Sequence[Mapping[str, Any]]]  # rows
Task = Callable[[], list[pa.RecordBatch]]
Run = Callable[[Sequence[Task]], list[list[pa.RecordBatch]]]


class Frame:
    """A DataFrame. `run` runs the tasks of a stage; `order` is that in which its partitions are dealt to them; Arrow
    batches have at most so many rows."""

    def __init__(self, partitions: Partitions, order: Sequence[SourcePartition], most: int, run: Run) -> None:
        self._partitions, self._order, self._most, self._run = partitions, order, most, run

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], most: int, run: Run) -> Frame:
        """Return a frame with partitions in the order of their first rows."""
        partitions: dict[SourcePartition, list[Mapping[str, Any]]] = {}
        for row in rows:
            partitions.setdefault((row["source"], row["partition"]), []).append(row)
        return cls(partitions, list(partitions), most, run)

    def coalesce(self, tasks: int) -> Tasks:
        dealt = [[row for at in self._order[i::tasks] for row in self._partitions[at]] for i in range(tasks)]
        return Tasks([partial(self._arrow, rows) for rows in dealt], self._run)

    def toArrow(self) -> pa.Table:
        return pa.Table.from_batches(self._arrow(self._rows()), INPUT)

    @property
    def sparkSession(self) -> Frame:
        return self

    def createDataFrame(self, table: pa.Table) -> Frame:
        """Return the frame's own rows, read in another way."""
        assert table == self.toArrow()
        return self

    def places(self) -> Any:
        """As `SourceRun.places` finds them, committed ones included."""
        return [(r["source"], r["partition"], r["offset"], len(r["value"] or b"")) for r in self._rows()]

    def filter(self, condition: str) -> Frame:
        """Filter rows by their topic."""
        end = int(condition.removeprefix("source < "))
        kept = {at: rows if at[0] < end else [] for at, rows in self._partitions.items()}
        return Frame(kept, self._order, self._most, self._run)

    def only(self, places: Any) -> Frame:
        kept = {
            at: [
                r for r in rows for s, p, first, last in ranges(places) if at == (s, p) and first <= r["offset"] <= last
            ]
            for at, rows in self._partitions.items()
        }
        return Frame(kept, self._order, self._most, self._run)

    def _rows(self) -> list[Mapping[str, Any]]:
        return [row for at in sorted(self._partitions) for row in self._partitions[at]]

    def _arrow(self, rows: Sequence[Mapping[str, Any]]) -> list[pa.RecordBatch]:
        cuts = range(0, len(rows), self._most)
        return [pa.RecordBatch.from_pylist(list(rows[i : i + self._most]), schema=INPUT) for i in cuts]


class Tasks:
    """The partitions of a DataFrame, each with the task that makes it."""

    def __init__(self, tasks: Sequence[Task], run: Run) -> None:
        self._tasks, self._run = tasks, run

    def mapInArrow(self, work: Work, schema: Any) -> Tasks:
        def done(task: Task) -> list[pa.RecordBatch]:
            return list(work(task()))

        return Tasks([partial(done, task) for task in self._tasks], self._run)

    def union(self, other: Tasks) -> Tasks:
        return Tasks([*self._tasks, *other._tasks], self._run)

    def repartition(self, n: int, *by: str) -> Tasks:
        """Divide rows by the last of these columns."""
        rows = pa.Table.from_batches([batch for batches in self._run(self._tasks) for batch in batches], SHIPPED)
        of = np.asarray(rows[by[-1]]) % n

        def partition(i: int) -> list[pa.RecordBatch]:
            batches: list[pa.RecordBatch] = rows.filter(pa.array(of == i)).to_batches()
            return batches

        return Tasks([partial(partition, i) for i in range(n)], self._run)

    def sortWithinPartitions(self, *by: str) -> Tasks:
        def in_order(task: Task) -> list[pa.RecordBatch]:
            table = pa.Table.from_batches(task(), SHIPPED).sort_by([(name, "ascending") for name in by])
            batches: list[pa.RecordBatch] = table.combine_chunks().to_batches(max_chunksize=3)
            return batches

        return Tasks([partial(in_order, task) for task in self._tasks], self._run)

    def toArrow(self) -> pa.Table:
        done = self._run(self._tasks)
        return pa.Table.from_batches([batch for batches in done for batch in batches], PACKED)


class EpochSession:
    """A session whose tasks read their records themselves; DataFrames and RDDs only start them."""

    def __init__(self, run: Callable[[Sequence[Callable[[], Any]]], list[Any]]) -> None:
        self._run = run

    @property
    def sparkContext(self) -> EpochSession:
        return self

    def setLocalProperty(self, key: str, value: str | None) -> None:
        """Do nothing: nobody reads it."""

    @property
    def sparkSession(self) -> EpochSession:
        return self

    def parallelize(self, seeds: Sequence[int], n: int) -> Rdd:
        return Rdd([list] * n, self._run)

    def range(self, begin: int, end: int, step: int, n: int) -> SimpleNamespace:
        return SimpleNamespace(toDF=lambda name: Tasks([list] * n, self._run))


@dataclass
class Rdd:
    """Partitions, each with the task that makes it."""

    tasks: Sequence[Callable[[], Any]]
    run: Callable[[Sequence[Callable[[], Any]]], list[Any]]

    def mapPartitions(self, work: Callable[[Any], Iterable[bytes]]) -> Rdd:
        return Rdd([partial(_listed, work, task) for task in self.tasks], self.run)

    def collect(self) -> list[bytes]:
        return [value for values in self.run(self.tasks) for value in values]


def _listed(work: Callable[[Any], Iterable[bytes]], task: Callable[[], Any]) -> list[bytes]:
    return list(work(task()))


@dataclass(frozen=True)
class FrameRun(SourceRun):
    """Without Spark's functions."""

    exact: ClassVar[bool] = True  # the timestamps, which Spark has not read

    planned: Callable[[int], Mapping[SourcePartition, int]] = lambda number: {}
    reading: Any = None

    def took(self, rows: Sequence[Row]) -> set[str]:
        return BatchRun.took(self, rows)

    def places(self, batch: Any) -> Any:
        left = [place for place in batch.places() if place[2] >= self.pipeline.state.positions.get(place[:2], 0)]
        places = np.array(left, np.int64).reshape(-1, 4)
        return places[np.lexsort(places.T[::-1])]

    def only(self, batch: Any, places: Any) -> Any:
        return batch.only(places)


@dataclass
class WithoutSpark(Pipeline):
    """A pipeline of such batches."""

    run: Callable[[Pipeline, int, Report], BatchPieces] = FrameRun


def traceback_of(error: BaseException) -> str:
    """Return the text that Spark reports of a task that raised it."""
    return "".join(traceback.format_exception(error))
