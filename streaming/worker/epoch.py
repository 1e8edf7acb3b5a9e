"""Read the records of a task without Spark: fetch from the task's partitions again and again, until the epoch ends."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from streaming.publishing.connection.client import Client
from streaming.reading import warm_up
from streaming.reading.contract import Position
from streaming.reading.fetcher import Fetcher
from streaming.rows import (
    RowKind,
    Source,
    SourcePartition,
    events_and_changes,
    is_events,
    of_events,
)
from streaming.worker.settings import TaskSettings

MOST_BYTES = 32 << 20  # of the events of a transaction; a single answer of a broker may have more
LONGEST_POLL_S = 0.5
LONGEST_PAUSE_S = 0.015


@dataclass(frozen=True)
class Epoch:
    """The reading of one Spark job. Task i of n reads every n-th partition of the events. Task 0 also passes on
    the changes, after its last events.

    Without `ends` it ends after `seconds`, or earlier if there are changes, which every task fetches to notice them. A
    task that cannot publish ends early. A bounded epoch reads the partitions of `ends` up to those offsets.
    """

    tasks: int
    topics: Mapping[Source, str]
    ends: Mapping[SourcePartition, int] | None = None
    seconds: float = 4.0
    changes_after_s: float = 0.075  # so soon it ends at the earliest
    most_events: int = 10_000  # of a transaction
    most_changes: int = 20_000

    def records(self, settings: TaskSettings, positions: Mapping[SourcePartition, int]) -> Iterator[pa.RecordBatch]:
        """The records (rows.INPUT) from the positions on. A batch has events, which become a transaction, or changes.

        Raises JobError.
        """
        number = _task() % self.tasks
        mine = self._of_task(number, positions)
        if not mine:
            return
        if self.ends is not None:
            mine = {at: offset for at, offset in mine.items() if offset < self.ends.get(at, 0)}
        with self._fetching(settings, mine) as fetcher:
            yield from self._bounded(fetcher) if self.ends is not None else self._until_it_ends(fetcher, number)

    def looked_at(self, settings: TaskSettings) -> Iterator[Mapping[str, Any]]:
        """LOOKED rows, once all `records` are done."""
        if self.ends is None:
            number, sources, fetcher = _task() % self.tasks, self._sources, _fetcher(*_address(settings))
            for at, (offset, *_) in fetcher.positions.items():
                source, partition = sources[at[0]], at[1]
                if is_events(source) or number == 0:
                    left = max(0, fetcher.log_ends[at].last_stable - offset) if at in fetcher.log_ends else None
                    where = {"source": source, "partition": partition, "offset": offset}
                    yield {"kind": RowKind.LOOKED, **where, "count": left}

    @property
    def _sources(self) -> dict[str, Source]:
        return {topic: source for source, topic in self.topics.items()}

    def _of_task(self, number: int, positions: Mapping[SourcePartition, int]) -> dict[SourcePartition, int]:
        mine = {at: offset for i, (at, offset) in enumerate(of_events(positions).items()) if i % self.tasks == number}
        if number == 0 or self.ends is None:
            mine |= {at: offset for at, offset in positions.items() if not is_events(at[0])}
        return mine

    @contextmanager
    def _fetching(self, settings: TaskSettings, positions: Mapping[SourcePartition, int]) -> Iterator[Fetcher]:
        """The fetcher of this process, which goes on where the last epoch has ended, if it can."""
        fetcher = _fetcher(*_address(settings))
        ends = {(self.topics[source], p): offset for (source, p), offset in (self.ends or {}).items()}
        try:
            fetcher.assign(
                self._sources,
                {(self.topics[source], p): Position(offset) for (source, p), offset in positions.items()},
                ends,
            )
            yield fetcher
        except Exception:
            _fetcher.cache_clear()
            fetcher.close()
            raise

    def _bounded(self, fetcher: Fetcher) -> Iterator[pa.RecordBatch]:
        while not fetcher.is_done():
            read = fetcher.poll(LONGEST_POLL_S)
            for rows in () if read is None else events_and_changes(read.rows):
                yield from _pieces(rows, self.most_events)

    def _until_it_ends(self, fetcher: Fetcher, number: int) -> Iterator[pa.RecordBatch]:
        """Gather batches until the epoch ends. After a transaction the task pauses for as long as the transaction took,
        at most LONGEST_PAUSE_S, unless `most_events` wait: transactions grow with the load."""
        began = time.monotonic()
        until, due = began + self.seconds, 0.0
        events, changes = Gathered(), Gathered()
        while True:
            if not fetcher.is_behind():  # a broker would answer for each event
                _sleep(min(due, until) - time.monotonic())
            now = time.monotonic()
            read = fetcher.poll(max(0.0, min(until, due if events.rows else until) - now))
            for rows in () if read is None else events_and_changes(read.rows):
                (events if is_events(rows["source"][0].as_py()) else changes).add(rows)
            if changes.rows:
                until = min(until, began + self.changes_after_s)
            now = time.monotonic()
            is_over = now >= until or changes.rows >= self.most_changes
            is_full = events.rows >= self.most_events or events.bytes >= MOST_BYTES
            if events.rows and (is_full or is_over or now >= due):
                yield from events.taken(self.most_events)
                done = time.monotonic()
                due = done + min(done - now, LONGEST_PAUSE_S)
                is_over |= done >= until
            if is_over:
                break
        if number == 0 and changes.rows:
            yield from self._changes(fetcher, next(changes.taken(changes.rows)))

    def _changes(self, fetcher: Fetcher, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the changes up to the limit; the fetcher goes back to the first of the others."""
        yield from _pieces(rows[: self.most_changes], self.most_events)
        left = rows[self.most_changes :]
        places = zip(*(left[name].to_pylist() for name in ("source", "partition", "offset")), strict=True)
        back: dict[tuple[str, int], Position] = {}
        for source, partition, offset in places:  # in a partition they come in their order
            back.setdefault((self.topics[source], partition), Position(offset))
        if back:
            fetcher.assign(self._sources, {**fetcher.positions, **back})


@dataclass
class Gathered:
    """Batches of events, or of changes, that wait to be passed on."""

    rows: int = 0
    bytes: int = 0
    _batches: list[pa.RecordBatch] = field(default_factory=list)

    def add(self, rows: pa.RecordBatch) -> None:
        self._batches.append(rows)
        self.rows += len(rows)
        self.bytes += rows.nbytes

    def taken(self, most: int) -> Iterator[pa.RecordBatch]:
        """Yield all gathered rows in batches of at most `most` rows, and keep none."""
        batches, self._batches, self.rows, self.bytes = self._batches, [], 0, 0
        if batches:
            yield from _pieces(batches[0] if len(batches) == 1 else pa.concat_batches(batches), most)


def warm(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Load the kernels that read records in this process, and return nothing."""
    for _ in batches:
        pass
    warm_up.compile()
    return iter(())


def _pieces(rows: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    return (rows[begin : begin + most] for begin in range(0, len(rows), most))


def _sleep(seconds: float) -> None:
    if seconds > 0:
        time.sleep(seconds)


def _task() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def _address(settings: TaskSettings) -> tuple[str, tuple[tuple[str, str], ...]]:
    return settings.bootstrap_servers, tuple(settings.options.items())


@lru_cache(1)
def _fetcher(bootstrap_servers: str, options: tuple[tuple[str, str], ...]) -> Fetcher:
    """Return the fetcher of this process; long polls would block the connections of its slots."""
    return Fetcher(Client(bootstrap_servers, dict(options)), {}, {})
