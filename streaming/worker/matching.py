"""The work of a Spark task: rows of both topics in, results out.

Runs inside Spark's Python workers (`mapInArrow`). It knows nothing of Kafka but the columns of a record, so tests call
it with Arrow batches of their own.
"""

from __future__ import annotations

import gc
import re
import resource
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from matchers.contract.tables import Int32, Int64
from streaming.codecs import RegistrySettings, open_codec
from streaming.documents.subscriptions import Refused
from streaming.index import packing
from streaming.index.parts import Handle, opened
from streaming.latencies import credible
from streaming.rows import EVENTS, OUTPUT, PACKED, PAUSED, SUBSCRIPTIONS, Kind, Source, SourcePartition
from streaming.worker.compiling import Changes, Compiled, Outcome, Paused, Withdrawn, compile_changes
from streaming.worker.matches import Matching
from streaming.worker.publication import Publication
from streaming.worker.publishing import Task
from streaming.worker.to_driver import rows_of

_SOURCE_STRIDE = 1 << 32  # more than there are partitions

# Spark takes a timestamp for one of the Julian calendar, before 1900 also of the local mean time of the JVM's zone.
# From then on, with two days to spare, it is right.
SPARK_IS_RIGHT_FROM_MS = -2_208_816_000_000
FREEZE_AFTER = (2, 8, 64)  # tasks of a worker


_calls = 0


def _bound(memory_mb: int) -> None:
    """Limit the memory of this process to its present size plus `memory_mb`; that size grows with the number of cores.

    Files mapped for reading do not count. Without /proc there is no limit.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return
    (taken_kb,) = re.findall(r"VmData:\s+(\d+) kB", status.read_text())
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, ((int(taken_kb) << 10) + (memory_mb << 20), most))


def _settle() -> None:
    """Freeze the objects loaded so far. Spark collects garbage after every task, and the collector would scan 50,000
    objects of loaded kernels for 25 ms each time, more than matching takes."""
    global _calls
    _calls += 1
    if _calls in FREEZE_AFTER:
        gc.freeze()


def _packed(rows: pa.RecordBatch) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return pa.RecordBatch.from_pydict({"rows": [sink.getvalue().to_pybytes()]}, schema=PACKED)


@dataclass(frozen=True)
class Work:
    """The workers' input for one batch, or for one shard of it. The first shard also does all work except matching."""

    parts: tuple[tuple[Handle, Int32], ...]  # with the removed positions of each
    positions: Mapping[SourcePartition, int]  # rows below these were committed already and are dropped
    codec: str = "json"  # how events are written
    registry: RegistrySettings | None = None  # for the codecs whose schemas are in one
    false_positives: float = 0.0  # `Part.match`
    shard: int = 0
    shards: int = 1
    max_event_bytes: int = 1_000_000
    memory_mb: int = 0  # what the worker may take beyond what it starts with and what it maps; 0: any amount
    publication: Publication | None = None  # how tasks publish deliveries; None: they go to the driver
    exact: bool = False  # timestamps are as Kafka has them

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self.memory_mb and not _calls:
            _bound(self.memory_mb)
        parts, plan = opened(tuple(handle for handle, _ in self.parts), self.shard)
        matching = Matching(
            parts=parts,
            removed=[gone for _, gone in self.parts],
            plan=plan,
            decode=open_codec(self.codec, self.registry),
            false_positives=self.false_positives,
            max_event_bytes=self.max_event_bytes,
        )
        task = self.publication and Task.of(self.publication, parts, self.false_positives)
        for batch in batches:
            batch = batch.filter(self._fresh(batch))
            is_event = pc.equal(batch["source"], EVENTS)
            events, changes = batch.filter(is_event), batch.filter(pc.invert(is_event))
            if task:
                yield from self._published(events, matching, task)
                yield _packed(_table([*_compile(changes), *_progress(changes)]))
                continue
            answers = rows_of(events, matching(events), parts, self.shard, self.shards)
            if self.shard:
                yield _packed(answers.filter(pc.not_equal(answers["kind"], Kind.DEAD_LETTER)))
                continue
            yield _packed(answers)
            yield _packed(_table([*_compile(changes), *_progress(batch)]))
        if task:
            yield _packed(_table([task.report()]))
        _settle()

    def _published(self, events: pa.RecordBatch, matching: Matching, task: Task) -> Iterator[pa.RecordBatch]:
        """Publish the deliveries of events. None of them, nor any later, if their timestamps are wrong."""
        if not self.exact and len(events) and pc.min(events["timestamp"]).as_py() < SPARK_IS_RIGHT_FROM_MS:
            task.stop()
            yield _packed(_table([{"kind": Kind.MISREAD}]))
        if task.stopped or not len(events):
            return
        done, rows = task.publish(events, matching(events))
        yield _packed(_table([*rows, *_progress(events[:done])]))

    def _fresh(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """A mask of the rows that were not committed before."""
        places, of = _places(batch)
        begin = np.array([self.positions.get(place, 0) for place in places], np.int64)
        return pa.array(np.asarray(batch["offset"]) >= begin[of])


def _compile(rows: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """CHANGE and REFUSAL rows, and after them the SEGMENT row with their subscriptions."""
    if not len(rows):
        return
    compiled = _compiled(rows)
    if not _is_contested(rows, compiled.outcomes):
        yield from _outcomes(rows, compiled)
        return
    # Only the driver sees the whole batch and decides between partitions, so it gets the last word of each.
    for partition in pc.unique(rows["partition"]):
        changes = rows.filter(pc.equal(rows["partition"], partition))
        yield from _outcomes(changes, _compiled(changes))


def _compiled(rows: pa.RecordBatch) -> Compiled:
    return compile_changes(
        Changes(rows["key"].to_pylist(), rows["value"], np.asarray(rows["partition"]), np.asarray(rows["offset"]))
    )


def _is_contested(rows: pa.RecordBatch, outcomes: Sequence[Outcome]) -> bool:
    """Whether an id has changes in several partitions."""
    partition: dict[str, int] = {}
    if len(pc.unique(rows["partition"])) == 1:
        return False
    return any(
        not isinstance(outcome, Refused) and partition.setdefault(outcome.id, p) != p
        for outcome, p in zip(outcomes, rows["partition"].to_pylist(), strict=True)
    )


def _outcomes(rows: pa.RecordBatch, compiled: Compiled) -> Iterator[dict[str, Any]]:
    for row, outcome in zip(rows.to_pylist(), compiled.outcomes, strict=True):
        if isinstance(outcome, Refused):
            yield row | {
                "kind": Kind.REFUSAL,
                "reason": str(outcome),
                "subscriptions": [outcome.id] if outcome.id else [],
            }
        else:
            subscribers = [] if isinstance(outcome, Withdrawn) else [outcome.subscriber]
            reason = PAUSED if isinstance(outcome, Paused) else None
            yield row | {
                "kind": Kind.CHANGE,
                "subscriptions": [outcome.id],
                "subscribers": subscribers,
                "reason": reason,
            }
    yield {"kind": Kind.SEGMENT, "source": SUBSCRIPTIONS, "value": packing.as_bytes(compiled.segment)}


def _table(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=OUTPUT)


def _progress(rows: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    now = time.time()
    places, of = _places(rows)
    offset, timestamp = np.asarray(rows["offset"]), np.asarray(rows["timestamp"])
    key_bytes, value_bytes = (np.asarray(pc.fill_null(pc.binary_length(rows[name]), 0)) for name in ("key", "value"))
    lengths = key_bytes + value_bytes
    for i, (source, partition) in enumerate(places):
        mine = of == i
        at = {"source": source, "partition": partition, "offset": int(offset[mine].max())}
        size = {"count": int(mine.sum()), "bytes": int(lengths[mine].sum())}
        times = timestamp[mine]
        written = times[credible(times.astype(np.float64), now)]
        yield {"kind": Kind.PROGRESS, **at, "timestamp": int(written.min()) if len(written) else None, **size}
        if times.min() < SPARK_IS_RIGHT_FROM_MS:
            yield {"kind": Kind.MISREAD}


def _places(rows: pa.RecordBatch) -> tuple[list[SourcePartition], Int64]:
    """The distinct (source, partition), and the index of each row's."""
    keys = np.asarray(rows["source"]).astype(np.int64) * _SOURCE_STRIDE + np.asarray(rows["partition"])
    distinct, of = np.unique(keys, return_inverse=True)
    return [(Source(place // _SOURCE_STRIDE), place % _SOURCE_STRIDE) for place in distinct.tolist()], of
