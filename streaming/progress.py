"""Count the records that a task reads, and note its counts beside the offsets that it commits.

A note is committed together with the offset of its partition. If a task dies before it reports, the driver takes its
counts from the notes. A note is one line of JSON:

    {"job":17,"slot":0,"read":[1200,326400,1700000000000],"published":{"events":1180,"deliveries":1204}}
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from matchers.contract.tables import Int64
from streaming.latencies import credible
from streaming.rows import (
    COUNTS,
    SPARK_IS_RIGHT_FROM_MS,
    Published,
    ReadProgress,
    Row,
    RowKind,
    SourcePartition,
)

_SOURCE_STRIDE = 1 << 32  # more than there are partitions
_NEVER = np.iinfo(np.int64).max


class Progress:
    """Counts the records that a task has read, by partition."""

    def __init__(self) -> None:
        self.of: dict[SourcePartition, ReadProgress] = {}
        self._is_misread = False

    def copy(self) -> Progress:
        other = Progress()
        other.of, other._is_misread = dict(self.of), self._is_misread
        return other

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows (INPUT), of which those of a partition mostly follow each other: one run of them after the other."""
        if not len(rows):
            return
        numbers, timestamp = places(rows), np.asarray(rows["timestamp"])
        begins = np.flatnonzero(np.diff(numbers, prepend=-1))
        key, value = (np.asarray(pc.fill_null(pc.binary_length(rows[name]), 0)) for name in ("key", "value"))
        written = np.where(credible(timestamp.astype(np.float64), time.time()), timestamp, _NEVER)
        runs = (
            numbers[begins],
            np.maximum.reduceat(np.asarray(rows["offset"]), begins),
            np.diff(begins, append=len(rows)),
            np.add.reduceat(key + value, begins, dtype=np.int64),
            np.minimum.reduceat(written, begins),
        )
        self._is_misread |= bool(timestamp.min() < SPARK_IS_RIGHT_FROM_MS)
        for number, offset, records, size_bytes, oldest in zip(*(run.tolist() for run in runs), strict=True):
            at = place(number)
            before = self.of.get(at, ReadProgress(*at, 0, 0, 0, None))
            oldest = oldest if before.timestamp_ms is None else min(oldest, before.timestamp_ms)
            self.of[at] = ReadProgress(
                *at,
                offset=max(before.offset, offset),
                records=before.records + records,
                size_bytes=before.size_bytes + size_bytes,
                timestamp_ms=None if oldest == _NEVER else oldest,
            )

    def rows(self) -> Iterator[dict[str, Any]]:
        """PROGRESS rows, and a MISREAD row if Spark may have misread a timestamp."""
        for source, partition, offset, records, size_bytes, timestamp_ms in self.of.values():
            at = {"source": source, "partition": partition, "offset": offset, "timestamp": timestamp_ms}
            yield {"kind": RowKind.PROGRESS, **at, "count": records, "bytes": size_bytes}
        if self._is_misread:
            yield {"kind": RowKind.MISREAD}


def note(job: int, slot: int, read: ReadProgress, published: Published) -> str:
    """The note beside an offset of a task in this slot and job, as the driver numbers those whose tasks publish. It has
    no space."""
    counts = {name: value for name in (*COUNTS, "dead_letters", "executor") if (value := getattr(published, name))}
    facts = {"job": job, "slot": slot, "read": read[3:], "published": counts}
    return orjson.dumps(facts, default=tuple).decode().replace(" ", "")


def noted(committed: Iterable[tuple[SourcePartition, int, str]], job: int) -> list[Row]:
    """Read the notes of a job: a ReadProgress per partition, and per slot a Published with the counts that are known
    before a commit. Each committed offset is (partition of a topic of events, offset, note)."""
    rows: list[Row] = []
    of_slot: dict[int, Published] = {}
    for at, offset, text in committed:
        facts = orjson.loads(text)
        if facts["job"] != job:
            continue
        rows.append(ReadProgress(*at, offset - 1, *facts["read"]))
        counts = facts["published"]
        published = Published(**counts | {"dead_letters": Counter(counts.get("dead_letters", {}))})
        of_slot[facts["slot"]] = max(published, of_slot.get(facts["slot"], published), key=lambda one: one.commits)
    return [*rows, *of_slot.values()]


def places(rows: pa.RecordBatch) -> Int64:
    """A number for the (source, partition) of each row."""
    numbers: Int64 = np.asarray(rows["source"]).astype(np.int64) * _SOURCE_STRIDE + np.asarray(rows["partition"])
    return numbers


def place(number: int) -> SourcePartition:
    """The (source, partition) of such a number."""
    return number // _SOURCE_STRIDE, number % _SOURCE_STRIDE
