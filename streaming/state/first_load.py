"""Load subscriptions from the broker into compiled segments, slice by slice in several processes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from matchers.contract.tables import Int64
from matchers.index.segment import Segment
from matchers.index.snapshot import Part
from matchers.index.texts import Bools, Texts
from streaming.documents.change_order import Decisions, LastWords
from streaming.documents.messages import headers_of, place_of
from streaming.documents.subscriptions import Rejected, id_of
from streaming.errors import BrokerUnreachable
from streaming.index import notes, packing
from streaming.kafka.clients import Cluster, polled
from streaming.kafka.errors import is_passing, is_without_group, translate
from streaming.rows import ConsumerRecord, RejectedChange
from streaming.tenants import ANYBODY, Tenant, Tenants, topic_partition
from streaming.worker.compiling import ChangeRecords, Paused, Unsubscribed, compile_changes, nothing

SLICE_OFFSETS = 25_000
PIECE_BYTES = 64 << 20  # of records, compiled at once
TIMEOUT_S = 60.0

Ranges = Mapping[int, tuple[int, int]]  # partition -> the first offset and the one after the last


@dataclass(frozen=True, eq=False)
class Slice:
    """The last word on each id in a range of offsets of one partition."""

    partition: int  # of changes
    segment: Segment
    timestamp: Int64  # [subscriptions of the segment] ms
    paused: Bools  # [subscriptions of the segment]
    unsubscribed: Texts
    unsubscribed_offset: Int64
    unsubscribed_timestamp: Int64
    rejected: Sequence[tuple[tuple[Any, ...], str | None, str]]  # fields of the record, id, reason

    @property
    def rejections(self) -> Iterator[RejectedChange]:
        return (RejectedChange(ConsumerRecord(*record), id or None, reason) for record, id, reason in self.rejected)


@dataclass(frozen=True, eq=False)
class Chosen:
    """The words of a slice that are the last ones of their ids, in the whole topic."""

    subscriptions: Bools  # [subscriptions of its segment]
    unsubscribed: Bools


@dataclass(frozen=True)
class Span:
    """Offsets of one partition of changes, before `end`."""

    cluster: Cluster
    tenants: Tenants
    partition: int
    begin: int
    end: int

    @property
    def in_topic(self) -> tuple[str, int]:
        """The topic, and the partition's number there."""
        tenant, partition = topic_partition(self.partition, self.tenants)
        return tenant.topic, partition


@dataclass(frozen=True)
class RejectedChanges:
    """The changes of one partition that the job rejected."""

    tenant: Tenant
    offsets: Set[int]
    # By id, for those whose last change was rejected: the offset of the last word on it in this partition, -1 if there
    # is none, and the offset up to which the partition was read then. All other changes before that are rejected or
    # superseded.
    decided: Mapping[bytes, tuple[int, int]]

    @classmethod
    def of(
        cls, partition: int, rejected: Set[tuple[int, int]], decisions: Decisions, tenants: Tenants = ANYBODY
    ) -> RejectedChanges:
        """Select the changes of a partition from `rejected`, given as (partition, offset), and from the decisions."""
        tenant, _ = topic_partition(partition, tenants)
        decided = {
            id: (d.word[1] if d.word and d.word[0] == partition else -1, d.read_up_to.get(partition, 0))
            for id, d in decisions
            if d.rejected
        }
        return cls(tenant, {offset for number, offset in rejected if number == partition}, decided)

    def __contains__(self, record: Message) -> bool:
        _, offset = place_of(record)
        if offset in self.offsets:
            return True
        id = self.tenant.qualified_key(id_of(record.key(), record.value()) or b"")
        word, read_up_to = self.decided.get(id, (0, 0))
        return offset < read_up_to and offset != word


def spans(cluster: Cluster, tenants: Tenants, ranges: Ranges) -> list[Span]:
    """The ranges in the order of the topics, in spans of SLICE_OFFSETS offsets."""
    return [
        Span(cluster, tenants, partition, begin, min(begin + SLICE_OFFSETS, high))
        for partition, (low, high) in sorted(ranges.items())
        for begin in range(low, high, SLICE_OFFSETS)
    ]


def load(
    pool: Executor,
    spans: Sequence[Span],
    directory: Path,
    rejected: Mapping[int, RejectedChanges],
    progress: Callable[[int, int], None],
) -> list[Path]:
    """Write the slices of each span to files, without the changes that the job rejected, by partition.

    `progress` is called with the number of offsets done, and of all. Raises BrokerUnreachable and Forbidden.
    """
    paths = [directory / f"slice-{uuid.uuid4().hex}" for _ in spans]
    total = sum(span.end - span.begin for span in spans)
    begun = {
        pool.submit(_write_slices, span, path, rejected[span.partition]): span
        for span, path in zip(spans, paths, strict=True)
    }
    done = 0
    progress(0, total)
    try:
        for task in as_completed(begun):
            task.result()
            done += begun[task].end - begun[task].begin
            progress(done, total)
    finally:
        for task in begun:
            task.cancel()  # after an error: without a broker each would wait for minutes
    return [path for task in begun for path in task.result()]


def words(slices: Sequence[Slice], decisions: Decisions) -> LastWords[tuple[int, int]]:
    """The last words of all ids. Each is the number of its slice and its position: subscriptions first, then
    deletions."""
    last: LastWords[tuple[int, int]] = LastWords(decisions)
    for number, slice_ in enumerate(slices):
        ids = Texts.joined([slice_.segment.ids, slice_.unsubscribed])
        offset = np.concatenate([notes.numbers(slice_.segment, "offset"), slice_.unsubscribed_offset]).tolist()
        timestamp = np.concatenate([slice_.timestamp, slice_.unsubscribed_timestamp]).tolist()
        for place, id in enumerate(ids):
            last.take(id.encode(), slice_.partition, offset[place], timestamp[place], (number, place))
    return last


def choose(slices: Sequence[Slice], last: LastWords[tuple[int, int]]) -> list[Chosen]:
    masks = [np.zeros(len(slice_.segment.ids) + len(slice_.unsubscribed), bool) for slice_ in slices]
    for _, _, _, (number, place) in last:
        masks[number][place] = True
    splits = [np.split(mask, [len(slice_.segment.ids)]) for slice_, mask in zip(slices, masks, strict=True)]
    return [Chosen(subscriptions, unsubscribed) for subscriptions, unsubscribed in splits]


def joined(slices: Sequence[Slice], chosen: Sequence[Chosen], shard: int = 0, shards: int = 1) -> Segment:
    """The subscriptions that are there after all slices, or a shard of them."""
    live = [
        (slice_.segment, np.flatnonzero(~chosen_rows.subscriptions).astype(np.int32))
        for slice_, chosen_rows in zip(slices, chosen, strict=True)
    ]
    of_shard = live[shard::shards]
    return Segment.merge(of_shard) if of_shard else nothing()


def unsubscribed(slices: Sequence[Slice], chosen: Sequence[Chosen]) -> Texts:
    """The ids whose last word is a deletion."""
    return Texts.joined(
        [
            slice_.unsubscribed.take(np.flatnonzero(chosen_rows.unsubscribed))
            for slice_, chosen_rows in zip(slices, chosen, strict=True)
        ]
    )


def assemble(
    slices: Sequence[Path],
    chosen: Sequence[Chosen],
    algorithm: str,
    options: Mapping[str, Any],
    to: Path,
    shard: int = 0,
    shards: int = 1,
) -> None:
    """Write one part of all subscriptions after the slices, or of a shard of them. Raises OSError."""
    segment = joined([packing.read(path, Slice) for path in slices], chosen, shard, shards)
    packing.write(to, Part.of(segment, algorithm, options))


def _write_slices(span: Span, to: Path, rejected: RejectedChanges) -> list[Path]:
    """Write a slice for each piece of a span; a compacted topic has spans without any record."""
    written = []
    for number, piece in enumerate(_pieces(span)):
        if records := [record for record in piece if record not in rejected]:
            path = to.with_name(f"{to.name}-{number}")
            packing.write(path, _slice(span, records))
            written.append(path)
    return written


def _slice(span: Span, records: Sequence[Message]) -> Slice:
    partition = span.partition
    changes = ChangeRecords(
        [record.key() for record in records],
        pa.array([record.value() for record in records], pa.binary()),
        np.full(len(records), partition, np.int32),
        np.array([place_of(record)[1] for record in records], np.int64),
        span.tenants,
    )
    compiled = compile_changes(changes)
    last: dict[str, Message] = {}
    paused: set[str] = set()
    rejections = []
    for record, outcome in zip(records, compiled.outcomes, strict=True):
        if isinstance(outcome, Rejected):
            rejections.append((_fields(partition, record), outcome.id, str(outcome)))
        else:
            last[outcome.id] = record
            (paused.add if isinstance(outcome, Paused) else paused.discard)(outcome.id)
    there = set(compiled.segment.ids)
    gone = {o.id for o in compiled.outcomes if isinstance(o, Unsubscribed)} - there
    unsubscribed = sorted(gone, key=lambda id: place_of(last[id])[1])
    return Slice(
        partition,
        compiled.segment,
        _timestamps(last[id] for id in compiled.segment.ids),
        np.array([id in paused for id in compiled.segment.ids], bool),
        Texts.of(unsubscribed),
        np.array([place_of(last[id])[1] for id in unsubscribed], np.int64),
        _timestamps(last[id] for id in unsubscribed),
        rejections,
    )


def _timestamps(records: Iterable[Message]) -> Int64:
    return np.array([record.timestamp()[1] for record in records], np.int64)


def _pieces(span: Span) -> Iterator[list[Message]]:
    """The committed records of a span that are left, some megabytes at a time. Raises JobError."""
    consumer = _consumer(span.cluster.bootstrap_servers, tuple(sorted(span.cluster.options.items())))
    topic, partition = span.in_topic
    try:
        consumer.list_topics(topic, TIMEOUT_S)  # else librdkafka looks for a topic that it does not know once a second
    except KafkaException as failed:
        if not is_passing(failed.args[0]):
            raise translate(failed.args[0], f"{topic} cannot be read") from failed
    consumer.assign([TopicPartition(topic, partition, span.begin)])
    records: list[Message] = []
    size = 0
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        for message in polled(consumer, 10_000, 0.2):
            error = message.error()
            if error is None:
                _, offset = place_of(message)
                if offset < span.end:
                    records.append(message)
                    size += len(message)
                    deadline = time.monotonic() + TIMEOUT_S
                reached = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                _, reached = place_of(message)  # a new leader may not have all yet
            elif is_passing(error) or is_without_group(error):
                continue
            else:
                raise translate(error, f"{topic} cannot be read")
            if reached >= span.end:
                consumer.unassign()
                yield records
                return
        if size >= PIECE_BYTES:
            yield records
            records, size = [], 0
            deadline = time.monotonic() + TIMEOUT_S
        if time.monotonic() > deadline:
            raise BrokerUnreachable(
                f"no records received from {topic}, partition {partition}, offset {span.begin} within {TIMEOUT_S:g} s"
            )


@lru_cache(maxsize=1)
def _consumer(bootstrap_servers: str, options: tuple[tuple[str, str], ...]) -> Consumer:
    # A fetch that waits at the end of one partition would keep the next partition waiting.
    return Cluster(bootstrap_servers, dict(options)).reader(queued_max_messages_kbytes=4096, fetch_wait_max_ms=1)


def _fields(partition: int, record: Message) -> tuple[Any, ...]:
    """The fields of a `ConsumerRecord`, since a file can hold a tuple and no instance of that class."""
    _, offset = place_of(record)
    return (partition, offset, record.timestamp()[1], record.key(), record.value(), headers_of(record))
