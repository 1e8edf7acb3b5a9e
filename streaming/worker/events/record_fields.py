"""The fields of a record beside its value: its key, headers, timestamp, topic and partition."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from matchers.contract.tables import Float64, Int64, offsets_of
from matchers.index.fields import Fields
from matchers.index.values import UInt8, Values
from matchers.language import facets
from matchers.language.model import Path
from streaming.documents.records import NO_TIMESTAMP
from streaming.worker.buffers import bytes_of

KEY, HEADERS, TIMESTAMP, TOPIC, PARTITION = NAMES = "$key", "$headers", "$timestamp", "$topic", "$partition"
NULL, NUMBER, TEXT = (facets.token(value)[0] for value in (None, 0.0, ""))  # kinds of values


@lru_cache(maxsize=16)
def are_beside(fields: Fields) -> NDArray[np.bool_]:
    """[paths]: whether a field lies beside the value."""
    return np.array([path[0] in NAMES for path in fields.paths], np.bool_)


def document(rows: pa.RecordBatch, row: int, topic: str) -> dict[str, Any]:
    """Return the record's fields of a row, without bytes that are not UTF-8 and without a missing timestamp."""
    found: dict[str, Any] = {TOPIC: topic, PARTITION: rows["partition"][row].as_py()}
    if (timestamp := rows["timestamp"][row].as_py()) != NO_TIMESTAMP:
        found[TIMESTAMP] = timestamp
    found |= dict(_texts([(KEY, rows["key"][row].as_py())]))
    headers: dict[str, list[str | None]] = {}
    for name, text in _texts([(h["key"], h["value"]) for h in rows["headers"][row].as_py() or ()]):
        headers.setdefault(name, []).append(text)
    return {**found, HEADERS: {name: texts[0] if len(texts) == 1 else texts for name, texts in headers.items()}}


def _texts(values: list[tuple[str, bytes | None]]) -> Iterator[tuple[str, str | None]]:
    for name, value in values:
        try:
            yield name, None if value is None else value.decode()
        except UnicodeDecodeError:
            continue


class _Column(NamedTuple):
    """Values of one field, in the order of the events."""

    event: Int64  # [V]
    kind: UInt8  # [V]
    number: Float64  # [V]
    start: Int64  # [V] in `text`
    length: Int64  # [V]
    text: UInt8


def values(rows: pa.RecordBatch, fields: Fields, topic: str) -> Values:
    """The values of those of these fields that are named, as `document` has them, of all rows at once."""
    positions = np.flatnonzero(are_beside(fields)).tolist()
    columns = [(position, _column(rows, fields.paths[position], topic)) for position in positions]
    return _together([(position, column) for position, column in columns if column is not None], len(rows))


def _column(rows: pa.RecordBatch, path: Path, topic: str) -> _Column | None:
    """The values of a field; None of one that has no value itself, such as all headers."""
    every = np.arange(len(rows))
    if path == (KEY,):
        return _of_texts(every, rows["key"])
    if path == (TOPIC,):
        return _of_texts(every, pa.repeat(pa.scalar(topic.encode()), len(rows)))
    if path == (PARTITION,):
        return _of_numbers(every, np.asarray(rows["partition"]))
    if path == (TIMESTAMP,):
        timestamp = np.asarray(rows["timestamp"])
        event = np.flatnonzero(timestamp != NO_TIMESTAMP)
        return _of_numbers(event, timestamp[event])
    if len(path) == 2 and path[0] == HEADERS:
        return _of_header(rows["headers"], path[1])
    return None


def _of_numbers(event: Int64, number: NDArray[Any]) -> _Column:
    zeros = np.zeros(len(event), np.int64)
    kind = np.full(len(event), NUMBER, np.uint8)
    return _Column(event, kind, number.astype(np.float64), zeros, zeros, np.empty(0, np.uint8))


def _of_header(lists: pa.ListArray, name: str) -> _Column:
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
    names, texts = lists.flatten().flatten()
    is_it = np.asarray(pc.equal(names, name))
    return _of_texts(np.repeat(np.arange(len(lists)), lengths)[is_it], texts.filter(pa.array(is_it)))


def _of_texts(event: Int64, texts: pa.BinaryArray) -> _Column:
    """Convert bytes to strings: null is a value, and bytes that are not UTF-8 are absent."""
    try:
        texts.cast(pa.string())
    except pa.ArrowInvalid:
        is_text = np.array([text is None or bool(dict(_texts([("", text)]))) for text in texts.to_pylist()])
        event, texts = event[is_text], texts.filter(pa.array(is_text))
    text, begin, end = bytes_of(texts)
    kind = np.where(np.asarray(texts.is_null()), NULL, TEXT).astype(np.uint8)
    return _Column(event, kind, np.zeros(len(event)), begin, np.where(kind == TEXT, end - begin, 0), text)


def _together(columns: list[tuple[int, _Column]], n_events: int) -> Values:
    """The columns, each with the position of its field, as values, event by event."""
    positions, of = [position for position, _ in columns], [NONE, *(column for _, column in columns)]
    lengths = [len(column.event) for column in of]
    event, kind, number, start, length, text = map(np.concatenate, zip(*of, strict=True))
    start += np.repeat(np.cumsum([0, *(len(column.text) for column in of[:-1])]), lengths)
    order = np.argsort(event, kind="stable")
    event, path = event[order], np.repeat([0, *positions], lengths)[order].astype(np.int32)
    again = (np.diff(event) == 0) & (np.diff(path) == 0)  # the values of a repeated header
    return Values(
        offsets=offsets_of(np.bincount(event, minlength=n_events)),
        path=path,
        kind=kind[order],
        number=number[order],
        start=start[order],
        length=length[order].astype(np.int32),
        text=text,
        several=np.bincount(event[1:][again], minlength=n_events) > 0,
    )


NONE = _of_numbers(np.empty(0, np.int64), np.empty(0))
