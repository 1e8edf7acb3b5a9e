"""The topics of a job, with the settings that it relies on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming import tenants
from streaming.documents.records import MAX_RECORD_BYTES
from streaming.kafka.retention import DAY_MS
from streaming.kafka.topics import Topic

if TYPE_CHECKING:
    from config.model import Settings


# Of the metrics topic. A start reads it from the first record, so superseded ones are to be removed soon, and Kafka
# compacts closed segments only.
METRICS = {"cleanup.policy": "compact", "segment.bytes": str(64 << 20), "min.cleanable.dirty.ratio": "0.2"}


def needed(settings: Settings) -> list[str]:
    """The names of the topics without which the job does not start."""
    metrics = [settings.metrics.topic] if settings.metrics.topic else []
    shared = [settings.deliveries.topic] if settings.deliveries.layout == "shared" else []
    return [
        *settings.events.names,
        *(topic for tenant in tenants.of(settings).values() for topic in (tenant.topic, tenant.status_topic)),
        settings.dead_letters.topic,
        *metrics,
        *shared,
    ]


def delivery_config(settings: Settings) -> dict[str, str]:
    """Kafka's settings of a new delivery topic. Those that are "" are left to the broker."""
    return {name: value for name, value in settings.deliveries.topic_config.items() if value}


def topics(settings: Settings, partitions: int, replication_factor: int) -> list[Topic]:
    """The topics to create; `partitions` is for those that grow with the load."""
    compacted = {
        "cleanup.policy": "compact",
        # A restart rebuilds the state of the last committed offset from the topic, so for a day no record may be
        # removed because a newer one has come.
        "min.compaction.lag.ms": str(DAY_MS),
    }
    # A dead letter is a record that may have been as large as its topic allowed, and some headers.
    roomy = {"max.message.bytes": str(MAX_RECORD_BYTES)}
    of_changes = tenants.of(settings).values()
    no_config: dict[str, str] = {}
    configs: dict[str, tuple[int, dict[str, str]]] = {
        **dict.fromkeys(settings.events.names, (partitions, no_config)),
        **{tenant.topic: (partitions, compacted) for tenant in of_changes},
        **{tenant.status_topic: (1, {"cleanup.policy": "compact"}) for tenant in of_changes},
        settings.dead_letters.topic: (1, roomy),
        settings.deliveries.topic: (partitions, delivery_config(settings)),
        settings.metrics.topic: (1, METRICS),
    }
    return [Topic(name, configs[name][0], replication_factor, configs[name][1]) for name in needed(settings)]
