"""Decide the topic, partition and key of a delivery.

    deliveries.layout      topic                           partition                           key
    topic_per_subscriber   the prefix and the subscriber   the event's, modulo the partitions  the event's
    shared                 one for all                     as Kafka's clients map the key      the subscriber

All deliveries of one event partition to one subscriber therefore go to one partition, whatever the keys of events are,
and stay in order. The headers are those of `streaming.documents.records.event_headers`, then the subscriptions.

Commands use this module without loading numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from streaming.documents.records import BY_KEY, IDS, Headers, Record

if TYPE_CHECKING:
    from config.model import Deliveries

_Key = TypeVar("_Key")


@dataclass(frozen=True)
class DeliveryRule:
    """The destinations of deliveries. Keys and partitions may be columns."""

    prefix: str = ""  # of subscribers' topics
    shared: str = ""  # the topic of all deliveries; empty: each subscriber has one

    @classmethod
    def of(cls, deliveries: Deliveries) -> DeliveryRule:
        return cls(deliveries.prefix, deliveries.topic if deliveries.layout == "shared" else "")

    def topic(self, subscriber: str) -> str:
        return self.shared or self.prefix + subscriber

    def key(self, subscriber: _Key, event: _Key) -> _Key:
        return subscriber if self.shared else event

    def partition(self, of_event: Any, partitions: Any) -> Any:
        """Return the partition in a topic with that many partitions, or BY_KEY."""
        return BY_KEY if self.shared else of_event % partitions

    def record(
        self, subscriber: str, key: bytes | None, value: bytes | None, headers: Headers, ids: str, partition: int
    ) -> Record:
        """Return the delivery of an event with this key; `headers` are its `event_headers`, `ids` a JSON list."""
        headers = [*headers, (IDS, ids.encode())]
        return Record(self.topic(subscriber), self.key(subscriber.encode(), key), value, headers, partition)
