"""Read messages of formats 0 and 1, which brokers before Kafka 0.11 wrote and newer ones pass on as they are.

    message   offset 8 | length 4 | CRC 4 | format 1 | attributes 1 | time 8, in format 1 | key | value

A key and a value begin with their length in 4 bytes, negative for null. The value of a compressed message is a series
of messages; in format 1 their offsets count from that of the first, and the compressed message has that of the last.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kafka.record.default_records import DefaultRecordBatchBuilder

from streaming.reading.unpacking import unpacked

# The most that a compressed message may hold. Its records are objects on the way, some ten times as large.
MOST_MESSAGE_BYTES = 1 << 26

_HEAD, _TIME, _LENGTH = Struct(">qiIbB"), Struct(">q"), Struct(">i")
_BEFORE_LENGTH_COUNTS, _MAGIC = 12, 16
_CODEC, _APPEND_TIME = 7, 8
_LARGEST = (1 << 31) - 1
_NO_TIME = -1
_PIECE_BYTES = 1 << 24
_CONTRADICTION = "its lengths contradict each other"


class _Message(NamedTuple):
    offset: int
    format: int
    attributes: int
    time: int  # ms since the epoch
    key: bytes | None
    value: bytes | None


def upgraded(data: memoryview) -> bytes | None:
    """Return the records of a message as a batch of format 2; None if the checksum is wrong.

    Raises the errors of the codecs, and ValueError for lengths and offsets that contradict each other.
    """
    _, _, checksum, _, attributes = _HEAD.unpack_from(data)
    if zlib.crc32(data[_MAGIC:]) != checksum:
        return None
    message = _message(data, 0)
    messages = _within(message) if attributes & _CODEC else iter([message])
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, _LARGEST)
    first = last = -1
    for record in messages:
        first = record.offset if first < 0 else first
        if record.offset <= last or record.offset - first > _LARGEST:
            raise ValueError("its offsets contradict each other")
        last = record.offset
        builder.append(record.offset - first, record.time, record.key, record.value, [])
    return first.to_bytes(8, "big") + bytes(builder.build())[8:]  # a builder's batches begin at 0


def _message(data: memoryview, at: int) -> _Message:
    offset, length, _, format, attributes = _HEAD.unpack_from(data, at)
    end = at + _BEFORE_LENGTH_COUNTS + length
    at += _HEAD.size
    time = _NO_TIME
    if format:
        if end - at < _TIME.size:
            raise ValueError(_CONTRADICTION)
        (time,) = _TIME.unpack_from(data, at)
        at += _TIME.size
    key, at = _bytes(data, at, end)
    value, at = _bytes(data, at, end)
    if at != end:
        raise ValueError(_CONTRADICTION)
    return _Message(offset, format, attributes, time, key, value)


def _bytes(data: memoryview, at: int, end: int) -> tuple[bytes | None, int]:
    """Return a key or a value, and the position after it."""
    begin = at + _LENGTH.size
    if begin > end:
        raise ValueError(_CONTRADICTION)
    (length,) = _LENGTH.unpack_from(data, at)
    if length > end - begin:
        raise ValueError(_CONTRADICTION)
    return (None, begin) if length < 0 else (bytes(data[begin : begin + length]), begin + length)


def _within(outer: _Message) -> Iterator[_Message]:
    """Yield the messages of a compressed one."""
    data = _unpacked(outer)
    places = list(_places(data))
    last = _message(data, places[-1])
    base = outer.offset - last.offset if outer.format else -1
    for at in places:
        message = _message(data, at)
        if message.format != outer.format or message.attributes & _CODEC:
            raise ValueError("a message within it has another format, or is compressed once more")
        offset = message.offset + base if base >= 0 else message.offset
        time = outer.time if outer.format and outer.attributes & _APPEND_TIME else message.time
        yield message._replace(offset=offset, time=time)


def _unpacked(outer: _Message) -> memoryview:
    pieces: list[bytes | memoryview] = []
    size = 0
    for piece, _ in unpacked(outer.attributes & _CODEC, memoryview(outer.value or b""), _PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > MOST_MESSAGE_BYTES:
            raise ValueError(f"it holds more than {MOST_MESSAGE_BYTES} bytes")
    return memoryview(b"".join(pieces))


def _places(data: memoryview) -> Iterator[int]:
    """Yield where messages begin; at least one."""
    at = 0
    while at < len(data) or not at:
        if len(data) - at < _HEAD.size:
            raise ValueError(_CONTRADICTION)
        _, length, *_ = _HEAD.unpack_from(data, at)
        if not _HEAD.size - _BEFORE_LENGTH_COUNTS <= length <= len(data) - at - _BEFORE_LENGTH_COUNTS:
            raise ValueError(_CONTRADICTION)
        yield at
        at += _BEFORE_LENGTH_COUNTS + length
