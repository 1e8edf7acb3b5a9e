"""Rows: the Arrow tables that travel between the driver and its workers.

Workers get records of both topics (INPUT) and answer with rows of several kinds (OUTPUT), which travel packed (PACKED).
A worker builds columns. The driver makes an object of each row, once (`unpacked`), and handles nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from matchers.contract.tables import Int64
from streaming.latencies import Latencies
from streaming.tenants import change_partition

# The topic that a record came from; column `source`. Topics of events have the numbers from EVENTS on. The topics of
# subscriptions have greater ones, so that events precede changes wherever rows are sorted by source: SUBSCRIPTIONS and
# the number of the tenant.
Source = int
EVENTS: Final = 0
SUBSCRIPTIONS: Final = 1 << 20


class RowKind(IntEnum):
    """The kinds of output rows; column `kind`. The class of each has its columns (`_READERS`)."""

    CHANGE = 0
    REJECTION = 1
    SEGMENT = 2
    PROGRESS = 3
    MISREAD = 4
    DELIVERY_COUNTS = 5
    PUBLISHED = 6
    SLOT = 7
    LOOKED = 8
    SUBSCRIBER_COUNTS = 9


# Spark takes a timestamp for one of the Julian calendar, before 1900 also of the local mean time of the JVM's zone.
# From then on, with two days to spare, it is right.
SPARK_IS_RIGHT_FROM_MS = -2_208_816_000_000

PAUSED = "paused"  # `reason` of a CHANGE row whose subscription is to match nothing

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
INPUT = pa.schema(
    [
        ("source", pa.int32()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),  # ms since the epoch
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
OUTPUT = pa.schema(
    [
        ("kind", pa.int32()),
        *INPUT,
        ("reason", pa.string()),
        ("subscribers", pa.list_(pa.string())),
        ("subscriptions", pa.list_(pa.string())),
        ("count", pa.int64()),
        ("bytes", pa.int64()),
        ("counts", pa.binary()),
    ]
)

# How output rows travel: as Arrow streams, each a single value. Spark carries them without looking into them, which
# would cost more than all of the matching.
PACKED = pa.schema([("rows", pa.binary())])

SourcePartition = tuple[Source, int]  # (source, partition)


class TopicRun(NamedTuple):
    """Rows begin .. end, which are of one topic."""

    source: Source
    begin: int
    end: int


class ConsumerRecord(NamedTuple):
    """A record as it was read from its topic."""

    partition: int  # of a change: the partition of changes (`tenants`)
    offset: int
    timestamp_ms: int  # since the epoch
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


class DeadLetter(NamedTuple):
    """An event that no worker survives. The driver makes this row itself."""

    source: Source
    record: ConsumerRecord
    reason: str  # one of records.OF_EVENTS
    detail: str


class AcceptedChange(NamedTuple):
    """A change that was accepted."""

    record: ConsumerRecord
    id: str
    subscriber: str | None  # None: unsubscribed
    paused: bool = False
    segment: int | None = None  # which of the batch's segments has the subscription (`batch_order.in_order`)


class RejectedChange(NamedTuple):
    """A change that the job does not accept."""

    record: ConsumerRecord
    id: str | None  # None: it is not known
    reason: str


class CompiledSegment(NamedTuple):
    """The subscriptions of the changes since the last one of these, compiled."""

    value: bytes


class ReadProgress(NamedTuple):
    """The number of records of (source, partition) that were read, the last at `offset`."""

    source: Source
    partition: int
    offset: int
    records: int
    size_bytes: int  # of all their keys and values
    timestamp_ms: int | None  # the oldest; None: none has a credible one


class LookedAt(NamedTuple):
    """The offset before which a task has read all of a partition: behind the last record there may be offsets that hold
    none, such as the ends of transactions."""

    source: Source
    partition: int
    offset: int
    behind: int | None  # offsets that were there, and are left to read; None: the broker has not told


class MisreadTimes(NamedTuple):
    """Some records have timestamps that are wrong if Spark read them."""


class DeliveryCounts(NamedTuple):
    """The number of deliveries that each of S subscribers would get for the events of one partition and second."""

    source: Source
    partition: int
    second: int  # of the events' timestamps, since the epoch
    subscribers: Sequence[str]  # [S]
    counts: Int64  # [S]


class CountedSubscribers(NamedTuple):
    """The counts of a task by subscriber and subscription, as bytes (`subscriber_counts.SubscriberCounts`)."""

    value: bytes


class CommitTimes(NamedTuple):
    """The times at which a task had matched, sent and committed the events of a transaction (epoch s)."""

    matched: float
    sent: float
    committed: float


COUNTS = (
    *("met", "attributes", "batches", "events", "matches", "deliveries", "over_quota", "aborted", "commits"),
    "partitions",
)


@dataclass
class Published:
    """Counts and latencies of the transactions that a task has committed."""

    met: int = 0  # events that could be read, and met subscriptions
    attributes: int = 0  # of all these, as far as subscriptions name them
    batches: int = 0  # the sum, over all these, of how many were matched at once
    events: int = 0  # that subscriptions match
    matches: int = 0
    deliveries: int = 0
    over_quota: int = 0  # whatever became of them
    aborted: int = 0  # attempts at transactions
    commits: int = 0  # transactions
    size_bytes: int = 0  # of the record batches
    encoded_s: float = 0.0  # the time that encoding took
    partitions: int = 0  # that a transaction has records for, at most
    dead_letters: Counter[str] = field(default_factory=Counter)  # by reason
    errors: Counter[str] = field(default_factory=Counter)  # passing ones, by name
    latencies: dict[str, Latencies] = field(default_factory=dict)  # by stage, of the events that subscriptions match
    transactions: list[CommitTimes] = field(default_factory=list)
    trace_contexts: list[Mapping[str, str]] = field(default_factory=list)  # of the first events
    executor: str = ""  # Spark's id of the task's executor

    def add(self, later: Published) -> None:
        """Add what the same task has committed later."""
        self.met += later.met
        self.attributes += later.attributes
        self.batches += later.batches
        self.events += later.events
        self.matches += later.matches
        self.deliveries += later.deliveries
        self.over_quota += later.over_quota
        self.aborted += later.aborted
        self.commits += later.commits
        self.size_bytes += later.size_bytes
        self.encoded_s += later.encoded_s
        self.partitions = max(self.partitions, later.partitions)
        self.dead_letters.update(later.dead_letters)
        self.errors.update(later.errors)
        for stage, latencies in later.latencies.items():
            self.latencies.setdefault(stage, Latencies()).update(latencies)
        self.transactions += later.transactions
        self.trace_contexts += later.trace_contexts
        self.executor = later.executor

    def counts(self) -> Published:
        """The counts alone that are known before a commit, to be added to."""
        counts = {name: getattr(self, name) for name in COUNTS}
        return Published(**counts, dead_letters=Counter(self.dead_letters), executor=self.executor)

    def to_json(self) -> bytes:
        return orjson.dumps(self, default=tuple, option=orjson.OPT_NON_STR_KEYS)  # a named tuple is not known to it

    @classmethod
    def from_json(cls, text: bytes) -> Published:
        facts = orjson.loads(text)
        latencies = {
            stage: Latencies({int(bucket): n for bucket, n in of["counts"].items()}, of["max_ms"], of["sum_ms"])
            for stage, of in facts.pop("latencies").items()
        }
        transactions = list(map(CommitTimes._make, facts.pop("transactions")))
        dead_letters, errors = Counter(facts.pop("dead_letters")), Counter(facts.pop("errors"))
        return cls(**facts, dead_letters=dead_letters, errors=errors, latencies=latencies, transactions=transactions)


class SlotReport(NamedTuple):
    """The producer that a task leaves to the next one of its slot, and topics without which it could not go on."""

    slot: int
    producer_id: int
    epoch: int
    missing: Sequence[str]


Row = (
    DeadLetter
    | AcceptedChange
    | RejectedChange
    | CompiledSegment
    | ReadProgress
    | LookedAt
    | MisreadTimes
    | DeliveryCounts
    | Published
    | CountedSubscribers
    | SlotReport
)


def of_source(positions: Mapping[SourcePartition, int], source: Source) -> dict[int, int]:
    """The offsets of one source by partition, ascending."""
    return {p: offset for (s, p), offset in sorted(positions.items()) if s == source}


def of_changes(positions: Mapping[SourcePartition, int]) -> dict[int, int]:
    """The offsets of all topics of subscriptions by partition of changes, ascending."""
    return {
        change_partition(source - SUBSCRIPTIONS, p): offset
        for (source, p), offset in sorted(positions.items())
        if not is_events(source)
    }


def is_events(source: Source) -> bool:
    """Whether a source is a topic of events."""
    return source < SUBSCRIPTIONS


def of_events(positions: Mapping[SourcePartition, int]) -> dict[SourcePartition, int]:
    """The offsets of all topics of events, ascending."""
    return {at: offset for at, offset in sorted(positions.items()) if is_events(at[0])}


def events_and_changes(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of events, and those of changes, if there are any."""
    are_events = np.asarray(rows["source"]) < SUBSCRIPTIONS
    if not are_events.any() or are_events.all():
        return iter((rows,) if len(rows) else ())
    return (rows.filter(pa.array(which)) for which in (are_events, ~are_events))


def topic_runs(rows: pa.RecordBatch) -> list[TopicRun]:
    """The runs of rows of one topic."""
    sources = np.asarray(rows["source"])
    begins = np.flatnonzero(np.diff(sources, prepend=-1))
    return list(map(TopicRun, sources[begins].tolist(), begins.tolist(), [*begins[1:].tolist(), len(rows)]))


def sorted_by_topic(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, those of each topic together and in their order."""
    sources = np.asarray(rows["source"])
    if (np.diff(sources) >= 0).all():
        return rows
    return rows.take(pa.array(np.argsort(sources, kind="stable")))


def unpacked(table: pa.Table) -> list[Row]:
    """The rows that workers packed, in order."""
    rows: list[Row] = []
    for packed in table["rows"]:
        for batch in pa.ipc.open_stream(packed.as_buffer()):
            rows += _read(batch)
    return rows


def consumer_records(rows: pa.RecordBatch) -> Iterator[ConsumerRecord]:
    """The records in rows that have the columns of INPUT."""
    columns = [rows[name].to_pylist() for name in ("partition", "offset", "timestamp", "key", "value")]
    return map(ConsumerRecord._make, zip(*columns, _headers(rows["headers"]), strict=True))


def _read(rows: pa.RecordBatch) -> list[Row]:
    """Read the rows kind by kind and column by column: a dictionary for each row would cost more than the object."""
    kinds = rows["kind"].to_pylist()
    there = set(kinds)
    if len(there) == 1:
        return list(_READERS[kinds[0]](rows))
    of_kind = {kind: _READERS[kind](rows.filter(pc.equal(rows["kind"], kind))) for kind in there}
    return [next(of_kind[kind]) for kind in kinds]


def _changes(rows: pa.RecordBatch) -> Iterator[Row]:
    ids, subscribers = _texts(rows["subscriptions"]), _texts(rows["subscribers"])
    for record, (id,), to, reason in zip(
        consumer_records(rows), ids, subscribers, rows["reason"].to_pylist(), strict=True
    ):
        yield AcceptedChange(record, id, next(iter(to), None), reason == PAUSED)


def _rejections(rows: pa.RecordBatch) -> Iterator[Row]:
    ids = (next(iter(known), None) for known in _texts(rows["subscriptions"]))
    return map(RejectedChange, consumer_records(rows), ids, rows["reason"].to_pylist())


def _segments(rows: pa.RecordBatch) -> Iterator[Row]:
    return map(CompiledSegment, rows["value"].to_pylist())


def _progress(rows: pa.RecordBatch) -> Iterator[Row]:
    names = ("source", "partition", "offset", "count", "bytes", "timestamp")
    return map(ReadProgress, *(rows[name].to_pylist() for name in names))


def _looked_at(rows: pa.RecordBatch) -> Iterator[Row]:
    return map(LookedAt, *(rows[name].to_pylist() for name in ("source", "partition", "offset", "count")))


def _misread_times(rows: pa.RecordBatch) -> Iterator[Row]:
    return (MisreadTimes() for _ in range(len(rows)))


def _delivery_counts(rows: pa.RecordBatch) -> Iterator[Row]:
    counts = (np.frombuffer(packed, np.int64) for packed in rows["counts"].to_pylist())
    places = (rows[name].to_pylist() for name in ("source", "partition", "timestamp"))
    return map(DeliveryCounts._make, zip(*places, _texts(rows["subscribers"]), counts, strict=True))


def _published(rows: pa.RecordBatch) -> Iterator[Row]:
    return map(Published.from_json, rows["value"].to_pylist())


def _counted_subscribers(rows: pa.RecordBatch) -> Iterator[Row]:
    return map(CountedSubscribers, rows["value"].to_pylist())


def _slots(rows: pa.RecordBatch) -> Iterator[Row]:
    return (SlotReport(**orjson.loads(facts)) for facts in rows["value"].to_pylist())


_READERS = {
    RowKind.CHANGE: _changes,
    RowKind.REJECTION: _rejections,
    RowKind.SEGMENT: _segments,
    RowKind.PROGRESS: _progress,
    RowKind.MISREAD: _misread_times,
    RowKind.DELIVERY_COUNTS: _delivery_counts,
    RowKind.PUBLISHED: _published,
    RowKind.SLOT: _slots,
    RowKind.LOOKED: _looked_at,
    RowKind.SUBSCRIBER_COUNTS: _counted_subscribers,
}


def _headers(column: pa.ListArray) -> Sequence[Sequence[tuple[str, bytes | None]]]:
    if column.null_count == len(column):
        return [()] * len(column)
    names, values = column.flatten().flatten()
    return _divided(column, list(zip(names.to_pylist(), values.to_pylist(), strict=True)))


def _texts(column: pa.ListArray) -> Sequence[Sequence[str]]:
    return _divided(column, column.flatten().to_pylist())


def _divided(column: pa.ListArray, items: list[Any]) -> Sequence[Sequence[Any]]:
    """The items of all lists, divided into lists again; a null is an empty one."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0))
    ends = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    return [items[begin:end] for begin, end in pairwise(ends)]
