"""Check the settings of delivery topics, and whether the broker accepts those of new ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from streaming.checks import FAILURE, OK, SKIPPED, WARNING, Finding, machine
from streaming.checks.cluster_info import ClusterInfo
from streaming.checks.topic_commands import altered
from streaming.kafka import layout
from streaming.kafka.outputs import trial

if TYPE_CHECKING:
    from config.model import Settings

MOST_TOPICS = 1_000  # topics to check
FAR_KB = 1_024  # of read-ahead; Linux's default is 128
INDEX_BYTES = "segment.index.bytes"


def finding(settings: Settings, cluster: ClusterInfo, there: Mapping[str, int]) -> Finding:
    """Compare existing topics with deliveries.topic_config, which the broker must accept for new ones."""
    what = "delivery topics"
    if reason := cluster.rejected_config(trial(settings)):
        remedy = "Correct [deliveries.topic_config]; Kafka's documentation lists the settings of topics."
        return Finding(what, FAILURE, f"the broker rejects deliveries.topic_config: {reason}", remedy)
    names, wanted = existing(settings, there), layout.delivery_config(settings)
    found = cluster.settings_of(names)
    if names and not found:
        remedy = "Grant the permission describe_configs on the topics."
        return Finding(what, SKIPPED, f"{len(names):,} exist; this user may not see their settings", remedy)
    different = {name: values for name, config in found.items() if (values := _different(config, wanted))}
    if not different:
        return Finding(what, OK, f"{len(found):,} exist, with the settings of deliveries.topic_config")
    return Finding(what, WARNING, _text(settings, found, different), _remedy(settings, wanted, different))


def existing(settings: Settings, there: Mapping[str, int]) -> list[str]:
    """The names of delivery topics, at most MOST_TOPICS."""
    deliveries = settings.deliveries
    if deliveries.layout == "shared":
        return [deliveries.topic] if deliveries.topic in there else []
    return sorted(topic for topic in there if topic.startswith(deliveries.prefix))[:MOST_TOPICS]


def _text(settings: Settings, found: Mapping[str, object], different: Mapping[str, Mapping[str, str]]) -> str:
    name, values = next(iter(different.items()))
    wrong = ", ".join(f"{key}={value}" for key, value in values.items())
    text = f"{len(different):,} of {len(found):,} differ from deliveries.topic_config, such as {name}: {wrong}."
    if any(INDEX_BYTES in values for values in different.values()):
        text += " Kafka maps two index files of that size per partition, and Linux caches them as far as it reads ahead"
        far = _far(settings)
        text += f" (this machine: {far})." if far else "."
    return f"{text} A new value applies from the next segment of a topic on"


def _remedy(settings: Settings, wanted: Mapping[str, str], different: Mapping[str, Mapping[str, str]]) -> str:
    keys = {key for values in different.values() for key in values}
    (topic, *more) = different
    return altered(settings, {key: wanted[key] for key in wanted if key in keys}, None if more else topic)


def _different(config: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    return {key: config[key] for key, value in wanted.items() if key in config and not _same(config[key], value)}


def _same(found: str, wanted: str) -> bool:
    """Whether two values of a setting are equal as numbers or, apart from case and spaces, as strings."""
    try:
        return float(found) == float(wanted)
    except ValueError:
        return found.replace(" ", "").lower() == wanted.replace(" ", "").lower()


def _far(settings: Settings) -> str:
    """The devices of this machine that read far ahead, if all brokers are on it."""
    hosts = [server.strip().rpartition(":")[0].strip("[]") for server in settings.kafka.bootstrap_servers.split(",")]
    if not all(host in ("localhost", "::1") or host.startswith("127.") for host in hosts):
        return ""
    return ", ".join(f"{name} {kb:,} kB" for name, kb in machine.read_ahead_kb().items() if kb >= FAR_KB)
