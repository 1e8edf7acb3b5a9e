"""The topics of subscribers: list them with their partitions, and create missing ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from streaming.kafka.topics import Topic, Topics
from streaming.log import logger

if TYPE_CHECKING:
    from config.model import Settings

log = logger("sluice.outputs")


def outputs(settings: Settings, topics: Topics) -> OutputTopics:
    """The topics of subscribers. Missing ones are created if the settings allow it."""
    deliveries = settings.deliveries
    make = deliveries.create_topics and deliveries.layout == "topic_per_subscriber"
    return OutputTopics(topics, deliveries.partitions, deliveries.replication_factor, make)


class OutputTopics:
    """Asks the broker once at the start, and again only about topics it has not seen."""

    def __init__(self, topics: Topics, partitions: int, replication_factor: int, create: bool) -> None:
        self._topics = topics
        self._partitions = partitions
        self._replication_factor = replication_factor
        self._create = create
        self._known = topics.partitions()

    def missing(self, topics: Iterable[str]) -> set[str]:
        """The topics that do not exist, after an attempt to create them if the job may."""
        unknown = set(topics) - self._known.keys()
        if not unknown:
            return set()
        if self._create:
            wanted = [Topic(name, self._partitions, self._replication_factor) for name in sorted(unknown)]
            failed = self._topics.create(wanted)
            for name, reason in failed.items():
                log.warning("output topic cannot be made", topic=name, reason=reason)
            there = self._topics.partitions()  # somebody else may have made one of them, with another number
            self._known |= {name: there.get(name, self._partitions) for name in unknown - failed.keys()}
        else:
            there = self._topics.partitions()
            self._known |= {name: there[name] for name in unknown & there.keys()}
        return unknown - self._known.keys()

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic; for a missing one, the number with which it would be created."""
        return self._known.get(topic, self._partitions)

    def refresh(self) -> None:
        """Ask the broker again: topics may have been deleted, or created again with other partitions."""
        self._known = self._topics.partitions()
