"""The topics of subscribers: list them with their partitions, and create missing ones."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import MappingProxyType
from typing import TYPE_CHECKING

from streaming.errors import JobError
from streaming.kafka import layout
from streaming.kafka.topics import Topic, Topics
from streaming.log import error_fields, logger

if TYPE_CHECKING:
    from config.model import Settings

log = logger("sluice.outputs")


UNUSED = "sluice-check"  # the end of the name of a delivery topic that is never created
MAX_AGE_S = 300.0  # of metadata, without metadata.max.age.ms


def outputs(settings: Settings, topics: Topics) -> OutputTopics:
    """The topics of subscribers. Missing ones are created if the settings allow it."""
    deliveries = settings.deliveries
    shared = deliveries.layout == "shared"
    return OutputTopics(
        topics,
        deliveries.partitions,
        deliveries.replication_factor,
        deliveries.create_topics and not shared,
        prefix=deliveries.topic if shared else deliveries.prefix,
        max_age_s=float(settings.kafka.client.get("metadata.max.age.ms", 1000 * MAX_AGE_S)) / 1000,
        config=layout.delivery_config(settings),
    )


def trial(settings: Settings) -> Topic:
    """A topic as the job would create it, for the broker to validate. It is never created."""
    deliveries = settings.deliveries
    config = layout.delivery_config(settings)
    return Topic(f"{deliveries.prefix}{UNUSED}", deliveries.partitions, deliveries.replication_factor, config)


def check_config(settings: Settings, topics: Topics) -> None:
    """Raises JobError if the broker rejects the settings of the topics that the job may create: each delivery to a new
    subscriber would become a dead letter."""
    deliveries = settings.deliveries
    if deliveries.create_topics and deliveries.layout != "shared" and (why := topics.rejected_config(trial(settings))):
        raise JobError(f"the broker rejects deliveries.topic_config: {why}")


class OutputTopics:
    """Lists the topics at the start, when it meets a new one, and every `max_age_s`: partitions may be
    added. That list comes from a thread, so that no batch waits for it.
    """

    def __init__(
        self,
        topics: Topics,
        partitions: int,
        replication_factor: int,
        create: bool,
        prefix: str = "",
        max_age_s: float = MAX_AGE_S,
        config: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._replication_factor = replication_factor
        self._create = create
        self._prefix = prefix
        self._max_age_s = max_age_s
        self._config = config
        self._thread = ThreadPoolExecutor(1, "sluice-topics")
        self._unusual: Mapping[str, int] = {}
        self.refresh()

    def missing(self, topics: Iterable[str]) -> set[str]:
        """The topics that do not exist, after an attempt to create them if the job may."""
        self._look()
        unknown = set(topics) - self._known.keys()
        if not unknown:
            return set()
        if self._create:
            failed = self._topics.create(
                Topic(name, self._partitions, self._replication_factor, self._config) for name in sorted(unknown)
            )
            for name, reason in failed.items():
                log.warning("output_topic_failed", topic=name, error=reason)
            there = self._topics.partitions()  # somebody else may have made one of them, with another number
            self._know({name: there.get(name, self._partitions) for name in unknown - failed.keys()})
        else:
            there = self._topics.partitions()
            self._know({name: there[name] for name in unknown & there.keys()})
        return unknown - self._known.keys()

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic; for a missing one, the number with which it would be created."""
        return self._known.get(topic, self._partitions)

    def unusual(self) -> Mapping[str, int]:
        """The number of partitions of all topics for which it is not `deliveries.partitions`. As long as nothing has
        changed, it is the same object."""
        self._look()
        return self._unusual

    def refresh(self) -> None:
        """Ask the broker again: topics may have been deleted, or created again with other partitions."""
        self._listing: Future[dict[str, int]] | None = None  # an older one has less
        self._known: dict[str, int] = {}
        self._know(self._topics.partitions())
        self._due = time.monotonic() + self._max_age_s

    def _look(self) -> None:
        """List all topics if it is time, and take in the list once it is there."""
        if self._listing is None and time.monotonic() >= self._due:
            self._listing = self._thread.submit(self._topics.partitions)
        if self._listing is None or not self._listing.done():
            return
        listing, self._listing = self._listing, None
        self._due = time.monotonic() + self._max_age_s
        try:
            self._know(listing.result())
        except JobError as error:
            log.warning("topic_list_unavailable", **error_fields(error))

    def _know(self, partitions: dict[str, int]) -> None:
        self._known = self._known | partitions
        unusual = {
            name: n for name, n in self._known.items() if n != self._partitions and name.startswith(self._prefix)
        }
        if unusual != self._unusual:
            self._unusual = unusual
