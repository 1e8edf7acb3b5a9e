"""Deliveries that are encoded as record batches are those of the definition, as kafka-python reads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords, default_records
from kafka.record.default_records import DefaultRecordBatch

from matchers.index.texts import Texts
from streaming.documents import records
from streaming.documents.records import Headers, Origin, Record
from streaming.publishing.contract import ProducerEpoch, RecordBatches
from streaming.publishing.delivery import DeliveryRule
from streaming.publishing.encode.columns import EventColumns, event_columns
from streaming.publishing.encode.compression import CODECS
from streaming.publishing.encode.grouping import DeliveryColumns, group
from streaming.publishing.encode.headers import EventHeaders, event_headers
from streaming.publishing.encode.record_batches import Format, encode, events_keys, of_records, sizes, subscribers_keys
from streaming.rows import INPUT, ConsumerRecord

pytestmark = pytest.mark.kernels

MADE = ("ce_specversion", "ce_id", "ce_source", "ce_type", "ce_time")
LAST_MS = 253_402_300_799_999  # of the year 9999
FIRST_MS = -62_135_596_800_000  # of the year 1
PRODUCER = ProducerEpoch(2**40 + 5, 7)
NOW_MS = 1_790_000_000_123

header_names = st.sampled_from([*MADE, *records.OURS, "", "c", "ce_", "ce_idx", "s", "名前", "é"]) | st.text(max_size=3)
values = st.none() | st.binary(max_size=6) | st.sampled_from([b"\0" * 70, b"[" * 9000])
headers = st.lists(st.tuples(header_names, values), max_size=4)
timestamps = st.sampled_from(
    [-1, 0, -2, -1000, -1001, FIRST_MS, FIRST_MS - 1, LAST_MS, LAST_MS + 1, 951_827_696_789, 2**62, -(2**62)]
) | st.integers(FIRST_MS, LAST_MS)
offsets = st.sampled_from([0, 9, 10, 2**62]) | st.integers(0, 2**40)
events = st.builds(ConsumerRecord, st.integers(0, 2**31 - 1), offsets, timestamps, values, values, headers)
event_lists = st.lists(events, max_size=4)
ids = st.text(max_size=3) | st.sampled_from(
    ["a", "ab", "", '"', "\\", "\x00\x1f\b\t\n\f\r\x0b\x7f", "é", "漢", "\U0010ffff", "sameness1", "sameness12"]
)


@pytest.fixture(autouse=True, scope="module")
def _zstd() -> Iterator[None]:
    """kafka-python reads zstd by a package that nothing else here needs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default_records.codecs, "has_zstd", lambda: True)
        patch.setattr(
            default_records, "zstd_decode", lambda data: pa.input_stream(pa.py_buffer(data), compression="zstd").read()
        )
        yield


class HeaderContext(NamedTuple):
    """The parts that the headers of all events share."""

    topic: str
    version: int | None
    replay: str | None
    false_positives: float

    def headers(self, event: ConsumerRecord) -> Headers:
        origin = Origin(self.topic, event.partition, event.offset, event.timestamp_ms)
        return records.event_headers(event.headers, origin, *self[1:])


versions = st.tuples(st.integers(0, 2**60), st.none())
replays = st.tuples(st.none(), st.none() | st.text(max_size=3))
contexts = st.builds(
    lambda topic, match, share: HeaderContext(topic, match[0], match[1], share),
    st.sampled_from(["events", "t", "x" * 249]),
    versions | replays,
    st.sampled_from([0.0, 0.01, 1e-9]),
)


class Match(NamedTuple):
    event: int
    subscriber: str
    id: str


@st.composite
def matched(draw: st.DrawFn) -> tuple[list[ConsumerRecord], list[Match]]:
    some = draw(event_lists)
    match = st.builds(Match, st.integers(0, max(len(some) - 1, 0)), st.sampled_from(["a", "b", "", "c" * 100]), ids)
    return some, draw(st.lists(match, max_size=30)) if some else []


def rows_of(events: Sequence[ConsumerRecord], *, lists: bool = True) -> pa.RecordBatch:
    """The events as Spark hands them over; `lists` says whether no headers are an empty list, not null."""
    columns = ("partition", "offset", "timestamp", "key", "value")
    rows: list[dict[str, Any]] = [
        dict(zip(columns, event[:5], strict=True))
        | {"source": 0, "headers": list(event.headers) if event.headers or lists else None}
        for event in events
    ]
    return pa.RecordBatch.from_pylist(rows, schema=INPUT)


def headers_at(of: EventHeaders, e: int) -> bytes:
    return bytes(of.data[of.begin[e] : of.end[e]])


def decoded(data: bytes) -> list[Any]:
    """Record batches as kafka-python reads them; a batch is a list of (key, value, headers)."""
    batches = []
    read = MemoryRecords(data)
    while (batch := read.next_batch()) is not None:
        assert isinstance(batch, DefaultRecordBatch)
        assert batch.validate_crc()
        batches.append(batch)
    return batches


def contents(batch: Any) -> list[tuple[bytes | None, bytes | None, Headers]]:
    return [(record.key, record.value, record.headers) for record in batch]


def deliveries_of(matches: Sequence[Match], events: Sequence[ConsumerRecord]) -> tuple[DeliveryColumns, Texts]:
    names = sorted({match.subscriber for match in matches})
    event = np.array([match.event for match in matches], np.int32)
    subscriber = np.array([names.index(match.subscriber) for match in matches], np.int64)
    return group(event, subscriber, Texts.of(match.id for match in matches), len(events)), Texts.of(names)


def by_definition(matches: Sequence[Match]) -> dict[tuple[int, str], bytes]:
    """(event, subscriber) to a JSON list of ids, ascending by event."""
    grouped = defaultdict(list)
    for match in sorted(matches, key=lambda match: match.event):
        grouped[match.event, match.subscriber].append(match.id)
    return {delivery: orjson.dumps(sorted(of)) for delivery, of in grouped.items()}


@given(matched())
def test_matches_are_grouped_to_deliveries(drawn: tuple[list[ConsumerRecord], list[Match]]) -> None:
    events, matches = drawn
    deliveries, names = deliveries_of(matches, events)
    expected = by_definition(matches)
    places = [(e, names[s]) for e, s in zip(deliveries.event.tolist(), deliveries.subscriber.tolist(), strict=True)]
    assert places == list(expected)
    lists = Texts(deliveries.ids, deliveries.ids_start)
    assert [text.encode() for text in lists] == list(expected.values())


@given(event_lists, contexts, st.integers(0, 3), st.booleans(), st.data())
def test_headers_of_an_event_are_those_of_the_definition(
    events: list[ConsumerRecord], context: HeaderContext, skipped: int, lists: bool, data: st.DataObject
) -> None:
    columns = event_columns(rows_of(events, lists=lists).slice(skipped))
    kept = events[skipped:]
    chosen = data.draw(st.lists(st.sampled_from(range(len(kept))), unique=True) if kept else st.just([]))
    made = event_headers(columns, np.sort(np.repeat(np.array(chosen, np.int64), 2)), *context)
    for e, event in enumerate(kept):
        expected = context.headers(event) if e in chosen else []
        alone = of_records([Record("", None, None, expected)], [0], form())
        assert made.count[e] == len(expected)
        assert made.size[e] == records.size_of(expected)
        assert alone.data.tobytes().endswith(headers_at(made, e))
        assert contents(decoded(alone.data.tobytes())[0]) == [(None, None, expected)]


def form(batch_bytes: Sequence[int] = (1_000_000,), compression: str = "none") -> Format:
    """Return a format that has a destination for each limit."""
    most = np.array(batch_bytes, np.int64)
    return Format(PRODUCER, np.zeros_like(most), most, NOW_MS, compression)


@given(
    matched(),
    contexts,
    st.booleans(),
    st.sampled_from(sorted(CODECS)),
    st.tuples(*[st.sampled_from([1, 300, 1000, 1_000_000])] * 3),
    st.data(),
)
def test_kafka_python_reads_what_was_encoded(
    drawn: tuple[list[ConsumerRecord], list[Match]],
    context: HeaderContext,
    by_subscriber: bool,
    compression: str,
    most: tuple[int, int, int],
    data: st.DataObject,
) -> None:
    events, matches = drawn
    columns: EventColumns = event_columns(rows_of(events))
    deliveries, names = deliveries_of(matches, events)
    n = len(deliveries.event)
    shared = event_headers(columns, deliveries.event, *context)
    rule = DeliveryRule(shared="all" if by_subscriber else "")
    keys = rule.key(subscribers_keys(names, deliveries), events_keys(columns, deliveries))
    destination = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), np.int64)
    chosen = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))

    expected: dict[int, list[Any]] = defaultdict(list)
    expected_sizes = []
    for d, ((e, subscriber), listed) in enumerate(by_definition(matches).items()):
        record = rule.record(subscriber, events[e].key, events[e].value, context.headers(events[e]), listed.decode(), 0)
        expected_sizes.append(record.size())
        if d in chosen:
            expected[int(destination[d])].append(record[1:4])
    assert sizes(columns, shared, deliveries, keys).tolist() == expected_sizes

    shape = form(most, compression)
    shape.sequence[:] = [2**31 - 2, 5, 0]
    first = shape.sequence.copy()
    batches = encode(columns, shared, deliveries, keys, destination, chosen, shape)
    check(batches, expected, first, shape)


def check(batches: RecordBatches, expected: dict[int, list[Any]], sequence: Any, form: Format) -> None:
    assert batches.destination.tolist() == sorted(batches.destination.tolist())
    found: dict[int, list[Any]] = defaultdict(list)
    for begin, end, place, n in zip(*(column.tolist() for column in batches[1:]), strict=True):
        (batch,) = decoded(batches.data[begin:end].tobytes())
        assert (batch.base_offset, batch.leader_epoch, batch.magic) == (0, -1, 2)
        assert batch.is_transactional
        assert not batch.is_control_batch
        assert batch.timestamp_type == batch.CREATE_TIME
        assert (batch.first_timestamp, batch.max_timestamp) == (NOW_MS, NOW_MS)
        assert (batch.producer_id, batch.producer_epoch) == PRODUCER
        assert batch.base_sequence == sequence[place]
        assert (batch.records_count, batch.last_offset_delta) == (n, n - 1)
        sequence[place] = (sequence[place] + n) % 2**31
        assert n == 1 or end - begin <= form.batch_bytes[place]
        read = list(batch)
        assert [(record.offset, record.timestamp) for record in read] == [(i, NOW_MS) for i in range(n)]
        found[place] += [(record.key, record.value, record.headers) for record in read]
    assert found == expected
    assert form.sequence.tolist() == sequence.tolist()


letters = st.builds(
    Record, st.just("dead"), values, values, st.lists(st.tuples(st.text(max_size=3), values), max_size=3)
)


@given(
    st.lists(st.tuples(letters, st.integers(0, 2)), max_size=6),
    st.sampled_from(sorted(CODECS)),
    st.tuples(*[st.sampled_from([1, 150, 1_000_000])] * 3),
)
def test_kafka_python_reads_records_that_were_encoded_one_by_one(
    drawn: list[tuple[Record, int]], compression: str, most: tuple[int, int, int]
) -> None:
    expected: dict[int, list[Any]] = defaultdict(list)
    for record, place in drawn:
        expected[place].append(record[1:4])
    shape = form(most, compression)
    batches = of_records([record for record, _ in drawn], [place for _, place in drawn], shape)
    check(batches, expected, np.zeros(3, np.int64), shape)
