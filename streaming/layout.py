"""The topics that a job needs, with the settings it relies on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.topics import Topic

if TYPE_CHECKING:
    from config.model import Settings

DAY_MS = 24 * 3600 * 1000


def needed(settings: Settings) -> list[str]:
    """Names of the topics without which the job does not start."""
    shared = [settings.deliveries.topic] if settings.deliveries.layout == "shared" else []
    return [
        settings.events.topic,
        settings.subscriptions.topic,
        settings.subscriptions.status_topic,
        settings.dead_letters.topic,
        *shared,
    ]


def delivery_topic(settings: Settings, subscriber: str) -> str:
    """Where a subscriber reads."""
    deliveries = settings.deliveries
    return deliveries.topic if deliveries.layout == "shared" else deliveries.prefix + subscriber


def topics(settings: Settings, partitions: int, replication_factor: int) -> list[Topic]:
    """The same, ready to be made; `partitions` is for those that grow with the load."""
    compacted = {
        "cleanup.policy": "compact",
        # A restart rebuilds the state of the last committed offset from the topic, so for a day no record may be
        # removed because a newer one has come.
        "min.compaction.lag.ms": str(DAY_MS),
    }
    # A dead letter is a record that may have been as large as its topic allowed, and some headers.
    roomy = {"max.message.bytes": "20000000"}
    configs = {
        settings.events.topic: (partitions, {}),
        settings.subscriptions.topic: (partitions, compacted),
        settings.subscriptions.status_topic: (1, {"cleanup.policy": "compact"}),
        settings.dead_letters.topic: (1, roomy),
        settings.deliveries.topic: (partitions, {}),
    }
    return [Topic(name, configs[name][0], replication_factor, configs[name][1]) for name in needed(settings)]
