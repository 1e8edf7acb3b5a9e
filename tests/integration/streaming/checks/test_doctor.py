"""`doctor` on a real broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from config.model import Settings
from streaming.checks import Finding
from streaming.checks.cluster import findings
from streaming.checks.cluster_info import ClusterInfo
from streaming.kafka import layout
from streaming.kafka.clients import Cluster
from streaming.kafka.topics import Topic
from tests.integration.conftest import HOME, JARS, CommandLine
from tests.support.patience import PATIENCE_S


def diagnosed(sluice: CommandLine, code: int) -> dict[str, str]:
    """The state of each check that Kafka has a part in."""
    command = sluice.command("doctor", "--json")
    done = subprocess.run(command, capture_output=True, text=True, env=sluice.environment, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {one["check"].replace(f"{sluice.name}.", ""): one["state"] for one in found}


def test_the_doctor_is_content_with_what_topics_create_makes(sluice: CommandLine) -> None:
    topics = {f"topic {name}" for name in ("events", "subscriptions", "status", "dead")}
    before = diagnosed(sluice, 1)
    assert {before[topic] for topic in topics} == {"failure"}
    sluice("topics", "create")
    sluice("produce", stdin="{}\n")
    cluster = Cluster(sluice.environment["SLUICE_KAFKA__BOOTSTRAP_SERVERS"], {})
    there = cluster.topics().partitions()
    after = diagnosed(sluice, 0)
    checks = (*topics, "broker", "transactions", "permissions", "delivery topics", "largest delivery", "clock")
    assert {after[check] for check in checks} == {"ok"}
    assert cluster.topics().partitions() == there
    sluice.environment["SLUICE_SUBSCRIPTIONS__TOPIC"] = f"{sluice.name}.dead"
    sluice.environment["SLUICE_DEAD_LETTERS__TOPIC"] = f"{sluice.name}.subscriptions"
    swapped = diagnosed(sluice, 1)
    assert {name for name, state in swapped.items() if state == "failure"} == {"topic dead", "topic subscriptions"}


def test_the_remedies_for_topics_can_be_pasted(sluice: CommandLine, cluster: Cluster, tmp_path: Path) -> None:
    """Run by a shell, with Kafka's own tool."""
    settings, topics = sluice.settings(), cluster.topics()
    prefix, subscriptions = settings.deliveries.prefix, settings.subscriptions.topic
    large = {"segment.index.bytes": "10485760", "index.interval.bytes": "4096"}
    wrong = {f"{prefix}alice": large, f"{prefix}bob": large, subscriptions: {"cleanup.policy": "delete"}}
    right = [topic for topic in layout.topics(settings, 1, 1) if topic.name != subscriptions]
    assert topics.create([*right, *(Topic(name, config=config) for name, config in wrong.items())]) == {}
    deadline = time.monotonic() + PATIENCE_S
    while not wrong.keys() <= topics.partitions().keys():  # the broker knows a moment after it has answered
        assert time.monotonic() < deadline
        time.sleep(0.1)
    remedies = [one.remedy for one in found(settings, cluster) if one.state in ("warning", "failure")]
    assert len(remedies) == 2
    tools(tmp_path)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    for remedy in remedies:
        done = subprocess.run(
            ["bash", "-c", remedy],
            capture_output=True,
            text=True,
            env={**sluice.environment, "PATH": path},
            check=False,
        )
        assert done.returncode == 0, remedy + done.stdout + done.stderr
    assert {one.state for one in found(settings, cluster) if "topic" in one.what} == {"ok"}


def tools(directory: Path) -> None:
    """Kafka's scripts as far as the embedded broker's jars have them; the list of topics is ours."""
    java = f'exec java -cp "{JARS}/broker/*" kafka.admin.ConfigCommand "$@"'
    listed = f"{sys.executable} {HOME}/run_stream.py topics list | cut -f 1"
    for name, line in (("kafka-configs.sh", java), ("kafka-topics.sh", listed)):
        (directory / name).write_text(f"#!/bin/sh\n{line}\n")
        (directory / name).chmod(0o755)


def found(settings: Settings, cluster: Cluster) -> list[Finding]:
    with closing(ClusterInfo(cluster)) as info:
        return list(findings(settings, info, int(time.time() * 1000)))
