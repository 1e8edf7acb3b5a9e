"""The topics that subscribers read: which exist, and making those that do not."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from streaming.topics import Topic, Topics

if TYPE_CHECKING:
    from config.model import Settings

log = logging.getLogger("sluice.outputs")


def outputs(settings: Settings, topics: Topics) -> OutputTopics:
    """Those that the settings allow to be made are."""
    deliveries = settings.deliveries
    make = deliveries.create_topics and deliveries.layout == "topic_per_subscriber"
    return OutputTopics(topics, deliveries.partitions, deliveries.replication_factor, make)


class OutputTopics:
    """Asks the broker once at the start and again only about topics it has not seen."""

    def __init__(self, topics: Topics, partitions: int, replication_factor: int, create: bool) -> None:
        self._topics = topics
        self._partitions = partitions
        self._replication_factor = replication_factor
        self._create = create
        self._known = set(topics.partitions())

    def missing(self, topics: Iterable[str]) -> set[str]:
        """Those that do not exist, after an attempt to make them where the job may."""
        unknown = set(topics) - self._known
        if not unknown:
            return set()
        if self._create:
            wanted = [Topic(name, self._partitions, self._replication_factor) for name in sorted(unknown)]
            failed = self._topics.create(wanted)
            for name, reason in failed.items():
                log.warning("output topic cannot be made", extra={"fields": {"topic": name, "reason": reason}})
            self._known |= unknown - failed.keys()
        else:
            self._known |= unknown & self._topics.partitions().keys()
        return unknown - self._known

    def refresh(self) -> None:
        self._known = set(self._topics.partitions())
