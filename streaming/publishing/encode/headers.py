"""Encode the headers that all deliveries of an event share, once per event, as bytes of a record.

They are those of `streaming.documents.records.event_headers`: the event's own, the CloudEvents attributes it lacks, and
the match. Parts that are equal for all events are encoded beforehand, as pieces:

    ce_specversion 1.0 | ce_id ... | ce_source kafka:topic | ce_type sluice.event | ce_time ... | ce_matchversion 7
    whole                name only   whole                   whole                  name only     whole, one or two
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from matchers.contract.tables import Int64
from matchers.index.texts import Texts
from matchers.kernels.jit import inlined, inner, kernel
from streaming.documents import records
from streaming.publishing.encode.columns import EventColumns, numbers
from streaming.publishing.encode.wire import copy, digits_of, put_digits, put_varint

_ID, _TIME, _MATCH = 1, 4, 5  # pieces
_N_PIECES = 6
_N_MADE = 5  # of these, that give way to an event's own header
_SECOND_BYTES = 19
_TIME_BYTES = 24  # 2026-01-31T23:59:59.999Z
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # of the years 1 to 9999
_HEADER_SIZE = records.size_of([("", None)])
_NO_SECOND = -(1 << 62)
_NO_TIMESTAMP = records.NO_TIMESTAMP
_VARINT = 5  # bytes at most, of a length
_NUMBER = 20  # digits at most


class EventHeaders(NamedTuple):
    """The headers of N events. Those of an event without deliveries are empty."""

    data: Any  # uint8: those of event e are data[begin[e] : end[e]]
    begin: Any  # [N] int64
    end: Any  # [N] int64
    count: Any  # [N] int64
    size: Any  # [N] int64: as records.size_of counts them


class Pieces(NamedTuple):
    """The parts that the added headers of all events share."""

    data: Any  # uint8: piece p is data[start[p] : start[p + 1]]
    start: Any  # [7] int64
    size: Any  # [6] int64: as records.size_of counts it
    n_match: int  # headers in the last piece
    topic: Any  # uint8
    name: Any  # uint8: the names of the first five pieces, then those that are never taken from an event
    name_start: Any  # int64


def event_headers(
    events: EventColumns,
    deliveries_of: Int64,
    topic: str,
    version: int | None = None,
    replay: str | None = None,
    false_positives: float = 0.0,
) -> EventHeaders:
    """Return the headers of the events that `deliveries_of` names, ascending, with repetitions. The other arguments are
    those of `records.event_headers`."""
    pieces = _pieces(topic, version, replay, false_positives)
    return EventHeaders(*_write(events, numbers(deliveries_of), pieces))


def headers_by_topic(
    events: EventColumns,
    deliveries_of: Int64,
    topics: Sequence[tuple[str, int, int]],
    version: int | None = None,
    replay: str | None = None,
    false_positives: float = 0.0,
) -> EventHeaders:
    """Return the `event_headers` of events of several topics, each with its range begin .. end of events."""
    if len(topics) == 1:
        return event_headers(events, deliveries_of, topics[0][0], version, replay, false_positives)
    n, size = len(events.offset), 0
    data = [np.empty(0, np.uint8)]
    columns = np.zeros((4, n), np.int64)
    for topic, begin, end in topics:
        first, last = np.searchsorted(deliveries_of, (begin, end))
        made = event_headers(events, deliveries_of[first:last], topic, version, replay, false_positives)
        columns[:, begin:end] = [column[begin:end] for column in made[1:]]
        columns[:2, begin:end] += size
        data.append(made.data)
        size += len(made.data)
    return EventHeaders(np.concatenate(data), *columns)


@lru_cache(maxsize=256)
def _pieces(topic: str, version: int | None, replay: str | None, false_positives: float) -> Pieces:
    made = records.event_headers((), records.Origin(topic, 0, 0, 0), version, replay, false_positives)
    names = [name for name, _ in made[:_N_MADE]]
    whole = [header(name, value) for name, value in made]
    whole[_ID], whole[_TIME] = (_text(names[piece].encode()) for piece in (_ID, _TIME))
    sizes = [records.size_of([one]) for one in made]
    sizes[_ID], sizes[_TIME] = (records.size_of([(names[piece], None)]) for piece in (_ID, _TIME))
    pieces = [*whole[:_MATCH], b"".join(whole[_MATCH:])]
    start = np.cumsum([0, *map(len, pieces)])
    known = Texts.of([*names, *records.OURS])
    return Pieces(
        np.frombuffer(b"".join(pieces), np.uint8),
        start,
        np.array([*sizes[:_MATCH], sum(sizes[_MATCH:])]),
        len(made) - _MATCH,
        np.frombuffer(topic.encode(), np.uint8),
        known.text,
        known.start,
    )


def header(name: str, value: bytes | None) -> bytes:
    """A header as bytes of a record."""
    return _text(name.encode()) + (varint(-1) if value is None else _text(value))


def _text(text: bytes) -> bytes:
    return varint(len(text)) + text


def varint(number: int) -> bytes:
    """A signed varint as bytes."""
    rest = (number << 1) ^ (number >> 63)  # `wire.zigzag`
    out = bytearray()
    while rest >= 128:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


@inner
def _position(name: Any, begin: int, end: int, names: Any, start: Any) -> int:
    """The position of name[begin:end] among the names; -1 if it is none of them."""
    for i in range(start.shape[0] - 1):
        if start[i + 1] - start[i] == end - begin:
            k = 0
            while k < end - begin and names[start[i] + k] == name[begin + k]:
                k += 1
            if k == end - begin:
                return i
    return -1


@inlined
def _put_text(out: Any, at: int, text: Any, begin: int, end: int) -> int:
    return copy(out, put_varint(out, at, end - begin), text, begin, end)


@inlined
def _put_id(out: Any, at: int, topic: Any, partition: int, offset: int) -> tuple[int, int]:
    """Write `topic-partition-offset` with its length before it; return the position after it and that length."""
    n_partition, n_offset = digits_of(partition), digits_of(offset)
    length = topic.shape[0] + 1 + n_partition + 1 + n_offset
    at = copy(out, put_varint(out, at, length), topic, 0, topic.shape[0])
    out[at] = 45
    at = put_digits(out, at + 1, partition, n_partition)
    out[at] = 45
    return put_digits(out, at + 1, offset, n_offset), length


@inner
def _put_second(out: Any, at: int, second: int) -> int:
    """Write a second of the years 1 to 9999, such as 2026-01-31T23:59:59.

    Days become a date by H. Hinnant's algorithm `civil_from_days`, whose years begin in March.
    """
    z = second // 86400 + 719468
    era = z // 146097
    day_of_era = z - era * 146097
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    year += era * 400 + (1 if month <= 2 else 0)
    at = put_digits(out, at, year, 4)
    out[at] = 45
    at = put_digits(out, at + 1, month, 2)
    out[at] = 45
    at = put_digits(out, at + 1, day, 2)
    out[at] = 84
    at = put_digits(out, at + 1, second % 86400 // 3600, 2)
    out[at] = 58
    at = put_digits(out, at + 1, second % 3600 // 60, 2)
    out[at] = 58
    return put_digits(out, at + 1, second % 60, 2)


@kernel
def _write(events: EventColumns, rows: Any, pieces: Pieces) -> Any:
    partition, offset, timestamp, header_start = events.partition, events.offset, events.timestamp, events.header_start
    headers_null, content_null = events.headers_null, events.content_null
    name, name_start, content, content_start = events.name, events.name_start, events.content, events.content_start
    piece, piece_start, piece_size, n_match, topic, known, known_start = pieces
    n = offset.shape[0]
    shared = piece.shape[0] + topic.shape[0] + 2 * _NUMBER + 2 + _TIME_BYTES + 2 * _VARINT
    room = 0
    previous = -1
    for r in range(rows.shape[0]):
        if rows[r] != previous:
            previous = rows[r]
            first, last = header_start[previous], header_start[previous + 1]
            room += shared + (name_start[last] - name_start[first]) + (content_start[last] - content_start[first])
            room += 2 * _VARINT * (last - first)
    out = np.empty(room, np.uint8)
    begin = np.zeros(n, np.int64)
    end = np.zeros(n, np.int64)
    count = np.zeros(n, np.int64)
    size = np.zeros(n, np.int64)
    at = 0
    date_second, date_at = _NO_SECOND, 0  # the last that was written, and where
    previous = -1
    for r in range(rows.shape[0]):
        e = rows[r]
        if e == previous:
            continue
        previous = e
        begin[e] = at
        n_headers = n_match - 1  # the loop over pieces counts one
        bytes_ = 0
        present = 0
        if not (headers_null.shape[0] and headers_null[e]):
            for h in range(header_start[e], header_start[e + 1]):
                name_begin, name_end = name_start[h], name_start[h + 1]
                # Names that mean something begin with c or s.
                first = name[name_begin] if name_end > name_begin else 0
                which = _position(name, name_begin, name_end, known, known_start) if first == 99 or first == 115 else -1
                if which >= _N_MADE:
                    continue
                if which >= 0:
                    present |= 1 << which
                at = _put_text(out, at, name, name_begin, name_end)
                if content_null.shape[0] and content_null[h]:
                    at = put_varint(out, at, -1)
                else:
                    at = _put_text(out, at, content, content_start[h], content_start[h + 1])
                    bytes_ += content_start[h + 1] - content_start[h]
                bytes_ += _HEADER_SIZE + name_end - name_begin
                n_headers += 1
        if timestamp[e] == _NO_TIMESTAMP or timestamp[e] < _FIRST_MS or timestamp[e] > _LAST_MS:
            present |= 1 << _TIME
        shared_from = -1  # pieces from here on are to be copied, at once
        for p in range(_N_PIECES):
            if present & (1 << p):
                if shared_from >= 0:
                    at = copy(out, at, piece, shared_from, piece_start[p])
                shared_from = -1
                continue
            if shared_from < 0:
                shared_from = piece_start[p]
            bytes_ += piece_size[p]
            n_headers += 1
            if p == _ID:
                at = copy(out, at, piece, shared_from, piece_start[p + 1])
                shared_from = -1
                at, length = _put_id(out, at, topic, partition[e], offset[e])
                bytes_ += length
            elif p == _TIME:
                at = copy(out, at, piece, shared_from, piece_start[p + 1])
                shared_from = -1
                at = put_varint(out, at, _TIME_BYTES)
                second = timestamp[e] // 1000
                if second == date_second:
                    at = copy(out, at, out, date_at, date_at + _SECOND_BYTES)
                else:
                    date_second, date_at = second, at
                    at = _put_second(out, at, second)
                out[at] = 46
                at = put_digits(out, at + 1, timestamp[e] - 1000 * second, 3)
                out[at] = 90
                at += 1
                bytes_ += _TIME_BYTES
        at = copy(out, at, piece, shared_from, piece_start[_N_PIECES])
        end[e] = at
        count[e] = n_headers
        size[e] = bytes_
    return out, begin, end, count, size
