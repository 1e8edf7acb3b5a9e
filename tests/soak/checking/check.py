"""Check deliveries window by window, in memory that does not grow with time.

A window has the events from one set of committed offsets to the next. `rig.check` checks it as if nothing had
been before: offsets count from the beginning of the window, and what is in force there stands as the first batch of
changes, in partition 0. The events are drawn again, not read. What lies beyond the window waits for the next one.

Committed offsets are a fair end, even amid a batch: a status that was written before them is in force from there at the
latest, and a later one from there at the earliest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from rig import check as living
from rig.check import Answer, Changes, ComparedDeliveries, Deliveries, Events, Statuses
from rig.load import Load
from streaming.latencies import Latencies
from tests.faults.checking.check import missing_of
from tests.soak.checking.records import (
    CHANGE_TIME,
    CHECKSUM,
    IDS,
    KINDS,
    OFFSET,
    PARTITION,
    STATUS_OFFSET,
    STATUS_PARTITION,
    STATUS_TIME,
    SUBSCRIBER,
    VERSION,
    Chunk,
    Int32,
    Int64,
)

BEGINS = STATUS_TIME + 1  # columns of the offsets from which a status counts
SHOWN = 10  # mistakes that are described


@dataclass
class Found:
    """The totals of all windows so far."""

    windows: int = 0
    events: int = 0
    changes: int = 0
    answer: Answer = field(default_factory=lambda: Answer(*[0] * 9))
    out_of_order: int = 0  # deliveries behind one of a later event of the same partition, to the same subscriber
    # ms from when a change was due until its status was read, but for those of a first start
    in_force: Latencies = field(default_factory=Latencies)
    details: list[str] = field(default_factory=list)  # of the first mistakes

    @property
    def right(self) -> bool:
        return self.answer.right and not self.out_of_order

    def as_data(self) -> dict[str, Any]:
        """JSON."""
        own = {name: value for name, value in asdict(self).items() if name not in ("answer", "in_force")}
        return {**own, **self.answer.as_data(), "in_force_ms": self.in_force.summary(), "right": self.right}


class Check:
    def __init__(self, load: Load, event_partitions: int, change_partitions: int) -> None:
        self.found = Found()
        self._subscribers = load.subscribers
        self._drawn = _Drawn(load, event_partitions)
        self._in_force = _InForce(load)
        self._events_begin = np.zeros(event_partitions, np.int64)
        self._changes_begin = np.zeros(change_partitions, np.int64)
        self._last = np.full(load.subscribers * event_partitions, -1)  # offset delivered, by subscriber and partition
        self._deliveries = np.zeros((0, 6), np.int64)
        self._ids = np.zeros(0, np.int32)
        self._statuses = np.zeros((0, BEGINS + event_partitions), np.int64)
        self._changes: list[list[Int32]] = [[] for _ in range(change_partitions)]

    def take(self, chunk: Chunk) -> None:
        self._check_order(chunk.deliveries)
        self._deliveries = np.concatenate([self._deliveries, chunk.deliveries])
        self._ids = np.concatenate([self._ids, chunk.ids])
        self._statuses = np.concatenate([self._statuses, chunk.statuses])
        for parts, new in zip(self._changes, chunk.changes, strict=True):
            parts.append(new)

    def close(self, events_end: Sequence[int], changes_end: Sequence[int] | None = None) -> None:
        """Check the events before `events_end`, which the job has committed; all that it wrote until then was taken.

        With `changes_end`, it is the last window: the job has ended, and committed the changes before these offsets.
        """
        end, last = np.array(events_end, np.int64), changes_end is not None
        assert (end >= self._events_begin).all(), "committed offsets went back"
        begins = self._statuses[:, BEGINS:]
        chosen = (
            np.full(len(begins), True) if last else (begins < end).any(axis=1) | (begins == living.NEVER).all(axis=1)
        )
        statuses, self._statuses = self._statuses[chosen], self._statuses[~chosen]
        window = self._changes_of(statuses, changes_end)
        carried = self._in_force.rows()
        changes = Changes.of([np.concatenate([carried, window[0]]), *window[1:]])
        events = self._drawn.until(end)
        shifted = self._shifted(statuses, changes, len(carried), end)
        self._add_in_force(statuses, shifted.change[len(carried) :], changes)
        deliveries = self._deliveries_of(events, end, last)
        compared = living.compare(changes, shifted, events, deliveries)
        answer = compared.answer
        if not answer.right:
            self._describe(compared, events)
        self._in_force.apply(window)
        self._add(answer, events, window)
        self._events_begin = end
        self._changes_begin += [len(rows) for rows in window]

    def _changes_of(self, statuses: Int64, changes_end: Sequence[int] | None) -> list[Int32]:
        """Return the changes up to the last one that has a status, by partition."""
        window = []
        for p, begin in enumerate(self._changes_begin.tolist()):
            rows = np.concatenate([*self._changes[p], np.zeros((0, CHANGE_TIME + 1), np.int32)])
            own = statuses[statuses[:, STATUS_PARTITION] == p, STATUS_OFFSET]
            end = int(own.max(initial=-1)) + 1 if changes_end is None else changes_end[p]
            window.append(rows[: max(0, end - begin)])
            self._changes[p] = [rows[len(window[-1]) :].copy()]
        return window

    def _add_in_force(self, statuses: Int64, change: Int64, changes: Changes) -> None:
        timed = (change >= 0) & (statuses[:, BEGINS:] > 0).any(axis=1)
        ms = statuses[timed, STATUS_TIME] - changes.timestamp[change[timed]]
        self.found.in_force.extend(np.maximum(ms, 0).astype(np.float64))

    def _shifted(self, statuses: Int64, changes: Changes, carried: int, end: Int64) -> Statuses:
        """The statuses of what is in force before the window, and then its own. One is not accepted if it lets its
        change be in force before the window, or in one partition before its end and in another one behind."""
        sizes = np.diff(changes.start)
        sizes[0] -= carried
        partition, offset, kind, version = statuses[:, :STATUS_TIME].T
        known = (partition >= 0) & (partition < len(sizes))
        partition = np.where(known, partition, 0)
        place = offset - self._changes_begin[partition]
        known &= (place >= 0) & (place < sizes[partition])
        change = np.where(known, changes.start[partition] + np.where(partition == 0, carried, 0) + place, -1)
        unsubscribed = changes.subscriber[change] < 0 if len(changes.id) else np.zeros(len(change), np.bool_)
        begins, rejected = statuses[:, BEGINS:], kind == KINDS["rejected"]
        torn = (begins < self._events_begin).any(axis=1) | ((begins < end).any(axis=1) & (begins > end).any(axis=1))
        accepted = (kind == np.where(unsubscribed, KINDS["unsubscribed"], KINDS["accepted"])) & ~torn
        begins = np.where(rejected[:, None], living.NEVER, np.maximum(begins - self._events_begin, 0))
        version = np.where(rejected, -1, version - self._changes_begin.sum() + carried)
        return Statuses(
            np.concatenate([np.arange(carried), change]),
            np.concatenate([np.ones(carried, np.bool_), accepted]),
            np.concatenate([np.full(carried, carried), version]),
            np.concatenate([np.zeros((carried, begins.shape[1]), np.int64), begins]),
        )

    def _deliveries_of(self, events: Events, end: Int64, last: bool) -> Deliveries:
        """Return the deliveries of the window, and those without a possible event; all that are left, if it is the
        last."""
        rows, partitions = self._deliveries, len(end)
        known = (rows[:, PARTITION] >= 0) & (rows[:, PARTITION] < partitions)
        partition = np.where(known, rows[:, PARTITION], 0)
        place = rows[:, OFFSET] - self._events_begin[partition]
        due = known & (rows[:, OFFSET] < end[partition])
        chosen = due | ~known | last
        event = np.where(due & (place >= 0), events.start[partition] + place, -1)[chosen]
        of_chosen = np.repeat(chosen, rows[:, IDS])
        ids, self._ids = self._ids[of_chosen], self._ids[~of_chosen]
        rows, self._deliveries = rows[chosen], rows[~chosen]
        version = rows[:, VERSION] - self._changes_begin.sum() + self._in_force.n
        start = np.append(0, np.cumsum(rows[:, IDS]))
        checksum = rows[:, CHECKSUM].astype(np.uint32)
        return Deliveries(event, rows[:, SUBSCRIBER].astype(np.int32), version, checksum, start, ids)

    def _check_order(self, rows: Int64) -> None:
        """A copy behind the first is in order."""
        partitions = len(self._events_begin)
        rows = rows[(rows[:, PARTITION] < partitions) & (rows[:, SUBSCRIBER] < self._subscribers)]
        if not len(rows):
            return
        key = rows[:, SUBSCRIBER] * partitions + rows[:, PARTITION]
        order = np.argsort(key, kind="stable")
        key, offset = key[order], rows[order, OFFSET]
        far = int(max(offset.max(), self._last.max())) + 2
        first = np.append(True, key[1:] != key[:-1])
        highest = (
            np.maximum.accumulate(key * far + np.where(first, np.maximum(offset, self._last[key]), offset)) - key * far
        )
        before = np.where(first, self._last[key], np.append(-1, highest[:-1]))
        late = offset < before
        self._last[key] = highest  # of several the last is kept
        self.found.out_of_order += int(late.sum())
        for i in np.flatnonzero(late)[:SHOWN].tolist():
            subscriber, partition = divmod(int(key[i]), partitions)
            self._tell(f"out of order: to r{subscriber}, event {partition}-{offset[i]} behind {before[i]}")

    def _describe(self, compared: ComparedDeliveries, events: Events) -> None:
        counted = {n: c for n, c in compared.answer.as_data().items() if c and n not in ("expected", "delivered")}
        self._tell(f"events {self._events_begin.tolist()} and on: {counted}")
        for subscriber, partition, offset in islice(missing_of(compared.missing, events), SHOWN):
            self._tell(f"missing: to r{subscriber}, event {partition}-{offset + self._events_begin[partition]}")

    def _tell(self, text: str) -> None:
        if len(self.found.details) < 3 * SHOWN:
            self.found.details.append(text)

    def _add(self, answer: Answer, events: Events, window: Sequence[Int32]) -> None:
        found, before = self.found, asdict(self.found.answer)
        found.answer = Answer(**{name: before[name] + count for name, count in asdict(answer).items()})
        found.windows += 1
        found.events += len(events.symbol)
        found.changes += sum(map(len, window))


class _Drawn:
    """The events of the load: number n is the one at offset n // Q of partition n % Q."""

    def __init__(self, load: Load, partitions: int) -> None:
        self._blocks = load.event_blocks()
        self._partitions = partitions
        self._rows: NDArray[np.int64] = np.zeros((0, 4), np.int64)  # symbol, price, volume, checksum
        self._first = 0  # number of the first row
        self._end = np.zeros(partitions, np.int64)

    def until(self, end: Int64) -> Events:
        """Return the events since the last end."""
        partitions = range(self._partitions)
        need = max(int(end[q] - 1) * self._partitions + q + 1 for q in partitions)
        self._rows = np.concatenate([self._rows, *self._more(need - self._first - len(self._rows))])
        parts = []
        for q in partitions:
            numbers = np.arange(self._end[q], end[q]) * self._partitions + q - self._first
            parts.append(self._rows[numbers])
        keep = min(int(end[q]) * self._partitions + q for q in partitions) - self._first
        self._rows, self._first = self._rows[keep:].copy(), self._first + keep
        self._end = end
        return Events.of(parts)

    def _more(self, n: int) -> Iterator[Int64]:
        while n > 0:
            symbols, numbers, values = next(self._blocks)
            checksums = np.fromiter(map(crc32, values), np.int64, len(symbols))
            yield np.column_stack([symbols, numbers[:, :2], checksums])
            n -= len(symbols)


class _InForce:
    """The subscriptions in force, by the number of their id."""

    def __init__(self, load: Load) -> None:
        self._rows = np.full((load.ids, CHANGE_TIME + 1), -1, np.int32)  # the last change; a deletion has subscriber -1

    @property
    def n(self) -> int:
        return int((self._rows[:, 1] >= 0).sum())

    def rows(self) -> Int32:
        return self._rows[self._rows[:, 1] >= 0]

    def apply(self, window: Sequence[Int32]) -> None:
        """All changes of an id are in one partition; the last of them counts."""
        for rows in window:
            self._rows[rows[:, 0]] = rows
