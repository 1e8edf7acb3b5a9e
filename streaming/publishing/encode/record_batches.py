"""Encode deliveries as record batches of Kafka's format v2, without an object per delivery.

    batch    base offset 8 | length 4 | leader epoch 4 | magic 1 | CRC 4 | attributes 2 | last offset delta 4
             | base timestamp 8 | max timestamp 8 | producer id 8 | epoch 2 | base sequence 4 | records 4
             | records, which may be compressed
    record   length | attributes 1 | timestamp delta | offset delta | key length | key | value length | value
             | headers | each header: name length | name | value length | value

The CRC is over all that follows it. Lengths and deltas in a record are varints; a length of -1 is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from matchers.contract.tables import Int64
from matchers.index.texts import Texts
from matchers.kernels.jit import inlined, kernel
from streaming.documents import records
from streaming.documents.records import Record
from streaming.publishing.contract import ProducerEpoch, RecordBatches
from streaming.publishing.encode.columns import EventColumns, numbers
from streaming.publishing.encode.compression import CODECS
from streaming.publishing.encode.crc32c import crc32c
from streaming.publishing.encode.grouping import DeliveryColumns
from streaming.publishing.encode.headers import EventHeaders, header, varint
from streaming.publishing.encode.wire import copy, put_number, put_varint, varint_length

PIECE_BYTES = 16 << 20  # of records, encoded at once

_HEAD = 61  # bytes of a batch before its records
_MOST_OF_RECORD = 2 + 5 * 5  # bytes beside key, value and headers: attributes, time, and varints of 32 bits
_TRANSACTIONAL = 16  # attribute
_LAST_SEQUENCE = (1 << 31) - 1  # 0 follows

_IDS_OVERHEAD = records.IDS_OVERHEAD
_IDS_NAME = np.frombuffer(varint(len(records.IDS)) + records.IDS.encode(), np.uint8)


class Keys(NamedTuple):
    """The keys of D deliveries; there are K."""

    text: Any  # uint8: key k is text[start[k] : start[k + 1]]
    start: Any  # [K + 1] int64
    null: Any  # [K] bool; [0] if none is
    of: Any  # [D] int64: the key that a delivery has


def events_keys(events: EventColumns, deliveries: DeliveryColumns) -> Keys:
    """Each delivery has the key of its event."""
    return Keys(events.key, events.key_start, events.key_null, deliveries.event)


def subscribers_keys(names: Texts, deliveries: DeliveryColumns) -> Keys:
    """Each delivery has the name of its subscriber as its key."""
    null = np.zeros(0, np.bool_)
    null.flags.writeable = False
    return Keys(names.text, names.start, null, deliveries.subscriber)


class Column(NamedTuple):
    """The keys, values or headers of N single records, concatenated."""

    text: Any  # uint8
    length: Any  # [N] int64; -1 if it is null


@dataclass(frozen=True, eq=False)
class Format:
    """The parts that all batches of a transaction share."""

    producer: ProducerEpoch
    sequence: Int64  # [destinations]: that of the next record; encoding moves it on
    batch_bytes: Int64  # [destinations]: the most of a batch, without compression; a single record may have more
    timestamp_ms: int  # of all records: now
    compression: str = "lz4"  # of CODECS; a batch that it would make larger stays as it is


def sizes(events: EventColumns, headers: EventHeaders, deliveries: DeliveryColumns, keys: Keys) -> Int64:
    """[D]: the bytes of each delivery, as the limit on deliveries counts them."""
    out: Int64 = _sizes(events, headers, deliveries, keys)
    return out


def encode(
    events: EventColumns,
    headers: EventHeaders,
    deliveries: DeliveryColumns,
    keys: Keys,
    destination: Int64,
    chosen: Int64,
    form: Format,
) -> RecordBatches:
    """The chosen deliveries (positions, ascending), each with the destination of destination[D]. Those of a destination
    stay in their order."""
    destination = numbers(destination)
    order = _by_destination(destination, numbers(chosen), len(form.sequence))
    length, opens, size = _plan(events, headers, deliveries, keys, destination, order, form.batch_bytes)
    first = np.flatnonzero(opens)
    data = np.empty(size, np.uint8)
    begin = np.empty(len(first) + 1, np.int64)
    _write(events, headers, deliveries, keys, order, length, opens, data, begin)
    counts = np.diff(first, append=len(order))
    return _sealed(RecordBatches(data, begin[:-1], begin[1:], destination[order[first]], counts), form)


def in_pieces(chosen: Int64, size: Int64) -> list[Int64]:
    """Split the chosen deliveries into runs of some megabytes: an event can have a million. `size` is [D]."""
    piece = np.cumsum(size[chosen]) // PIECE_BYTES
    return np.split(chosen, np.flatnonzero(np.diff(piece)) + 1) if len(chosen) else []


def of_records(of: Sequence[Record], destination: Sequence[int], form: Format) -> RecordBatches:
    """Record batches of single records, such as statuses and dead letters; `destination` has that of each. Those of a
    destination stay in their order."""
    to = np.array(destination, np.int64)
    order = np.argsort(to, kind="stable")
    to = numbers(to[order])
    ordered = [of[i] for i in order.tolist()]
    keys = _column([record.key for record in ordered])
    values = _column([record.value for record in ordered])
    headers = _column([_headers(record.headers) if record.headers else b"" for record in ordered])
    n_headers = numbers(np.array([len(record.headers) for record in ordered], np.int64))
    n = len(ordered)
    parts = len(keys.text), len(values.text), len(headers.text)
    data = np.empty(sum(parts) + n * (_HEAD + _MOST_OF_RECORD), np.uint8)
    begin, first = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    b = _write_records(keys, values, headers, n_headers, to, form.batch_bytes, data, begin, first)
    batches = RecordBatches(data[: begin[b]], begin[:b], begin[1 : b + 1], to[first[:b]], np.diff(first[: b + 1]))
    return _sealed(batches, form)


def of_records_in_pieces(of: Iterable[tuple[Record, int]], form: Format) -> Iterator[RecordBatches]:
    """Yield `of_records` of records with their destinations, some megabytes at a time: a single record may have ten."""
    some: list[Record] = []
    to: list[int] = []
    size = 0
    for record, destination in of:
        some.append(record)
        to.append(destination)
        size += record.size()
        if size >= PIECE_BYTES:
            yield of_records(some, to, form)
            some, to, size = [], [], 0
    if some:
        yield of_records(some, to, form)


def _headers(headers: records.Headers) -> bytes:
    return b"".join(header(name, value) for name, value in headers)


def _column(texts: Sequence[bytes | None]) -> Column:
    length = np.array([-1 if text is None else len(text) for text in texts], np.int64)
    text = np.frombuffer(b"".join(text for text in texts if text), np.uint8)
    return Column(text, numbers(length))


def _sealed(batches: RecordBatches, form: Format) -> RecordBatches:
    """Compress the batches and fill in their heads."""
    batches, codec = _compressed(batches, form.compression)
    first = np.empty(len(batches.begin), np.int64)
    _number(batches.destination, batches.records, form.sequence, first)
    producer, epoch = form.producer
    _seal(batches, codec, first, producer, epoch, form.timestamp_ms)
    return batches


def _compressed(batches: RecordBatches, name: str) -> tuple[RecordBatches, Int64]:
    """The batches with compressed records, and the codec of each."""
    number, compress = CODECS[name]
    codec = np.zeros(len(batches.begin), np.int64)
    if compress is None:
        return batches, codec
    head = bytes(_HEAD)
    parts: list[Any] = []
    for b, (begin, end) in enumerate(zip(batches.begin.tolist(), batches.end.tolist(), strict=True)):
        plain = batches.data[begin + _HEAD : end]
        packed = compress(plain)
        if len(packed) < len(plain):
            codec[b] = number
            parts += (head, packed)
        else:
            parts += (head, plain)
    data = np.frombuffer(bytearray().join(parts), np.uint8)
    end = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))[1::2].copy()  # or kernels were compiled again
    begin = np.concatenate([[0], end[:-1]]) if len(end) else end
    return batches._replace(data=data, begin=begin, end=end), codec


@kernel
def _sizes(events: EventColumns, headers: EventHeaders, deliveries: DeliveryColumns, keys: Keys) -> Any:
    event, ids_start = deliveries.event, deliveries.ids_start
    value_start, value_null, shared = events.value_start, events.value_null, headers.size
    _, key_start, key_null, key_of = keys
    out = np.empty(event.shape[0], np.int64)
    for d in range(event.shape[0]):
        out[d] = _IDS_OVERHEAD + shared[event[d]] + (ids_start[d + 1] - ids_start[d])
        out[d] += max(_length(event[d], value_start, value_null), 0) + max(_length(key_of[d], key_start, key_null), 0)
    return out


@inlined
def _length(i: int, start: Any, null: Any) -> int:
    """The length of text i; -1 if it is null."""
    return -1 if null.shape[0] and null[i] else start[i + 1] - start[i]


@kernel
def _by_destination(destination: Any, chosen: Any, n: int) -> Any:
    """The chosen deliveries, ascending by destination; those of one in their order."""
    begin = np.zeros(n + 1, np.int64)
    for i in range(chosen.shape[0]):
        begin[destination[chosen[i]] + 1] += 1
    for k in range(n):
        begin[k + 1] += begin[k]
    order = np.empty(chosen.shape[0], np.int64)
    for i in range(chosen.shape[0]):
        place = destination[chosen[i]]
        order[begin[place]] = chosen[i]
        begin[place] += 1
    return order


@kernel
def _plan(
    events: EventColumns,
    headers: EventHeaders,
    deliveries: DeliveryColumns,
    keys: Keys,
    destination: Any,
    order: Any,
    batch_bytes: Any,
) -> tuple[Any, Any, int]:
    """The length of each record without itself, whether a batch begins with it, and the bytes of all batches."""
    event, ids_start = deliveries.event, deliveries.ids_start
    value_start, value_null = events.value_start, events.value_null
    shared_begin, shared_end, shared_count = headers.begin, headers.end, headers.count
    _, key_start, key_null, key_of = keys
    length = np.empty(order.shape[0], np.int64)
    opens = np.zeros(order.shape[0], np.bool_)
    size = 0
    of_batch = 0
    delta = 0
    for j in range(order.shape[0]):
        d = order[j]
        e = event[d]
        n_key, n_value = _length(key_of[d], key_start, key_null), _length(e, value_start, value_null)
        n_ids = ids_start[d + 1] - ids_start[d]
        body = (
            2
            + (varint_length(n_key) + max(n_key, 0))
            + (varint_length(n_value) + max(n_value, 0))
            + (varint_length(shared_count[e] + 1) + shared_end[e] - shared_begin[e])
            + (_IDS_NAME.shape[0] + varint_length(n_ids) + n_ids)
        )
        whole = body + varint_length(delta)
        whole += varint_length(whole)
        if j == 0 or destination[d] != destination[order[j - 1]] or of_batch + whole > batch_bytes[destination[d]]:
            opens[j] = True
            delta = 0
            whole = body + 1
            whole += varint_length(whole)
            of_batch = _HEAD
            size += _HEAD
        length[j] = body + varint_length(delta)
        of_batch += whole
        size += whole
        delta += 1
    return length, opens, size


@kernel
def _write(
    events: EventColumns,
    headers: EventHeaders,
    deliveries: DeliveryColumns,
    keys: Keys,
    order: Any,
    length: Any,
    opens: Any,
    out: Any,
    begin: Any,
) -> None:
    """Write the records, with room for the heads of their batches. `begin` gets where each batch begins, and the end
    of the last."""
    event, _, ids, ids_start = deliveries
    value, value_start, value_null = events.value, events.value_start, events.value_null
    shared, shared_begin, shared_end, shared_count, _ = headers
    key, key_start, key_null, key_of = keys
    at = 0
    b = 0
    delta = 0
    for j in range(order.shape[0]):
        if opens[j]:
            begin[b] = at
            b += 1
            at += _HEAD
            delta = 0
        d = order[j]
        e = event[d]
        k = key_of[d]
        at = put_varint(out, at, length[j])
        out[at] = 0
        out[at + 1] = 0
        at = put_varint(out, at + 2, delta)
        n = _length(k, key_start, key_null)
        at = put_varint(out, at, n)
        if n > 0:
            at = copy(out, at, key, key_start[k], key_start[k + 1])
        n = _length(e, value_start, value_null)
        at = put_varint(out, at, n)
        if n > 0:
            at = copy(out, at, value, value_start[e], value_start[e + 1])
        at = put_varint(out, at, shared_count[e] + 1)
        at = copy(out, at, shared, shared_begin[e], shared_end[e])
        at = copy(out, at, _IDS_NAME, 0, _IDS_NAME.shape[0])
        at = put_varint(out, at, ids_start[d + 1] - ids_start[d])
        at = copy(out, at, ids, ids_start[d], ids_start[d + 1])
        delta += 1
    begin[b] = at


@kernel
def _write_records(
    keys: Column,
    values: Column,
    headers: Column,
    n_headers: Any,
    destination: Any,
    batch_bytes: Any,
    out: Any,
    begin: Any,
    first: Any,
) -> int:
    """Write records, ascending by destination, with room for the heads of their batches; returns how many batches.
    `begin` gets where each batch begins, `first` its first record, and both the end of the last."""
    n = destination.shape[0]
    at_key = at_value = at_header = 0
    at = 0
    b = 0
    delta = 0
    for i in range(n):
        n_key, n_value, n_header = keys.length[i], values.length[i], headers.length[i]
        body = 2 + varint_length(n_key) + max(n_key, 0) + varint_length(n_value) + max(n_value, 0)
        body += varint_length(n_headers[i]) + n_header
        whole = body + varint_length(delta)
        whole += varint_length(whole)
        to = destination[i]
        if i == 0 or to != destination[i - 1] or at - begin[b - 1] + whole > batch_bytes[to]:
            begin[b] = at
            first[b] = i
            b += 1
            at += _HEAD
            delta = 0
        at = put_varint(out, at, body + varint_length(delta))
        out[at] = 0
        out[at + 1] = 0
        at = put_varint(out, at + 2, delta)
        at = put_varint(out, at, n_key)
        if n_key > 0:
            at = copy(out, at, keys.text, at_key, at_key + n_key)
            at_key += n_key
        at = put_varint(out, at, n_value)
        if n_value > 0:
            at = copy(out, at, values.text, at_value, at_value + n_value)
            at_value += n_value
        at = put_varint(out, at, n_headers[i])
        at = copy(out, at, headers.text, at_header, at_header + n_header)
        at_header += n_header
        delta += 1
    begin[b] = at
    first[b] = n
    return b


@kernel
def _number(destination: Any, n_records: Any, sequence: Any, first: Any) -> None:
    """The sequence number of the first record of each batch; `sequence` moves on."""
    for b in range(destination.shape[0]):
        first[b] = sequence[destination[b]]
        sequence[destination[b]] = (first[b] + n_records[b]) & _LAST_SEQUENCE


@kernel
def _seal(batches: RecordBatches, codec: Any, first: Any, producer: int, epoch: int, timestamp_ms: int) -> None:
    """Write the heads of batches whose records stand behind them."""
    data, begin, end, _, n_records = batches
    for b in range(begin.shape[0]):
        at = put_number(data, begin[b], 8, 0)
        at = put_number(data, at, 4, end[b] - begin[b] - 12)
        at = put_number(data, at, 4, -1)
        data[at] = 2
        of_crc = at + 1
        begin_crc = of_crc + 4
        at = put_number(data, begin_crc, 2, _TRANSACTIONAL | codec[b])
        at = put_number(data, at, 4, n_records[b] - 1)
        at = put_number(data, at, 8, timestamp_ms)
        at = put_number(data, at, 8, timestamp_ms)
        at = put_number(data, at, 8, producer)
        at = put_number(data, at, 2, epoch)
        at = put_number(data, at, 4, first[b])
        put_number(data, at, 4, n_records[b])
        put_number(data, of_crc, 4, crc32c(data, begin_crc, end[b]))
