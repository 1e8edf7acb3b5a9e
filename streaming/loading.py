"""Subscriptions from the broker to compiled segments, slice by slice of the topic in several processes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from numpy.typing import NDArray

from matchers.segment import Segment
from matchers.snapshot import Part
from matchers.tables import Int64
from matchers.texts import Texts
from streaming import packing
from streaming.compiling import Paused, Withdrawn, compile_changes
from streaming.errors import BrokerUnreachable
from streaming.notes import notes
from streaming.refusals import is_without_group, meant
from streaming.subscriptions import Refused

SLICE = 25_000  # offsets
TIMEOUT_S = 60.0

Ranges = Mapping[int, tuple[int, int]]  # partition -> the first offset and the one after the last


@dataclass(frozen=True, eq=False)
class Slice:
    """What the records of a range of one partition come to: the last word on each id."""

    partition: int
    segment: Segment
    offset: Int64  # [subscriptions] of the segment: where each was read
    paused: NDArray[np.bool_]
    withdrawn: Texts
    withdrawn_offset: Int64
    refused: Sequence[Mapping[str, Any]]  # records, each with its "reason" and "id"


def load(
    pool: Executor,
    kafka: Mapping[str, Any],
    topic: str,
    ranges: Ranges,
    directory: Path,
    progress: Callable[[int, int], None],
    refused: Set[tuple[int, int]] = frozenset(),
) -> list[Path]:
    """Files of slices, in the order of the topic, without the changes `refused`, given as (partition, offset).
    `progress` is told how many offsets are done, and of how many.

    Raises BrokerUnreachable, and Forbidden.
    """
    slices = [
        (partition, begin, min(begin + SLICE, high))
        for partition, (low, high) in sorted(ranges.items())
        for begin in range(low, high, SLICE)
    ]
    paths = [directory / f"slice-{uuid.uuid4().hex}" for _ in slices]
    total = sum(end - begin for _, begin, end in slices)
    skipped = {p: {offset for partition, offset in refused if partition == p} for p in ranges}
    begun = {
        pool.submit(_write_slice, dict(kafka), topic, *place, path, skipped[place[0]]): place
        for place, path in zip(slices, paths, strict=True)
    }
    done = 0
    progress(0, total)
    for task in as_completed(begun):
        task.result()
        _, begin, end = begun[task]
        done += end - begin
        progress(done, total)
    return paths


def joined(slices: Sequence[Slice], shard: int = 0, shards: int = 1) -> tuple[Segment, Texts]:
    """What is there after all of them, in order, or a shard of it; and the ids that are withdrawn for good."""
    words = [texts for one in slices for texts in (one.segment.ids, one.withdrawn)]
    last = np.split(Texts.joined(words).last, np.cumsum([len(texts) for texts in words])[:-1])
    live = [(one.segment, np.flatnonzero(~mine).astype(np.int32)) for one, mine in zip(slices, last[::2], strict=True)]
    gone = [one.withdrawn.take(np.flatnonzero(mine)) for one, mine in zip(slices, last[1::2], strict=True)]
    own = live[shard::shards]
    return Segment.merge(own) if own else Segment.build((), notes(())), Texts.joined(gone)


def assemble(
    slices: Sequence[Path], algorithm: str, options: Mapping[str, Any], to: Path, shard: int = 0, shards: int = 1
) -> None:
    """One part of all that is there after the slices, or of a shard of it. Raises OSError."""
    segment, _ = joined([packing.read(path) for path in slices], shard, shards)
    packing.write(to, Part.of(segment, algorithm, options))


def _write_slice(
    kafka: dict[str, Any], topic: str, partition: int, low: int, high: int, to: Path, skipped: Set[int]
) -> None:
    records = [r for r in _records(kafka, topic, partition, low, high) if r.offset() not in skipped]
    keys = [record.key() for record in records]
    compiled = compile_changes(keys, pa.array([record.value() for record in records], pa.binary()))
    last: dict[str, int] = {}
    paused = set()
    refused = []
    for record, outcome in zip(records, compiled.outcomes, strict=True):
        if isinstance(outcome, Refused):
            refused.append(_row(record) | {"id": outcome.id, "reason": str(outcome)})
        else:
            last[outcome.id] = record.offset()
            (paused.add if isinstance(outcome, Paused) else paused.discard)(outcome.id)
    there = set(compiled.segment.ids)
    gone = {o.id for o in compiled.outcomes if isinstance(o, Withdrawn)} - there
    offset = np.array([last[id] for id in compiled.segment.ids], np.int64)
    withdrawn = sorted(gone, key=last.__getitem__)
    withdrawn_offset = np.array([last[id] for id in withdrawn], np.int64)
    is_paused = np.array([id in paused for id in compiled.segment.ids], bool)
    gone_for_good = (Texts.of(withdrawn), withdrawn_offset)
    packing.write(to, Slice(partition, compiled.segment, offset, is_paused, *gone_for_good, refused))


def _records(kafka: dict[str, Any], topic: str, partition: int, low: int, high: int) -> list[Message]:
    """The committed records that are left from `low` until before `high`."""
    consumer = _consumer(tuple(sorted(kafka.items())))
    consumer.assign([TopicPartition(topic, partition, low)])
    records: list[Message] = []
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        for message in consumer.consume(10_000, 0.2):
            error = message.error()
            if error is None and message.offset() < high:
                records.append(message)
                deadline = time.monotonic() + TIMEOUT_S
            if error is None and message.offset() < high - 1:
                continue
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                consumer.unassign()
                return records
            if not error.retriable() and not is_without_group(error):
                raise meant(error, f"{topic} cannot be read")
        if time.monotonic() > deadline:
            raise BrokerUnreachable(
                f"the broker does not give records of {topic}, partition {partition}, from {low} on"
            )


@lru_cache(maxsize=1)
def _consumer(kafka: tuple[tuple[str, Any], ...]) -> Consumer:
    own = {"group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True}
    return Consumer({**own, "isolation.level": "read_committed", "queued.max.messages.kbytes": 4096, **dict(kafka)})


def _row(record: Message) -> dict[str, Any]:
    """A record with the names that the rows of a batch have."""
    headers = [{"key": key, "value": value} for key, value in record.headers() or ()]
    return {
        "partition": record.partition(),
        "offset": record.offset(),
        "timestamp": record.timestamp()[1],
        "key": record.key(),
        "value": record.value(),
        "headers": headers,
    }
