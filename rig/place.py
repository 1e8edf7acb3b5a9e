"""Set up the environment of a measured system: broker, topics, directory, and the job's settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
from streaming.kafka import layout
from streaming.kafka.clients import Cluster
from streaming.kafka.topics import Topic

PARTITIONS = 2
START_TIMEOUT_S = 3_600.0  # of the job: it reads all subscriptions first


@dataclass(frozen=True)
class Place:
    broker: int  # its process
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

    def deliveries(self) -> list[str]:
        """The names of the delivery topics."""
        deliveries = self.settings.deliveries
        if deliveries.layout == "shared":
            return [deliveries.topic]
        return sorted(name for name in self.cluster.topics().partitions() if name.startswith(deliveries.prefix))


@contextmanager
def place(
    flags: Mapping[str, str], partitions: int = PARTITIONS, broker: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Place]:
    """Start a broker, with these properties of Kafka's, and create the topics. `flags` are settings of the job, by
    dotted name."""
    with (
        TemporaryDirectory(prefix="sluice-living-") as directory,
        EmbeddedBroker(HOME / "jars", properties=broker) as kafka,
    ):
        values = {
            "query.name": "living",
            "query.checkpoint": f"{directory}/checkpoint",
            "kafka.bootstrap_servers": kafka.bootstrap_servers,
        }
        settings = load_settings(flags={**flags, **values})
        cluster = Cluster.of(settings)
        cluster.topics().create(_kept(layout.topics(settings, partitions, 1), settings))
        yield Place(kafka.pid, Path(directory), {**flags, **values}, settings, cluster)


def _kept(topics: Iterable[Topic], settings: Settings) -> Iterable[Topic]:
    """Override the retention of the status topic, so that no status is compacted away before the check."""
    for topic in topics:
        forgets = topic.name == settings.subscriptions.status_topic
        yield replace(topic, config={"retention.ms": "-1"}) if forgets else topic
