"""Set up what a job needs to run: a directory, a broker, topics, and the job's settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from config import Settings
from config import load as load_settings
from rig.broker import EmbeddedBroker
from rig.child import HOME
from rig.load import Load
from streaming import tenants
from streaming.errors import JobError
from streaming.kafka import layout
from streaming.kafka.clients import Cluster
from streaming.kafka.retention import DAY_MS

PARTITIONS = 2
START_TIMEOUT_S = 3_600.0  # of the job: it reads all subscriptions first
JARS = HOME / "jars"
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Place:
    broker: EmbeddedBroker
    directory: Path
    flags: Mapping[str, str]  # settings of the job, by dotted name
    settings: Settings  # of all these
    cluster: Cluster

    def where(self) -> dict[str, Any]:
        """The arguments of a process that reads or writes."""
        return {"bootstrap_servers": self.cluster.bootstrap_servers, "client": self.cluster.options}

    def writing(self, load: Load) -> dict[str, Any]:
        """The arguments of the process that writes the load."""
        return {
            **self.where(),
            "load": asdict(load),
            "events_topic": self.settings.events.topic,
            "partitions": PARTITIONS,
            "subscriptions_topic": self.settings.subscriptions.topic,
        }

    def following(self) -> dict[str, Any]:
        """The arguments of the process that reads all deliveries, and changes and statuses from now on."""
        subscriptions = self.settings.subscriptions
        topics = {"changes": subscriptions.topic, "statuses": subscriptions.status_topic}
        ends = [
            (topic, partition, end)
            for topic in topics.values()
            for partition, _, end in self.cluster.topics().offsets(topic)
        ]
        return {**self.where(), "deliveries": self.deliveries(), **topics, "starts": ends}

    @property
    def prefix(self) -> str | None:
        """The prefix of all delivery topics; None if all subscribers share one topic."""
        return None if self.settings.deliveries.layout == "shared" else self.settings.deliveries.prefix

    def deliveries(self) -> list[str]:
        """The names of the delivery topics."""
        if self.prefix is None:
            return [self.settings.deliveries.topic]
        return sorted(name for name in self.cluster.topics().partitions() if name.startswith(self.prefix))

    def dead_letters(self) -> int:
        """The number of dead letters so far."""
        return sum(high for _, _, high in self.cluster.topics().offsets(self.settings.dead_letters.topic))


@contextmanager
def place(
    name: str,
    flags: Mapping[str, str] = NOTHING,
    *,
    broker: Mapping[str, str] = NOTHING,
    partitions: int = PARTITIONS,
    kept_ms: int = DAY_MS,
    lasting: bool = False,
) -> Iterator[Place]:
    """Start a broker, with these properties of Kafka's, `lasting` as EmbeddedBroker has it, and create the topics of a
    query of this name. `flags` are settings of the job, by dotted name."""
    with TemporaryDirectory(prefix=f"sluice-{name}-", ignore_cleanup_errors=True) as path:
        directory = Path(path)
        with EmbeddedBroker(JARS, directory / "broker", properties=broker, lasting=lasting) as kafka:
            values = {
                "query.name": name,
                "query.checkpoint": str(directory / "checkpoint"),
                "kafka.bootstrap_servers": kafka.bootstrap_servers,
            }
            settings = load_settings(flags={**flags, **values})
            cluster = Cluster.of(settings)
            create_topics(cluster, settings, partitions, kept_ms=kept_ms)
            yield Place(kafka, directory, {**flags, **values}, settings, cluster)


def create_topics(
    cluster: Cluster,
    settings: Settings,
    partitions: int,
    replicas: int = 1,
    *,
    kept_ms: int = DAY_MS,
    config: Mapping[str, Mapping[str, str]] = NOTHING,
) -> None:
    """Create the topics of the job, with more `config` of Kafka's by topic. For `kept_ms` no status is compacted away,
    so that each can be checked. Raises JobError."""
    statuses = (tenant.status_topic for tenant in tenants.of(settings).values())
    more = {**{topic: {"min.compaction.lag.ms": str(kept_ms)} for topic in statuses}, **config}
    topics = layout.topics(settings, partitions, replicas)
    rejected = cluster.topics().create(replace(t, config={**t.config, **more.get(t.name, {})}) for t in topics)
    if rejected:
        raise JobError(f"the broker did not create these topics: {rejected}")
