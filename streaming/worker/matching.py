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
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from matchers.contract.tables import Int32, Int64
from matchers.index.snapshot import FieldPlan, Part
from streaming.codecs import Decode, RegistrySettings, open_codec
from streaming.documents import records
from streaming.documents.subscriptions import Refused
from streaming.index import notes, packing
from streaming.index.notes import NEVER
from streaming.index.parts import Handle, opened
from streaming.latencies import credible
from streaming.rows import EVENTS, OUTPUT, PACKED, PAUSED, SUBSCRIPTIONS, Kind, Source, SourcePartition
from streaming.worker import fan_out
from streaming.worker.compiling import Changes, Compiled, Outcome, Paused, Withdrawn, compile_changes
from streaming.worker.reading import read_events

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

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self.memory_mb and not _calls:
            _bound(self.memory_mb)
        parts, reading = opened(tuple(handle for handle, _ in self.parts), self.shard)
        removed = [gone for _, gone in self.parts]
        decode = open_codec(self.codec, self.registry)
        for batch in batches:
            batch = batch.filter(self._fresh(batch))
            is_event = pc.equal(batch["source"], EVENTS)
            events, changes = batch.filter(is_event), batch.filter(pc.invert(is_event))
            matched = self._match(events, parts, removed, reading, decode)
            if self.shard:
                yield _packed(matched.filter(pc.not_equal(matched["kind"], Kind.DEAD_LETTER)))
                continue
            yield _packed(matched)
            yield _packed(pa.RecordBatch.from_pylist([*_compile(changes), *_progress(batch)], schema=OUTPUT))
        _settle()

    def _fresh(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """A mask of the rows that were not committed before."""
        places, of = _places(batch)
        begin = np.array([self.positions.get(place, 0) for place in places], np.int64)
        return pa.array(np.asarray(batch["offset"]) >= begin[of])

    def _match(
        self, rows: pa.RecordBatch, parts: Sequence[Part], removed: Sequence[Int32], plan: FieldPlan, decode: Decode
    ) -> pa.RecordBatch:
        """DELIVERY and DEAD_LETTER rows, made of the input's columns: no row becomes a Python object."""
        length = pc.fill_null(pc.binary_length(rows["value"]), 0)
        oversize = np.flatnonzero(np.asarray(length) > self.max_event_bytes).tolist()
        if oversize:
            fits = pc.less_equal(length, self.max_event_bytes)
            held = rows.set_column(
                rows.schema.get_field_index("value"), "value", pc.if_else(fits, rows["value"], b"{}")
            )
        else:
            held = rows
        reading = read_events(held, plan.fields, decode)
        dead = {row: (records.UNDECODABLE_EVENT, reason) for row, reason in reading.undecodable.items()}
        for row in oversize:
            detail = f"{length[row].as_py()} bytes; events.max_bytes is {self.max_event_bytes}"
            dead[row] = records.OVERSIZE_EVENT, detail
        timestamps = np.asarray(rows["timestamp"])
        spoiled = np.zeros(len(rows), bool)
        spoiled[list(dead)] = True
        matched, total = [], np.zeros(len(rows), np.int64)
        for part, gone, encoder in zip(parts, removed, plan.encoders, strict=True):
            event, position = part.match(reading.values, encoder, reading.document, gone, self.false_positives)
            ends = notes.numbers(part.segment, "expires_at_ms")[position]
            # A timestamp can be as large as NEVER.
            counts = ((timestamps[event] < ends) | (ends == NEVER)) & ~spoiled[event]
            matched.append((event[counts], position[counts]))
            total += np.bincount(event[counts], minlength=len(rows))
        many = np.flatnonzero(total >= fan_out.FAN_OUT_FROM).tolist()
        matches = [self._where(matched, event) for event in many]
        events, subscribers, ids = [np.empty(0, np.int32)], list[str](), list[str]()
        for part, (event, position) in zip(parts, matched, strict=True):
            if many:
                few = total[event] < fan_out.FAN_OUT_FROM
                event, position = event[few], position[few]
            events.append(event)
            subscribers += notes.subscribers(part.segment).at(position)
            ids += part.segment.ids.at(position)
        letters = sorted(dead)
        delivered, to, lists = _grouped(np.concatenate(events), subscribers, ids)
        rest = [None] * (len(delivered) + len(many))
        n = len(letters) + len(rest)
        added = {
            "kind": pa.array(np.repeat([Kind.DEAD_LETTER, Kind.DELIVERY], [len(letters), len(rest)]), pa.int32()),
            "reason": pa.array([dead[e][1] for e in letters] + rest, pa.string()),
            "letter": pa.array([dead[e][0] for e in letters] + rest, pa.string()),
            "subscribers": _after(len(letters), to, len(many)),
            "subscriptions": _after(len(letters), lists, len(many)),
            "count": pa.array([None] * len(letters) + total[delivered + many].tolist(), pa.int64()),
            "matches": pa.array([None] * (len(letters) + len(delivered)) + matches, pa.binary()),
        }
        left = rows.take(pa.array(letters + delivered + many, pa.int64()))
        return pa.RecordBatch.from_arrays(
            [added.get(f.name, left[f.name] if f.name in left.schema.names else pa.nulls(n, f.type)) for f in OUTPUT],
            schema=OUTPUT,
        )

    def _where(self, matched: Sequence[tuple[Int32, Int32]], event: int) -> bytes:
        """The matches of one event, for `fan_out`. Parts are numbered as in the whole state."""
        places = []
        for part, (of, position) in enumerate(matched):
            first, last = np.searchsorted(of, (event, event + 1))
            if first < last:
                places.append((self.shard + part * self.shards, position[first:last]))
        return fan_out.packed(places)


def _grouped(
    event: Int32, subscribers: Sequence[str], ids: Sequence[str]
) -> tuple[list[int], list[list[str]], list[list[str]]]:
    """Group matches by event: the events that have any, ascending; their subscribers; and the ids for each (JSON)."""
    delivered: list[int] = []
    to: list[list[str]] = []
    lists: list[list[str]] = []
    order = np.argsort(event, kind="stable").tolist()
    begins = np.flatnonzero(np.diff(event[order], prepend=-1)).tolist()
    for begin, end in pairwise([*begins, len(order)]):
        by_subscriber: dict[str, list[str]] = {}
        for i in order[begin:end]:
            by_subscriber.setdefault(subscribers[i], []).append(ids[i])
        delivered.append(int(event[order[begin]]))
        to.append(list(by_subscriber))
        lists.append([orjson.dumps(sorted(of_subscriber)).decode() for of_subscriber in by_subscriber.values()])
    return delivered, to, lists


def _after(nothing: int, lists: Sequence[Sequence[str]], empty: int) -> pa.ListArray:
    """The lists as a column, after `nothing` nulls and before `empty` empty lists."""
    ends = np.cumsum([0] * (nothing + 1) + [len(texts) for texts in lists] + [0] * empty, dtype=np.int32)
    flat = pa.array([text for texts in lists for text in texts], pa.string())
    mask = pa.array(np.arange(len(ends) - 1) < nothing)
    return pa.ListArray.from_arrays(pa.array(ends), flat, mask=mask)


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
