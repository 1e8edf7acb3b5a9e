"""The rule of a delivery: which topic it goes to, which partition of that, and with which key.

    deliveries.layout      topic                           partition                           key
    topic_per_subscriber   the prefix and the subscriber   that of the event, as often fits    that of the event
    shared                 one for all                     where Kafka's clients put the key   the subscriber

So all deliveries of one event partition to one subscriber go to one partition, whatever the keys of events are, and
stay in order. The headers are those of `streaming.documents.records.event_headers`, then the subscriptions.

Commands follow it too that load no numpy.
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
    """Say where deliveries go. Keys and numbers may be columns of them."""

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
        """The partition of a topic that has so many, or BY_KEY."""
        return BY_KEY if self.shared else of_event % partitions

    def record(
        self, subscriber: str, key: bytes | None, value: bytes | None, headers: Headers, ids: str, partition: int
    ) -> Record:
        """A single delivery of an event with this key; `headers` are its `event_headers`, `ids` a JSON list."""
        headers = [*headers, (IDS, ids.encode())]
        return Record(self.topic(subscriber), self.key(subscriber.encode(), key), value, headers, partition)
