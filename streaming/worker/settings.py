"""The settings that the tasks of all batches follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from streaming.codecs import RegistrySettings
from streaming.publishing.delivery import DeliveryRule
from streaming.rows import EVENTS, Source
from streaming.source_topics import EventTopic
from streaming.tenants import ANYBODY, Tenants


@dataclass(frozen=True)
class TaskSettings:
    """Tell tasks how to read, match and publish; the same in all batches."""

    topics: Mapping[Source, EventTopic] = field(default_factory=lambda: {EVENTS: EventTopic("")})  # of events
    tenants: Tenants = field(default_factory=lambda: ANYBODY)
    registry: RegistrySettings | None = None  # for the codecs whose schemas are in one
    max_event_bytes: int = 1_000_000
    max_matches: int = 0  # of an event; 0: any number
    memory_mb: int = 0  # what a worker may take beyond what it starts with and what it maps; 0: any amount
    bootstrap_servers: str = ""
    options: Mapping[str, str] = field(default_factory=dict)  # of Kafka's clients, under librdkafka's names
    query: str = ""  # also the group of the offsets
    dead_letters: str = ""  # topic
    rule: DeliveryRule = field(default_factory=DeliveryRule)
    max_bytes: int = 1_000_000  # of a delivery
    max_batch_bytes: int = 1 << 30  # that delivery topics take
    partitions: int = 1  # of a delivery topic, unless the publication has another number
    counts_subscribers: bool = False  # and reports what each got
    counts_subscriptions: bool = False  # of these subscribers too

    def as_json(self) -> TaskSettings:
        """Return these settings with JSON as the codec of all events."""
        return replace(self, topics={source: topic._replace(codec="json") for source, topic in self.topics.items()})
