"""Read the four topics into arrays, independent of the generator."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rig.check import Changes, Deliveries, Events, Int64, Statuses
from rig.records import DeliveryRecord, StatusRecord, change_of, delivery_of, event_of, status_of, subscriber_of
from streaming.kafka import clients
from streaming.kafka.clients import Cluster

STATUSES = ("accepted", "unsubscribed", "rejected")


def read_changes(cluster: Cluster, topic: str) -> Changes:
    return Changes.of(_rows(cluster, topic, 7, lambda message: change_of(message.key(), message.value())))


def read_events(cluster: Cluster, topic: str, ends: Mapping[int, int] | None = None) -> Events:
    """The events; with `ends` (by partition) only those before."""
    parts = _rows(cluster, topic, 4, lambda message: event_of(message.key(), message.value()))
    return Events.of([part if ends is None else part[: ends[p]] for p, part in enumerate(parts)])


def read_statuses(cluster: Cluster, topic: str, changes: Changes, partitions: int) -> Statuses:
    """The statuses of these changes; `partitions` are those of the events topic."""
    return statuses_of((status_of(message.value()) for message in _committed(cluster, [topic])), changes, partitions)


def read_deliveries(cluster: Cluster, topics: Sequence[str], events: Events, prefix: str | None) -> Deliveries:
    """The deliveries. With `prefix`, the topic names the subscriber; without it the key does."""
    return deliveries_of(_deliveries(cluster, topics, prefix), events)


def statuses_of(records: Iterable[StatusRecord], changes: Changes, partitions: int) -> Statuses:
    """Statuses as arrays. One of no known change has the change -1."""
    start, sizes = changes.start.tolist(), np.diff(changes.start).tolist()
    wanted = np.where(changes.id < 0, 2, np.where(changes.subscriber < 0, 1, 0)).tolist()
    where, version, begins = array("q"), array("q"), array("q")
    accepted = bytearray()
    for status in records:
        known = status.partition < len(sizes) and status.offset < sizes[status.partition]
        change = start[status.partition] + status.offset if known else -1
        where.append(change)
        accepted.append(known and status.status == STATUSES[wanted[change]])
        version.append(status.version)
        begins.extend(status.begins(partitions))
    return Statuses(
        _array(where),
        np.frombuffer(bytes(accepted), np.bool_),
        _array(version),
        _array(begins).reshape(-1, partitions),
    )


def deliveries_of(records: Iterable[DeliveryRecord], events: Events) -> Deliveries:
    """Deliveries as arrays. One of no known event has the event -1."""
    start, sizes = events.start.tolist(), np.diff(events.start).tolist()
    event, subscriber, version, checksum = array("q"), array("i"), array("q"), array("I")
    begins, ids = array("q", [0]), array("i")
    for delivery in records:
        known = delivery.partition < len(sizes) and delivery.offset < sizes[delivery.partition]
        event.append(start[delivery.partition] + delivery.offset if known else -1)
        subscriber.append(delivery.subscriber)
        version.append(delivery.version)
        checksum.append(delivery.checksum)
        ids.extend(delivery.ids)
        begins.append(len(ids))
    return Deliveries(*(_array(a) for a in (event, subscriber, version, checksum, begins, ids)))


def _deliveries(cluster: Cluster, topics: Sequence[str], prefix: str | None) -> Iterator[DeliveryRecord]:
    for message in _committed(cluster, topics):
        yield delivery_of(subscriber_of(message, prefix), dict(message.headers()), message.value())


def _committed(cluster: Cluster, topics: Sequence[str]) -> Iterator[Any]:
    return clients.read(cluster, topics, follow=False)


def _rows(cluster: Cluster, topic: str, width: int, parse: Callable[[Any], list[int]]) -> list[Int64]:
    """The numbers of each record by partition. Offsets must begin at 0 and have no gaps."""
    rows = [array("q") for _ in range(cluster.topics().partitions()[topic])]
    for message in _committed(cluster, [topic]):
        part = rows[message.partition()]
        assert message.offset() * width == len(part), f"a record of {topic} is gone"
        part.extend(parse(message))
    return [_array(part).reshape(-1, width) for part in rows]


def _array(numbers: array[int]) -> Any:
    return np.array(numbers)  # a copy, of the same type
