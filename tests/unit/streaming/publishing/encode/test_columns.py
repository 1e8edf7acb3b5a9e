"""The columns of events are those of the Arrow rows, whatever their buffers hold beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streaming.publishing.encode.columns import EventColumns, event_columns
from streaming.rows import HEADERS, INPUT, consumer_records

HEADER_LISTS: dict[str, list[Any]] = {
    "all null": [None] * 4,
    "all empty": [[]] * 4,
    "some": [[("a", b"1"), ("a", None)], None, [("", b"")], [("é", b"\xff"), ("b", b"22")]],
    "none null": [[("a", b"1")], [("b", b"2")], [], [("c", b"3")]],
}
KEYS: dict[str, list[bytes | None]] = {
    "keys": [b"k", b"", b"key", b"\0"],
    "some null": [None, b"a", None, b""],
    "all null": [None] * 4,
}


def rows(headers: list[Any], keys: list[bytes | None]) -> pa.RecordBatch:
    made = [
        {
            "source": 0,
            "partition": i,
            "offset": 2**40 + i,
            "timestamp": i - 2,
            "key": key,
            "value": key,
            "headers": some,
        }
        for i, (key, some) in enumerate(zip(keys, headers, strict=True))
    ]
    return pa.RecordBatch.from_pylist(made, schema=INPUT)


def items(text: Any, start: Any, null: Any) -> list[bytes | None]:
    return [None if len(null) and null[i] else text[start[i] : start[i + 1]].tobytes() for i in range(len(start) - 1)]


def as_rows(events: EventColumns) -> list[Any]:
    names = [str(name or b"", "utf-8") for name in items(events.name, events.name_start, np.zeros(0, np.bool_))]
    contents = items(events.content, events.content_start, events.content_null)
    headers = [
        []
        if len(events.headers_null) and events.headers_null[e]
        else [(names[h], contents[h]) for h in range(events.header_start[e], events.header_start[e + 1])]
        for e in range(len(events.offset))
    ]
    keys = items(events.key, events.key_start, events.key_null)
    values = items(events.value, events.value_start, events.value_null)
    numbers = (events.partition.tolist(), events.offset.tolist(), events.timestamp.tolist())
    return list(zip(*numbers, keys, values, headers, strict=True))


def expected(batch: pa.RecordBatch) -> list[Any]:
    return [(*record[:5], list(record.headers)) for record in consumer_records(batch)]


@pytest.mark.parametrize("headers", HEADER_LISTS)
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("begin", range(5))
@pytest.mark.parametrize("length", [0, 1, 4])
def test_columns_of_rows_and_of_slices_of_rows(headers: str, keys: str, begin: int, length: int) -> None:
    batch = rows(HEADER_LISTS[headers], KEYS[keys]).slice(begin, length)
    assert as_rows(event_columns(batch)) == expected(batch)


def test_rows_that_came_as_a_stream() -> None:
    whole = rows(HEADER_LISTS["some"], KEYS["some null"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, INPUT) as stream:
        stream.write_batch(whole.slice(1, 2))
    (batch,) = pa.ipc.open_stream(sink.getvalue())
    assert as_rows(event_columns(batch)) == expected(whole.slice(1, 2))


def test_a_null_may_own_bytes_and_headers() -> None:
    structs = pa.array([{"key": "a", "value": b"1"}, {"key": "b", "value": b"2"}], HEADERS.value_type)
    offsets = pa.array([0, 1, 2], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, structs, type=HEADERS, mask=pa.array([True, False]))
    bits = pa.py_buffer(b"\x02")
    keys = pa.Array.from_buffers(pa.binary(), 2, [bits, offsets.buffers()[1], pa.py_buffer(b"xy")])
    numbers = [pa.array([1, 2], INPUT.field(name).type) for name in INPUT.names[:4]]
    batch = pa.RecordBatch.from_arrays([*numbers, keys, keys, lists], schema=INPUT)
    assert as_rows(event_columns(batch)) == [(1, 1, 1, None, None, []), (2, 2, 2, b"y", b"y", [("b", b"2")])]


def test_bytes_are_not_copied() -> None:
    batch = rows(HEADER_LISTS["some"], KEYS["keys"])
    assert event_columns(batch).value.ctypes.data == batch["value"].buffers()[2].address
