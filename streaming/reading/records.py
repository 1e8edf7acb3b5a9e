"""Write the records of batches into columns, in two passes: measure and check all, then copy.

    record   length | attributes 1 | timestamp delta | offset delta | key length | key | value length | value
             | headers | each header: name length | name | value length | value

Lengths and deltas are varints; a negative length is null.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from matchers.kernels.jit import inner, kernel
from streaming.publishing.encode.wire import copy
from streaming.reading.batches import APPEND_TIME, ATTRIBUTES, BASE, BEGIN, END, LAST, MAX_TIME, RECORDS, TIME
from streaming.reading.numbers import varint

LEAST_BYTES = 7  # of a record: each of its fields has one
KEYS, VALUES, HEADERS, NAMES, CONTENTS, AFTER = range(6)  # of Rows.totals


class Rows(NamedTuple):
    """Room for N records, of which the first have been measured. The parts of a record begin at positions in the data
    in which it was measured."""

    source: Any  # [N] int32
    partition: Any  # [N] int32
    offset: Any  # [N] int64
    timestamp: Any  # [N] int64, ms since the epoch
    key_at: Any  # [N] int64
    key_start: Any  # [N + 1] int32: key i gets key_start[i] .. key_start[i + 1] of the text of all keys
    key_null: Any  # [N] bool
    value_at: Any  # [N] int64
    value_start: Any  # [N + 1] int32
    value_null: Any  # [N] bool
    headers_at: Any  # [N] int64
    header_start: Any  # [N + 1] int32: record i has headers header_start[i] .. header_start[i + 1]
    totals: Any  # [6] int64: bytes of keys and values, headers, bytes of their names and values, offset after the last


class RecordBytes(NamedTuple):
    """The bytes of measured records, which have H headers."""

    key: Any  # uint8
    value: Any  # uint8
    name: Any  # uint8
    name_start: Any  # [H + 1] int32
    content: Any  # uint8: the values of the headers
    content_start: Any  # [H + 1] int32
    content_null: Any  # [H] bool


class Limits(NamedTuple):
    """The partition of records, and the requested offsets."""

    source: int
    partition: int
    begin: int
    end: int
    after: int  # records before it were measured; a batch may come in several pieces


@kernel
def measure(data: Any, batches: Any, limits: Limits, rows: Rows, n: int) -> tuple[int, int]:
    """Measure the records of batches, as rows from n on; return the number of rows and of measured batches.

    It ends at a batch whose lengths, offsets or number of records contradict each other; none of its records stays.
    """
    rows.totals[AFTER] = limits.after
    for b in range(batches.shape[0]):
        n_before = n
        n = _measure_batch(data, batches, b, limits, rows, n)
        if n < 0:
            return n_before, b
    return n, batches.shape[0]


@inner
def _measure_batch(data: Any, batches: Any, b: int, limits: Limits, rows: Rows, n: int) -> int:
    """Return the number of rows including those of a batch; -1 if the batch is wrong."""
    offsets, timestamps = rows.offset, rows.timestamp
    key_at, key_start, key_null = rows.key_at, rows.key_start, rows.key_null
    value_at, value_start, value_null = rows.value_at, rows.value_start, rows.value_null
    headers_at, header_start, totals = rows.headers_at, rows.header_start, rows.totals
    sources, partitions = rows.source, rows.partition
    keys, values, headers = totals[KEYS], totals[VALUES], totals[HEADERS]
    names, contents = totals[NAMES], totals[CONTENTS]
    at, end, base, last = batches[b, BEGIN], batches[b, END], batches[b, BASE], batches[b, LAST]
    time, max_time = batches[b, TIME], batches[b, MAX_TIME]
    of_broker = batches[b, ATTRIBUTES] & APPEND_TIME != 0
    previous = max(base, totals[AFTER]) - 1
    for _ in range(batches[b, RECORDS]):
        length, at = varint(data, at, end)
        if length < 0 or length > end - at:
            return -1
        stop = at + length
        later, at = varint(data, at + 1, stop)
        delta, at = varint(data, at, stop)
        if not 0 <= delta <= last - base or base + delta <= previous:
            return -1
        offset = base + delta
        previous = offset
        n_key, at = varint(data, at, stop)
        if n_key > stop - at:
            return -1
        at_key = at
        at += max(n_key, 0)
        n_value, at = varint(data, at, stop)
        if n_value > stop - at:
            return -1
        at_value = at
        at += max(n_value, 0)
        count, at = varint(data, at, stop)
        if count < 0 or count > stop - at:
            return -1
        at_headers, n_names, n_contents = at, 0, 0
        for _ in range(count):
            length, at = varint(data, at, stop)
            if length < 0 or length > stop - at:
                return -1
            n_names += length
            at += length
            length, at = varint(data, at, stop)
            if length > stop - at:
                return -1
            n_contents += max(length, 0)
            at += max(length, 0)
        if at != stop:
            return -1
        if offset < limits.begin or offset >= limits.end:
            continue
        sources[n], partitions[n] = limits.source, limits.partition
        offsets[n] = offset
        timestamps[n] = max_time if of_broker else time + later
        key_at[n], key_null[n] = at_key, n_key < 0
        value_at[n], value_null[n] = at_value, n_value < 0
        headers_at[n] = at_headers
        keys += max(n_key, 0)
        values += max(n_value, 0)
        headers += count
        names += n_names
        contents += n_contents
        n += 1
        key_start[n], value_start[n], header_start[n] = keys, values, headers
    if at != end:
        return -1
    totals[KEYS], totals[VALUES], totals[HEADERS] = keys, values, headers
    totals[NAMES], totals[CONTENTS] = names, contents
    totals[AFTER] = previous + 1
    return n


@kernel
def fill(data: Any, rows: Rows, begin: int, end: int, texts: RecordBytes) -> None:
    """Copy the bytes of the rows begin .. end, which were measured in this data. Rows are filled in order."""
    key, value, name, content = texts.key, texts.value, texts.name, texts.content
    name_start, content_start, content_null = texts.name_start, texts.content_start, texts.content_null
    key_at, key_start, value_at, value_start = rows.key_at, rows.key_start, rows.value_at, rows.value_start
    headers_at, header_start = rows.headers_at, rows.header_start
    for i in range(begin, end):
        copy(key, key_start[i], data, key_at[i], key_at[i] + (key_start[i + 1] - key_start[i]))
        copy(value, value_start[i], data, value_at[i], value_at[i] + (value_start[i + 1] - value_start[i]))
        at = headers_at[i]
        for h in range(header_start[i], header_start[i + 1]):
            length, at = varint(data, at, data.shape[0])
            name_start[h + 1] = copy(name, name_start[h], data, at, at + length)
            length, at = varint(data, at + length, data.shape[0])
            content_null[h] = length < 0
            length = max(length, 0)
            content_start[h + 1] = copy(content, content_start[h], data, at, at + length)
            at += length


@kernel
def whole_records(data: Any, most: int) -> tuple[int, int]:
    """Count the whole records at the beginning of the data, at most `most`, and return where they end.

    The end is -1 if a length makes no sense.
    """
    n, at = 0, 0
    while n < most:
        length, after = varint(data, at, data.shape[0])
        if after > data.shape[0]:
            return n, at if data.shape[0] - at < 10 else -1
        if length < 0:
            return n, -1
        if length > data.shape[0] - after:
            break
        at = after + length
        n += 1
    return n, at
