"""Make Arrow's columns of measured records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from streaming.publishing.contract import Bytes
from streaming.reading.records import AFTER, RecordBytes, Rows, fill
from streaming.rows import HEADERS, INPUT


def room(most: int) -> Rows:
    """Return room for that many records."""
    int32, int64 = np.int32, np.int64
    return Rows(
        source=np.empty(most, int32),
        partition=np.empty(most, int32),
        offset=np.empty(most, int64),
        timestamp=np.empty(most, int64),
        key_at=np.empty(most, int64),
        key_start=np.zeros(most + 1, int32),
        key_null=np.empty(most, np.bool_),
        value_at=np.empty(most, int64),
        value_start=np.zeros(most + 1, int32),
        value_null=np.empty(most, np.bool_),
        headers_at=np.empty(most, int64),
        header_start=np.zeros(most + 1, int32),
        totals=np.zeros(6, int64),
    )


def columns(rows: Rows, n: int, measured: Iterable[tuple[Bytes, int, int]]) -> pa.RecordBatch:
    """Return the first n rows with their bytes; `measured` has pieces of data, each with its rows."""
    keys, values, headers, names, contents = rows.totals[:AFTER].tolist()
    text = RecordBytes(
        np.empty(keys, np.uint8),
        np.empty(values, np.uint8),
        np.empty(names, np.uint8),
        np.zeros(headers + 1, np.int32),
        np.empty(contents, np.uint8),
        np.zeros(headers + 1, np.int32),
        np.empty(headers, np.bool_),
    )
    for data, begin, end in measured:
        fill(data, rows, begin, end, text)
    pairs = pa.StructArray.from_arrays(
        [_names(text.name, text.name_start), _binary(text.content, text.content_start, text.content_null)],
        fields=list(HEADERS.value_type),
    )
    filled = [
        *(pa.array(column[:n]) for column in (rows.source, rows.partition, rows.offset, rows.timestamp)),
        _binary(text.key, rows.key_start[: n + 1], rows.key_null[:n]),
        _binary(text.value, rows.value_start[: n + 1], rows.value_null[:n]),
        pa.ListArray.from_arrays(pa.array(rows.header_start[: n + 1]), pairs, type=HEADERS),
    ]
    return pa.RecordBatch.from_arrays(filled, schema=INPUT)


def _binary(data: Bytes, start: Any, null: Any) -> pa.Array:
    nulls = int(np.count_nonzero(null))
    valid = pa.py_buffer(np.packbits(~null, bitorder="little")) if nulls else None
    return pa.Array.from_buffers(pa.binary(), len(null), [valid, pa.py_buffer(start), pa.py_buffer(data)], nulls)


def _names(data: Bytes, start: Any) -> pa.Array:
    """Return the names of headers, with bytes that are not UTF-8 replaced, as Java's clients do."""
    names = pa.Array.from_buffers(pa.string(), len(start) - 1, [None, pa.py_buffer(start), pa.py_buffer(data)], 0)
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        texts = names.view(pa.binary()).to_pylist()
        return pa.array([text.decode(errors="replace") for text in texts], pa.string())
    return names
