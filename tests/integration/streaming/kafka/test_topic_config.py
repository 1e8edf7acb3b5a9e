"""`deliveries.topic_config` on a real broker."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from streaming.checks.cluster_info import ClusterInfo
from streaming.driver import assembly
from streaming.errors import JobError
from streaming.kafka.clients import Cluster
from streaming.kafka.outputs import outputs
from streaming.publishing.delivery import DeliveryRule
from tests.integration.conftest import CommandLine, but
from tests.support.patience import PATIENCE_S


def configs(cluster: Cluster, topic: str) -> Mapping[str, str]:
    info = ClusterInfo(cluster)
    try:
        found = info.settings(topic)
    finally:
        info.close()
    assert found is not None
    return found


def test_topics_of_subscribers_are_created_with_these_settings(sluice: CommandLine, cluster: Cluster) -> None:
    own = {"retention.ms": 86_400_000, "index.interval.bytes": 4_096, "preallocate": False}
    settings = but(sluice.settings(), deliveries={"topic_config": own})
    topic = DeliveryRule.of(settings.deliveries).topic("alice")
    assert outputs(settings, cluster.topics()).missing([topic]) == set()
    found = configs(cluster, topic)
    wanted = {"segment.index.bytes": "262144", "index.interval.bytes": "4096", "retention.ms": "86400000"}
    assert {name: found[name] for name in wanted} == wanted


def test_the_shared_topic_is_created_with_these_settings(sluice: CommandLine, cluster: Cluster) -> None:
    shared = f"{sluice.name}.shared"
    flags = (
        "deliveries.layout=shared",
        f"deliveries.topic={shared}",
        "deliveries.topic_config.retention.ms=86400000",
    )
    sluice("topics", "create", *(word for flag in flags for word in ("--set", flag)))
    found = configs(cluster, shared)
    wanted = {"segment.index.bytes": "262144", "index.interval.bytes": "65536", "retention.ms": "86400000"}
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("retntion.ms", "5", "the broker rejects deliveries.topic_config: Unknown topic config name: retntion.ms"),
        ("retention.ms", "soon", "Invalid value soon for configuration retention.ms: Not a number of type LONG"),
    ],
)
def test_a_job_with_settings_that_the_broker_rejects_does_not_start(
    name: str, value: str, reason: str, sluice: CommandLine, cluster: Cluster
) -> None:
    sluice("topics", "create")
    settings = but(sluice.settings(), deliveries={"topic_config": {name: value}})
    with pytest.raises(JobError, match=reason) as raised:
        assembly.topics(settings)
    assert not raised.value.retry
    assert not [topic for topic in cluster.topics().partitions() if topic.startswith(settings.deliveries.prefix)]
    assembly.topics(but(settings, deliveries={"create_topics": False}))


def test_the_job_says_which_setting_of_topics_is_wrong(sluice: CommandLine, tmp_path: Path) -> None:
    sluice("topics", "create")
    command = sluice.command("run", "--set", "deliveries.topic_config.retntion.ms=5")
    done = subprocess.run(
        command, capture_output=True, text=True, env=sluice.environment, cwd=tmp_path, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "the broker rejects deliveries.topic_config: Unknown topic config name: retntion.ms" in done.stderr
