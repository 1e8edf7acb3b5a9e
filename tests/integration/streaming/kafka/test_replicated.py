"""Three brokers, of which one is killed: slots and the job go on, exactly once and in order."""

from __future__ import annotations

import gc
import json
import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka.admin import KafkaAdminClient
from kafka.protocol.metadata import CoordinatorType

from rig.broker import EmbeddedCluster
from streaming.kafka.clients import Cluster, read
from streaming.publishing.fencing import slot_name
from tests.integration.conftest import JARS, CommandLine, prefix
from tests.integration.running import job, lines, subscription
from tests.integration.streaming.publishing.test_slots import Stage
from tests.support.patience import PATIENCE_S

log = logging.getLogger(__name__)

# The controller gives the partitions of a dead broker to others after 4 s instead of 9 s.
SOON = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}
REPLICAS = 3
PARTITIONS = 4
SUBSCRIBERS = 20
VALUES = 10  # of x
EVENTS_PER_S = 400
LOAD_S = 12.0  # after a broker was killed, and after it has come back

pytestmark = [
    # kafka-python leaves the sockets of failed connections to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(JARS, properties=SOON) as cluster:
        yield cluster
    gc.collect()


@pytest.fixture
def stage(brokers: EmbeddedCluster) -> Iterator[Stage]:
    with prefix(brokers.bootstrap_servers) as name:
        stage = Stage(brokers.bootstrap_servers, name, REPLICAS)
        with closing(stage.client):
            yield stage


@pytest.mark.parametrize("request_name", ["Produce", "TxnOffsetCommit", "EndTxn"])
@pytest.mark.parametrize("role", ["coordinator of the slot", "coordinator of the group", "leader"])
def test_a_transaction_outlives_a_broker(brokers: EmbeddedCluster, stage: Stage, role: str, request_name: str) -> None:
    """It is killed before the request."""
    done = stage.publish(stage.slot().open(), [b"a", b"b", b"c", b"d"], 4)
    node = {
        "coordinator of the slot": stage.client._coordinators[CoordinatorType.TRANSACTION, slot_name(stage.group, 0)],
        "coordinator of the group": stage.client._coordinators[CoordinatorType.GROUP, stage.group],
        "leader": stage.client._topics[stage.out[0]].leaders[0],
    }[role]
    stage.client.before[request_name] = brokers.brokers[node].kill
    try:
        done = stage.publish(done.producer, [b"e", b"f", b"g", b"h"], 8)
        assert brokers.ended == [brokers.brokers[node]]
        stage.publish(done.producer, [b"i", b"j", b"k", b"l"], 12)
        assert (b"".join(stage.read()), stage.offset()) == (b"abcdefghijkl", 12)
    finally:
        brokers.brokers[node].restart()


def test_the_job_goes_on_when_a_broker_is_killed_under_load(brokers: EmbeddedCluster, tmp_path: Path) -> None:
    address = brokers.bootstrap_servers
    with prefix(address) as name:
        sluice = CommandLine(address, name, tmp_path)
        sluice.environment |= {
            "SLUICE_DELIVERIES__REPLICATION_FACTOR": str(REPLICAS),
            "SLUICE_DELIVERIES__PARTITIONS": "2",
        }
        sluice("topics", "create", "--partitions", str(PARTITIONS), "--replication-factor", str(REPLICAS))
        ours = [subscription(f"s{i}", f"r{i}", x=[i % VALUES]) for i in range(SUBSCRIBERS)]
        sluice("subscribe", stdin=lines(*ours))
        load = Load(address, f"{name}.events")
        with job(sluice, "--supervise", fresh=True) as running:
            running.running()
            load.produce(LOAD_S)
            for role in (slot_name(name, 0), slot_name(name, 1), name):
                node = coordinator(address, role)
                brokers.brokers[node].kill()
                load.produce(LOAD_S)
                before = running.total("events")
                running.until("going on", lambda before=before: running.total("events") > before)
                brokers.brokers[node].restart()
                load.produce(LOAD_S / 4)
            load.flush()
            assert delivered(address, name, load.sent) == load.expected()
            ends = [datetime.fromisoformat(line["time"]) for line in running.lines if line["event"] == "batch"]
            gaps = sorted(((b - a).total_seconds() for a, b in pairwise(ends)), reverse=True)
            starts = sum(line["event"] == "running" for line in running.lines)
            log.info("%d events; longest pauses between two batches: %s s; starts: %d", load.sent, gaps[:5], starts)


class Load:
    """Numbered events; event n has x = n % VALUES, and lies in partition n % PARTITIONS."""

    def __init__(self, address: str, topic: str) -> None:
        self.sent = 0
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5})

    def produce(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(EVENTS_PER_S // 20):
                event = {"x": self.sent % VALUES, "n": self.sent}
                self._producer.produce(self._topic, json.dumps(event).encode(), partition=self.sent % PARTITIONS)
                self.sent += 1
            self._producer.poll(0.05)
            time.sleep(0.05)

    def flush(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0

    def expected(self) -> Mapping[str, list[list[int]]]:
        """For each subscriber and partition of the events, in their order."""
        return {
            f"r{i}": [
                [n for n in range(self.sent) if n % VALUES == i % VALUES and n % PARTITIONS == p]
                for p in range(PARTITIONS)
            ]
            for i in range(SUBSCRIBERS)
        }


def delivered(address: str, name: str, events: int) -> Mapping[str, list[list[int]]]:
    """As `Load.expected`; waits until all are there."""
    numbers: dict[str, list[list[int]]] = defaultdict(lambda: [[] for _ in range(PARTITIONS)])
    topics = {f"{name}.to.r{i}": f"r{i}" for i in range(SUBSCRIBERS)}
    left = events * SUBSCRIBERS // VALUES
    deadline = time.monotonic() + PATIENCE_S
    for record in read(Cluster(address, {}), list(topics), follow=True):
        if record is not None:
            n = json.loads(record.value() or b"")["n"]
            numbers[topics[record.topic() or ""]][n % PARTITIONS].append(n)
            left -= 1
        elif left <= 0 or time.monotonic() > deadline:
            break
    return dict(numbers)


def coordinator(address: str, transactional_id: str) -> int:
    """Its node."""
    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        return int(admin.describe_transactions([transactional_id])[transactional_id].coordinator_id)
    finally:
        admin.close()
