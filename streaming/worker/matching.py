"""The work of a Spark task: rows of both topics in, results out.

It runs inside Spark's Python workers (`mapInArrow`), and uses nothing of Kafka but the columns of a record, so tests
call it with Arrow batches of their own.
"""

from __future__ import annotations

import gc
import re
import resource
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from matchers.contract.tables import Int32
from streaming.documents.subscriptions import Rejected
from streaming.index import packing
from streaming.index.parts import PartHandle, forget_files, opened
from streaming.progress import Progress, place, places
from streaming.rows import (
    OUTPUT,
    PACKED,
    PAUSED,
    SUBSCRIPTIONS,
    RowKind,
    SourcePartition,
    events_and_changes,
    is_events,
    sorted_by_topic,
)
from streaming.tenants import Tenants, change_partition
from streaming.worker.compiling import ChangeRecords, CompiledChanges, Outcome, Paused, Unsubscribed, compile_changes
from streaming.worker.counting import DeliveryCounter
from streaming.worker.epoch import Epoch
from streaming.worker.events.matches import EventMatching, Matches, decoders
from streaming.worker.publication import Publication
from streaming.worker.publishing import Task
from streaming.worker.settings import TaskSettings
from streaming.worker.shards import shipped, united
from streaming.worker.transaction import SUBSCRIBERS

FREEZE_AFTER_TASKS = (2, 8, 64)  # tasks of a worker
MOST_SUBSCRIBERS = 1 << 20  # whose numbers a worker keeps between tasks, about 50 MB of them


_calls = 0
_is_bounded = False


def _bound(memory_mb: int) -> None:
    """Before the first task with `memory_mb`, limit the memory of this process to its present size, which grows with
    the number of cores, plus so much.

    Files mapped for reading do not count. With 0, or without /proc, there is no limit.
    """
    global _is_bounded
    status = Path("/proc/self/status")
    if not memory_mb or _is_bounded or not status.exists():
        return
    (taken_kb,) = re.findall(r"VmData:\s+(\d+) kB", status.read_text())
    bound = (int(taken_kb) << 10) + (memory_mb << 20)
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (bound if most == resource.RLIM_INFINITY else min(bound, most), most))
    _is_bounded = True


def _settle() -> None:
    """Freeze the objects loaded so far. Spark collects garbage after every task, and the collector would scan 50,000
    objects of loaded kernels for 25 ms each time, more than matching takes. Forget the subscribers if there are many:
    most of them may be gone."""
    global _calls
    _calls += 1
    if _calls in FREEZE_AFTER_TASKS:
        gc.freeze()
    if len(SUBSCRIBERS) > MOST_SUBSCRIBERS:
        SUBSCRIBERS.clear()


def _packed(rows: Iterable[Mapping[str, Any]]) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, OUTPUT) as stream:
        stream.write_batch(pa.RecordBatch.from_pylist(list(rows), schema=OUTPUT))
    return pa.RecordBatch.from_pydict({"rows": [sink.getvalue().to_pybytes()]}, schema=PACKED)


class MatchedRows(NamedTuple):
    """Events, or changes, and what matches them."""

    rows: pa.RecordBatch
    matches: Matches
    taken: float | None  # epoch s, when the task had read them; None: others did


@dataclass(frozen=True)
class Work:
    """The work of tasks on a batch, or on one shard of it. With an epoch the tasks read their records themselves.

    Without shards a task matches and publishes (`__call__`). The tasks of a shard `ship` what they match to others,
    which `publish` it.
    """

    settings: TaskSettings
    parts: tuple[tuple[PartHandle, Int32], ...]  # with the removed positions of each
    positions: Mapping[SourcePartition, int]  # rows below these were committed already and are dropped
    publication: Publication | None = None  # None: deliveries are only counted
    false_positives: float = 0.0  # `Part.match`
    shard: int = 0
    epoch: Epoch | None = None
    retired: tuple[str, ...] = ()  # names of remote files that no batch needs any more

    def __call__(self, batches: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        return self._done(self._matched(batches))

    def packed(self, seeds: Iterable[Any]) -> Iterator[bytes]:
        """The packed rows of a task that reads its records itself, which the seeds only start."""
        for batch in self(seeds):
            yield from batch["rows"].to_pylist()

    def ship(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Match a shard; returns the rows of `shards`."""
        for rows, matches, _ in self._matched(batches):
            yield from shipped(rows, matches, self.shard)
        _settle()

    def publish(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Publish what all shards have matched."""
        _bound(self.settings.memory_mb)
        return self._done(MatchedRows(rows, matches, None) for rows, matches in united(batches))

    def _matched(self, batches: Iterable[Any]) -> Iterator[MatchedRows]:
        _bound(self.settings.memory_mb)
        forget_files(self.retired)
        parts, plan = opened(tuple(handle for handle, _ in self.parts), self.shard)
        matching = EventMatching(
            parts=parts,
            removed=[gone for _, gone in self.parts],
            plan=plan,
            topics=decoders(self.settings.topics, self.settings.registry),
            false_positives=self.false_positives,
            max_event_bytes=self.settings.max_event_bytes,
        )
        for rows in self._rows(batches):
            taken = None if self.epoch is None else time.time()
            if is_events(_source(rows)):
                events = sorted_by_topic(rows)
                yield MatchedRows(events, matching(events), taken)
            elif not self.shard:
                yield MatchedRows(rows, Matches.none(len(rows)), taken)

    def _rows(self, batches: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        """The new rows, events and changes apart. If the task reads them itself, Spark's only start it."""
        if self.epoch is None:
            for batch in batches:
                yield from events_and_changes(batch.filter(self._fresh(batch)))
            return
        for _ in batches:
            pass
        yield from self.epoch.records(self.settings, self.positions)

    def _done(self, matched: Iterable[MatchedRows]) -> Iterator[pa.RecordBatch]:
        task = Task.of(self.settings, self.publication, self.false_positives) if self.publication else DeliveryCounter()
        is_whole = True
        changes = Progress()
        for rows, matches, taken in matched:
            if not is_events(_source(rows)):
                yield _packed(_compile(rows, self.settings.tenants))
                changes.add(rows)
                continue
            done, answers = task.publish(rows, matches.bounded(self.settings.max_matches), taken)
            if answers:
                yield _packed(answers)
            if self.epoch is not None and self.publication is not None and done < len(rows):
                is_whole = False
                break  # what follows comes again
        looked_at = self.epoch.looked_at(self.settings) if self.epoch is not None and is_whole else ()
        yield _packed([*changes.rows(), *task.report(), *looked_at])
        _settle()

    def _fresh(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """A mask of the rows that were not committed before."""
        distinct, of = np.unique(places(batch), return_inverse=True)
        begin = np.array([self.positions.get(place(number), 0) for number in distinct.tolist()], np.int64)
        return pa.array(np.asarray(batch["offset"]) >= begin[of])


def _compile(rows: pa.RecordBatch, tenants: Tenants) -> Iterator[dict[str, Any]]:
    """CHANGE and REJECTION rows, and after them the SEGMENT row with their subscriptions. Their partitions are those of
    changes."""
    if not len(rows):
        return
    rows = _with_change_partitions(rows)
    compiled = _compiled(rows, tenants)
    if not _is_contested(rows, compiled.outcomes):
        yield from _outcomes(rows, compiled)
        return
    # Only the driver sees the whole batch and decides between partitions, so it gets the last word of each.
    for partition in pc.unique(rows["partition"]):
        changes = rows.filter(pc.equal(rows["partition"], partition))
        yield from _outcomes(changes, _compiled(changes, tenants))


def _compiled(rows: pa.RecordBatch, tenants: Tenants) -> CompiledChanges:
    partition, offset = np.asarray(rows["partition"]), np.asarray(rows["offset"])
    return compile_changes(ChangeRecords(rows["key"].to_pylist(), rows["value"], partition, offset, tenants))


def _with_change_partitions(rows: pa.RecordBatch) -> pa.RecordBatch:
    number = np.asarray(rows["source"]) - SUBSCRIPTIONS
    if not number.any():
        return rows
    partition = change_partition(number, np.asarray(rows["partition"])).astype(np.int32)
    return rows.set_column(rows.schema.get_field_index("partition"), "partition", pa.array(partition))


def _is_contested(rows: pa.RecordBatch, outcomes: Sequence[Outcome]) -> bool:
    """Whether an id has changes in several partitions."""
    partition: dict[str, int] = {}
    if len(pc.unique(rows["partition"])) == 1:
        return False
    return any(
        not isinstance(outcome, Rejected) and partition.setdefault(outcome.id, p) != p
        for outcome, p in zip(outcomes, rows["partition"].to_pylist(), strict=True)
    )


def _outcomes(rows: pa.RecordBatch, compiled: CompiledChanges) -> Iterator[dict[str, Any]]:
    for row, outcome in zip(rows.to_pylist(), compiled.outcomes, strict=True):
        if isinstance(outcome, Rejected):
            yield row | {
                "kind": RowKind.REJECTION,
                "reason": str(outcome),
                "subscriptions": [outcome.id] if outcome.id else [],
            }
        else:
            subscribers = [] if isinstance(outcome, Unsubscribed) else [outcome.subscriber]
            reason = PAUSED if isinstance(outcome, Paused) else None
            yield row | {
                "kind": RowKind.CHANGE,
                "subscriptions": [outcome.id],
                "subscribers": subscribers,
                "reason": reason,
            }
    yield {"kind": RowKind.SEGMENT, "source": SUBSCRIPTIONS, "value": packing.as_bytes(compiled.segment)}


def _source(rows: pa.RecordBatch) -> int:
    """The source of the first of these rows."""
    source: int = rows["source"][0].as_py()
    return source
