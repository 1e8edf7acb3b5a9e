"""Take the columns of events from Arrow's buffers, as kernels need them, without a copy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchers.contract.tables import Int64
from streaming.publishing.contract import Bytes, TopicPartition

Bools = NDArray[np.bool_]


class EventColumns(NamedTuple):
    """N events with H headers. A null may still own bytes or headers, which do not count."""

    partition: Any  # [N] int32
    offset: Any  # [N] int64
    timestamp: Any  # [N] int64, ms since the epoch; -1: none
    key: Any  # uint8: that of event e is key[key_start[e] : key_start[e + 1]]
    key_start: Any  # [N + 1] int64
    key_null: Any  # [N] bool; [0] if none is
    value: Any  # uint8
    value_start: Any  # [N + 1] int64
    value_null: Any  # [N] bool; [0] if none is
    header_start: Any  # [N + 1] int64: event e has headers header_start[e] .. header_start[e + 1]
    headers_null: Any  # [N] bool; [0] if none is
    name: Any  # uint8
    name_start: Any  # [H + 1] int64
    content: Any  # uint8: the values of the headers
    content_start: Any  # [H + 1] int64
    content_null: Any  # [H] bool; [0] if none is


def event_columns(rows: pa.RecordBatch) -> EventColumns:
    """Return the columns of rows that have the columns of `streaming.rows.INPUT`. Bytes are not copied."""
    headers = rows["headers"]
    names, contents = headers.values.field(0), headers.values.field(1)
    return EventColumns(
        _numbers(rows["partition"], np.int32),
        _numbers(rows["offset"], np.int64),
        _numbers(rows["timestamp"], np.int64),
        *_texts(rows["key"]),
        *_texts(rows["value"]),
        _starts(headers),
        _nulls(headers),
        *_texts(names)[:2],
        *_texts(contents),
    )


def _numbers(column: pa.Array, kind: Any) -> NDArray[Any]:
    return _buffer(column.buffers()[1], kind)[column.offset : column.offset + len(column)]


def _texts(column: pa.Array) -> tuple[Bytes, Int64, Bools]:
    return _buffer(column.buffers()[2], np.uint8), _starts(column), _nulls(column)


def _starts(column: pa.Array) -> Int64:
    """[n + 1]: where each item begins, with the end of the last."""
    if not len(column):  # may have no buffer
        return _frozen(np.zeros(1, np.int64))
    starts = _buffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    return _frozen(starts.astype(np.int64))


def _nulls(column: pa.Array) -> Bools:
    if not column.null_count:
        return _frozen(np.zeros(0, np.bool_))
    bits = _buffer(column.buffers()[0], np.uint8)
    valid = np.unpackbits(bits, bitorder="little")[column.offset : column.offset + len(column)]
    return _frozen(valid == 0)


def _buffer(buffer: pa.Buffer | None, kind: Any) -> NDArray[Any]:
    if buffer is None:
        return _frozen(np.zeros(0, kind))
    whole = buffer.size // np.dtype(kind).itemsize
    return _frozen(np.frombuffer(buffer, kind, whole))


def offsets_behind(
    partition: NDArray[Any], offset: NDArray[Any], topics: Iterable[tuple[str, int, int]]
) -> dict[TopicPartition, int]:
    """Return the offset after the last record of each partition. In both columns begin .. end belong to a topic."""
    behind: dict[TopicPartition, int] = {}
    for topic, begin, end in topics:
        partitions, offsets = partition[begin:end], offset[begin:end]
        behind |= {(topic, p): int(offsets[partitions == p].max()) + 1 for p in np.unique(partitions).tolist()}
    return behind


def numbers(array: NDArray[Any]) -> Int64:
    """Return the numbers as int64 and read-only; for other types numba would compile the kernels again."""
    return _frozen(np.ascontiguousarray(array, np.int64).view())


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
