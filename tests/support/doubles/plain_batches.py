"""Record batches by kafka-python's own encoder: what slots are tested with."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from kafka.record.default_records import DefaultRecordBatchBuilder

from streaming.publishing.contract import ProducerEpoch, RecordBatches


def batches(
    producer: ProducerEpoch,
    batches: Sequence[tuple[int, Sequence[bytes]]],
    first: dict[int, int] | None = None,
    key: bytes | None = b"key",
    timestamp_ms: int = 0,
) -> RecordBatches:
    """Return batches of (destination, values), by ascending destination. `first` has the next sequences of
    destinations, which are advanced."""
    first = {} if first is None else first
    parts = []
    timestamp_ms = timestamp_ms or int(1000 * time.time())  # brokers delete what is old
    for destination, values in batches:
        builder = DefaultRecordBatchBuilder(2, 0, True, *producer, first.get(destination, 0), 1 << 30)
        for number, value in enumerate(values):
            builder.append(number, timestamp_ms, key, value, [])
        first[destination] = first.get(destination, 0) + len(values)
        parts.append(bytes(builder.build()))
    lengths = np.array([len(part) for part in parts], np.int64)
    ends = np.cumsum(lengths)
    return RecordBatches(
        np.frombuffer(b"".join(parts), np.uint8),
        ends - lengths,
        ends,
        np.array([destination for destination, _ in batches], np.int64),
        np.array([len(values) for _, values in batches], np.int64),
    )
