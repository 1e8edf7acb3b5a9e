"""Write the body of a Produce request of version 11 or 12, which share a format: compact arrays, no tagged fields.

    transactional id | acks 2 | timeout 4 | topics | 0
    topic:      name | partitions | 0
    partition:  number 4 | bytes of its batch | the batch | 0

Lengths are unsigned varints of one more, since 0 is null.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.contract.tables import Int64
from matchers.index.texts import Texts
from matchers.kernels.jit import kernel
from streaming.publishing.contract import Bytes, RecordBatches
from streaming.publishing.encode.columns import numbers
from streaming.publishing.encode.wire import copy, put_number, put_unsigned, unsigned_length

_ALL_REPLICAS = -1  # acknowledge


class Destinations(NamedTuple):
    """Topic partitions, as kernels take them: D of T topics."""

    name: Any  # uint8: that of topic t is name[name_start[t] : name_start[t + 1]]
    name_start: Any  # [T + 1] int64
    topic: Any  # [D] int64
    partition: Any  # [D] int64

    @classmethod
    def of(cls, names: Texts, topic: Int64, partition: Int64) -> Destinations:
        return cls(names.text, names.start, numbers(topic), numbers(partition))


def body(
    transactional_id: str, timeout_ms: int, batches: RecordBatches, rows: Int64, destinations: Destinations
) -> Bytes:
    """Return the request that sends these batches, at most one per destination."""
    topic = destinations.topic[batches.destination[rows]]
    order = numbers(rows)[np.argsort(topic, kind="stable")]
    out: Bytes = _write(np.frombuffer(transactional_id.encode(), np.uint8), timeout_ms, batches, order, destinations)
    return out


@kernel
def _write(
    transactional_id: Any, timeout_ms: int, batches: RecordBatches, rows: Any, destinations: Destinations
) -> Any:
    """`rows` are ascending by topic."""
    data, begin, end, destination, _ = batches
    name, name_start, topic, partition = destinations
    n = rows.shape[0]
    n_id = transactional_id.shape[0]
    size = unsigned_length(n_id + 1) + n_id + 6 + 1
    n_topics = 0
    last_of = np.empty(n, np.int64)  # of the first row of a topic: the end of its rows
    opened = 0
    for i in range(n):
        t = topic[destination[rows[i]]]
        if i == 0 or t != topic[destination[rows[i - 1]]]:
            n_topics += 1
            opened = i
            length = name_start[t + 1] - name_start[t]
            size += unsigned_length(length + 1) + length + 1
        last_of[opened] = i + 1
        length = end[rows[i]] - begin[rows[i]]
        size += 4 + unsigned_length(length + 1) + length + 1
    i = 0
    while i < n:
        size += unsigned_length(last_of[i] - i + 1)
        i = last_of[i]
    size += unsigned_length(n_topics + 1)

    out = np.empty(size, np.uint8)
    at = put_unsigned(out, 0, n_id + 1)
    at = copy(out, at, transactional_id, 0, n_id)
    at = put_number(out, at, 2, _ALL_REPLICAS)
    at = put_number(out, at, 4, timeout_ms)
    at = put_unsigned(out, at, n_topics + 1)
    i = 0
    while i < n:
        t = topic[destination[rows[i]]]
        at = put_unsigned(out, at, name_start[t + 1] - name_start[t] + 1)
        at = copy(out, at, name, name_start[t], name_start[t + 1])
        at = put_unsigned(out, at, last_of[i] - i + 1)
        for k in range(i, last_of[i]):
            b = rows[k]
            at = put_number(out, at, 4, partition[destination[b]])
            at = put_unsigned(out, at, end[b] - begin[b] + 1)
            at = copy(out, at, data, begin[b], end[b])
            out[at] = 0
            at += 1
        out[at] = 0
        at += 1
        i = last_of[i]
    out[at] = 0
    return out
