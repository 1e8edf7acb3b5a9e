"""Record batches and bodies of Produce requests in plain Python, by kafka-python: what slots are tested with."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Sequence

import numpy as np
from kafka.record.default_records import DefaultRecordBatchBuilder

from matchers.contract.tables import Int64
from streaming.publishing.contract import Batches, Producer, TopicPartition


def batches(
    producer: Producer,
    batches: Sequence[tuple[int, Sequence[bytes]]],
    first: dict[int, int] | None = None,
    key: bytes | None = b"key",
) -> Batches:
    """Of (destination, values), by ascending destination. `first` are the next sequences of destinations; they are
    counted on there."""
    first = {} if first is None else first
    parts = []
    now_ms = int(1000 * time.time())
    for destination, values in batches:
        builder = DefaultRecordBatchBuilder(2, 0, True, *producer, first.get(destination, 0), 1 << 30)
        for number, value in enumerate(values):
            builder.append(number, now_ms, key, value, [])  # brokers delete what is old
        first[destination] = first.get(destination, 0) + len(values)
        parts.append(bytes(builder.build()))
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    return Batches(
        np.frombuffer(b"".join(parts), np.uint8),
        ends - [len(part) for part in parts],
        ends,
        np.array([destination for destination, _ in batches], np.int64),
        np.array([len(values) for _, values in batches], np.int64),
    )


def body(
    version: int,
    transactional_id: str,
    batches: Batches,
    rows: Int64,
    topics: Sequence[str],
    destinations: Sequence[TopicPartition],
) -> bytes:
    """The body of a Produce request, version 9 to 12: acks are -1, the timeout is 30 s."""
    by_topic: dict[str, dict[int, bytes]] = {}
    for row in rows.tolist():
        topic, partition = destinations[int(batches.destination[row])]
        data = batches.data[int(batches.begin[row]) : int(batches.end[row])].tobytes()
        assert partition not in by_topic.setdefault(topic, {}), "one batch of a partition at a time"
        by_topic[topic][partition] = data
    assert set(by_topic) <= set(topics)
    return b"".join(_body(transactional_id, by_topic))


def _body(transactional_id: str, by_topic: dict[str, dict[int, bytes]]) -> Iterator[bytes]:
    yield _text(transactional_id) + struct.pack(">hi", -1, 30_000) + _varint(len(by_topic) + 1)
    for topic, partitions in by_topic.items():
        yield _text(topic) + _varint(len(partitions) + 1)
        for partition, data in partitions.items():
            yield struct.pack(">i", partition) + _varint(len(data) + 1) + data + b"\0"
        yield b"\0"
    yield b"\0"


def _text(text: str) -> bytes:
    return _varint(len(text.encode()) + 1) + text.encode()


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number >= 128:
        digits.append(number & 127 | 128)
        number >>= 7
    digits.append(number)
    return bytes(digits)
