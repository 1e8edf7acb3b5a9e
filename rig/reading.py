"""Read the four topics into arrays, independent of the generator."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rig.check import Changes, Deliveries, Events, Int64, Statuses
from rig.records import change_of, delivery_of, event_of, status_of, subscriber_of
from streaming.kafka import clients
from streaming.kafka.clients import Cluster


def read_changes(cluster: Cluster, topic: str) -> Changes:
    rows = _Rows(_partitions(cluster, topic), "iiiiiiiq")  # id, subscriber, symbol, low, high, timestamp
    for message in _committed(cluster, [topic]):
        rows.add(message, *change_of(message.key(), message.value()), message.timestamp()[1])
    ids, subscribers, symbols, *columns, timestamps = rows.columns()
    low, high = np.column_stack(columns[::2]), np.column_stack(columns[1::2])
    return Changes(rows.start(), ids, subscribers, symbols, low, high, timestamps)


def read_events(cluster: Cluster, topic: str, ends: Mapping[int, int] | None = None) -> Events:
    """The events; with `ends` (by partition) only those before."""
    rows = _Rows(_partitions(cluster, topic), "iiiI")
    for message in _committed(cluster, [topic]):
        if ends is not None and message.offset() >= ends[message.partition()]:
            continue
        rows.add(message, *event_of(None, message.value()))
    symbol, price, volume, checksum = rows.columns()
    return Events(rows.start(), symbol, np.column_stack([price, volume]), checksum)


def read_statuses(cluster: Cluster, topic: str, changes: Changes, partitions: int) -> Statuses:
    """`partitions` are those of the events topic."""
    sizes, withdrawn = np.diff(changes.start).tolist(), (changes.subscriber < 0).tolist()
    where, version, timestamp, begins = array("q"), array("q"), array("q"), array("q")
    accepted = bytearray()
    for message in _committed(cluster, [topic]):
        status = status_of(message.value())
        known = status.offset < sizes[status.partition]
        change = int(changes.start[status.partition]) + status.offset if known else -1
        where.append(change)
        accepted.append(status.status == ("withdrawn" if withdrawn[change] else "accepted"))
        version.append(status.version)
        begins.extend(status.begins(partitions))
        timestamp.append(message.timestamp()[1])
    return Statuses(
        _array(where),
        np.frombuffer(bytes(accepted), np.bool_),
        _array(version),
        _array(begins).reshape(-1, partitions),
        _array(timestamp),
    )


def read_deliveries(cluster: Cluster, topics: Sequence[str], events: Events, prefix: str | None) -> Deliveries:
    """The deliveries. With `prefix`, the topic names the subscriber; without it the key does."""
    return _deliveries(_committed(cluster, topics), events, prefix, None)


def read_deliveries_of_others(cluster: Cluster, topic: str, events: Events, version: int) -> Deliveries:
    """The deliveries of a system that writes no versions and may have been stopped within a batch. Deliveries of events
    that are not in `events` are left out."""
    return _deliveries(_committed(cluster, [topic]), events, None, version)


def _deliveries(messages: Iterator[Any], events: Events, prefix: str | None, of_all: int | None) -> Deliveries:
    """`of_all` is the version of each event, for deliveries without a version; deliveries of events that are not in
    `events` are then left out."""
    start, sizes = events.start.tolist(), np.diff(events.start).tolist()
    event, subscriber, version, checksum = array("q"), array("i"), array("q"), array("I")
    begins, ids = array("q", [0]), array("i")
    for message in messages:
        delivery = delivery_of(subscriber_of(message, prefix), dict(message.headers()), message.value())
        there = delivery.partition < len(sizes) and delivery.offset < sizes[delivery.partition]
        if of_all is not None and not there:
            continue
        event.append(start[delivery.partition] + delivery.offset if there else -1)
        subscriber.append(delivery.subscriber)
        version.append(delivery.version if of_all is None else of_all)
        checksum.append(delivery.checksum)
        ids.extend(delivery.ids)
        begins.append(len(ids))
    return Deliveries(*(_array(a) for a in (event, subscriber, version, checksum, begins, ids)))


def _committed(cluster: Cluster, topics: Sequence[str]) -> Iterator[Any]:
    return clients.read(cluster, topics, follow=False)


class _Rows:
    """The numbers of each record, in arrays by partition. Offsets must begin at 0 and have no gaps."""

    def __init__(self, partitions: int, types: str) -> None:
        self._columns = [[array(code) for code in types] for _ in range(partitions)]

    def add(self, message: Any, *numbers: int) -> None:
        columns = self._columns[message.partition()]
        assert message.offset() == len(columns[0]), f"a record of {message.topic()} is gone"
        for column, number in zip(columns, numbers, strict=True):
            column.append(number)

    def start(self) -> Int64:
        return np.append(0, np.cumsum([len(columns[0]) for columns in self._columns]))

    def columns(self) -> list[Any]:
        return [np.concatenate([_array(part) for part in parts]) for parts in zip(*self._columns, strict=True)]


def _array(numbers: array[int]) -> Any:
    return np.array(numbers)  # a copy, of the same type


def _partitions(cluster: Cluster, topic: str) -> int:
    return cluster.topics().partitions()[topic]
