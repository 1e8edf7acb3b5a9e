"""`consume` and `tap` on a real broker, in both layouts."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from config.model import Settings
from streaming.documents import records
from streaming.documents.records import Origin
from streaming.kafka.clients import Cluster
from streaming.kafka.topics import Topic
from streaming.publishing.delivery import DeliveryRule
from tests.integration.conftest import CommandLine, but
from tests.support.patience import PATIENCE_S


@pytest.fixture(params=["topic_per_subscriber", "shared"])
def settings(request: pytest.FixtureRequest, sluice: CommandLine) -> Settings:
    settings = but(sluice.settings(), deliveries={"layout": request.param})
    sluice.environment["SLUICE_DELIVERIES__LAYOUT"] = request.param
    sluice.environment["SLUICE_DELIVERIES__TOPIC"] = settings.deliveries.topic
    topics = {DeliveryRule.of(settings.deliveries).topic(subscriber) for subscriber in ("alice", "bob")}
    assert Cluster(settings.kafka.bootstrap_servers, {}).topics().create(map(Topic, topics)) == {}
    return settings


def deliver(settings: Settings, subscriber: str, *events: str) -> None:
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers})
    for n, event in enumerate(events):
        headers = records.event_headers((), Origin("events", 0, n, 1_000), 7)
        rule = DeliveryRule.of(settings.deliveries)
        made = rule.record(subscriber, subscriber.encode(), event.encode(), headers, '["s1","s2"]', 0)
        producer.produce(made.topic, made.value, made.key, headers=[*made.headers])
    assert producer.flush(PATIENCE_S) == 0


@contextmanager
def tap(sluice: CommandLine, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """Run a `tap` that watches."""
    command = sluice.command("tap", "alice", *flags)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=sluice.environment) as process:
        try:
            assert process.stderr is not None
            assert process.stderr.readline() == "watching deliveries of alice; Ctrl-C ends it\n"
            yield process
        finally:
            process.kill()


def test_deliveries_show_as_they_come(sluice: CommandLine, settings: Settings) -> None:
    deliver(settings, "alice", "before")
    with tap(sluice) as process:
        deliver(settings, "bob", "not hers")
        deliver(settings, "alice", '{"x": 1}')
        assert process.stdout is not None
        _, late, version, ids, event = re.split(r" {2,}", process.stdout.readline())
        assert late.strip().endswith(" ms")
        assert (version, ids, event) == ("version 7", "s1, s2", '{"x": 1}\n')
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=PATIENCE_S) == ("", "")
        assert process.returncode == 0


def test_a_tap_ends_at_its_limit_or_its_time(sluice: CommandLine, settings: Settings) -> None:
    deliver(settings, "bob", "not hers")
    deliver(settings, "alice", "1", "2", "3")
    every = ("tap", "alice", "--from-beginning", "--json")
    found = [json.loads(line) for line in sluice(*every, "--limit", "2").splitlines()]
    assert [(one["value"], one["matchversion"], one["subscriptionids"]) for one in found] == [
        ("1", 7, ["s1", "s2"]),
        ("2", 7, ["s1", "s2"]),
    ]
    timeout_s = 3
    while (count := len(sluice(*every, "--timeout", str(timeout_s)).splitlines())) < 3 and timeout_s < PATIENCE_S:
        timeout_s *= 2
    assert count == 3
    sluice(*every, "--timeout", "1", "--limit", "9", code=1)
    assert sluice("consume", "alice", "--count", "2") == "1\n2\n"


def test_who_has_no_topic_is_told_when_there_will_be_one(sluice: CommandLine) -> None:
    said = sluice("tap", "nobody", code=1)
    assert "the job creates it with the first subscription of nobody" in said
    assert "Traceback" not in said
