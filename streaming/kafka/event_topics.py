"""Choose the topics of events by a pattern of their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streaming import tenants
from streaming.errors import TopicDeleted, TopicMissing

if TYPE_CHECKING:
    from config.model import Settings


def is_matched(settings: Settings, topic: str) -> bool:
    """Whether the pattern matches a topic that is neither Kafka's own nor one that the job writes or reads changes
    from."""
    return (
        re.fullmatch(settings.events.topic_pattern, topic) is not None
        and not topic.startswith("__")
        and not _is_own(settings, topic)
    )


def resolved(settings: Settings, partitions: Callable[[], Mapping[str, int]]) -> Settings:
    """The settings with the topics that the pattern matches now, if there is one; `partitions` lists all topics. Raises
    TopicMissing if there are none, and the errors of `Topics.partitions`."""
    if not settings.events.topic_pattern:
        return settings
    matched = sorted(topic for topic in partitions() if is_matched(settings, topic))
    if not matched:
        raise TopicMissing(
            f"events.topic_pattern = {settings.events.topic_pattern!r} matches no topic; create one first"
        )
    return settings.model_copy(update={"events": settings.events.model_copy(update={"topics": matched})})


@contextmanager
def deleted_if_matched(settings: Settings) -> Iterator[None]:
    """Raise TopicDeleted in place of TopicMissing under a pattern: a topic was there when the pattern was resolved."""
    try:
        yield
    except TopicMissing as error:
        if settings.events.topic_pattern:
            raise TopicDeleted(str(error)) from error
        raise


def _is_own(settings: Settings, topic: str) -> bool:
    """Kafka has no two topics that differ in dots and underscores only."""
    deliveries = settings.deliveries
    of_changes = tenants.of(settings).values()
    own = {t.topic for t in of_changes} | {t.status_topic for t in of_changes}
    own |= {settings.dead_letters.topic, settings.metrics.topic}
    if deliveries.layout == "shared":
        return topic in {*own, deliveries.topic}
    return topic in own or topic.replace(".", "_").startswith(deliveries.prefix.replace(".", "_"))
