"""`doctor` on a real broker."""

from __future__ import annotations

import json
import subprocess

from streaming.kafka.clients import Cluster
from tests.integration.conftest import CommandLine


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
    checks = (*topics, "broker", "transactions", "rights", "largest delivery", "clock")
    assert {after[check] for check in checks} == {"ok"}
    assert cluster.topics().partitions() == there
    sluice.environment["SLUICE_SUBSCRIPTIONS__TOPIC"] = f"{sluice.name}.dead"
    sluice.environment["SLUICE_DEAD_LETTERS__TOPIC"] = f"{sluice.name}.subscriptions"
    swapped = diagnosed(sluice, 1)
    assert {name for name, state in swapped.items() if state == "failure"} == {"topic dead", "topic subscriptions"}
