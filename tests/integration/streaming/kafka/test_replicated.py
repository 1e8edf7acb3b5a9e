"""Three brokers, of which one is killed: slots and the job go on, exactly once and in order."""

from __future__ import annotations

import gc
import json
import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from copy import copy
from datetime import datetime
from itertools import count, pairwise, product
from pathlib import Path
from threading import Barrier, Event

import pytest
from confluent_kafka import Producer
from kafka.admin import KafkaAdminClient
from kafka.protocol.metadata import CoordinatorType

from rig.broker import EmbeddedCluster
from streaming.kafka.clients import Cluster, read
from streaming.publishing.fencing import slot_name
from tests.integration.conftest import JARS, CommandLine, prefix
from tests.integration.running import Job, job, lines, subscription
from tests.integration.streaming.publishing.test_slots import Stage
from tests.integration.streaming.publishing.troubled_client import TroubledClient
from tests.support.patience import PATIENCE_S

log = logging.getLogger(__name__)

# The controller gives the partitions of a dead broker to others after 4 s instead of 9 s.
SOON = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}
REPLICAS = 3
PARTITIONS = 4
SUBSCRIBERS = 20
VALUES = 10  # of x
EVENTS_PER_S = 400
NEWER = 400  # events
CASES = list(
    product(("coordinator of the slot", "coordinator of the group", "leader"), ("Produce", "TxnOffsetCommit", "EndTxn"))
)
Outlived = Mapping[tuple[str, str], tuple[bytes, Future[int]]]  # by role and request: values and committed offset

pytestmark = [
    # kafka-python leaves the sockets of failed connections to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(JARS, properties=SOON) as cluster:
        yield cluster
    gc.collect()


@pytest.fixture(scope="module")
def outlived(brokers: EmbeddedCluster) -> Iterator[Outlived]:
    """Kill the broker that has all roles while each slot is in the middle of a transaction, before a request; return
    what the slots published and committed."""
    with prefix(brokers.bootstrap_servers) as name, ExitStack() as clients, ThreadPoolExecutor(len(CASES)) as threads:
        stage = Stage(brokers.bootstrap_servers, name, REPLICAS)
        clients.enter_context(closing(stage.client))
        node = stage.client.run(stage.client.leaders, [stage.out[0]], stage.client.attempt())[stage.out[0]].leaders[0]
        waiting, killed = Barrier(len(CASES) + 1), Event()

        def committed(case: int, role: str, request_name: str) -> int:
            mine = copy(stage)
            mine.client = clients.enter_context(closing(TroubledClient(stage.kafka)))
            mine.group = group_of(mine.client, f"{name}.{case}", role, node)
            done = mine.publish(mine.slot().open(), values(case, b"abcd"), 4)
            mine.client.before[request_name] = lambda: (waiting.wait(PATIENCE_S), killed.wait(PATIENCE_S))
            done = mine.publish(done.producer, values(case, b"efgh"), 8)
            mine.publish(done.producer, values(case, b"ijkl"), 12)
            return mine.offset()

        offsets = {at: threads.submit(committed, case, *at) for case, at in enumerate(CASES)}
        waiting.wait(PATIENCE_S)
        brokers.brokers[node].kill()
        try:
            killed.set()
            wait(offsets.values())
            published = stage.read()
            assert brokers.ended == [brokers.brokers[node]]
        finally:
            brokers.brokers[node].restart()
        yield {
            at: (b"".join(value[-1:] for value in published if value[:-1] == b"%d" % case), offsets[at])
            for case, at in enumerate(CASES)
        }


def values(case: int, letters: bytes) -> list[bytes]:
    """Return a value for each letter, marked with the case, since all cases publish to the same topics."""
    return [b"%d%c" % (case, letter) for letter in letters]


def group_of(client: TroubledClient, beginning: str, role: str, node: int) -> str:
    """A group whose coordinator, or that of whose slot, is the node, if the role is a coordinator's."""
    for number in count():
        group = f"{beginning}.{number}"
        kind, key = {
            "coordinator of the slot": (CoordinatorType.TRANSACTION, slot_name(group, 0)),
            "coordinator of the group": (CoordinatorType.GROUP, group),
        }.get(role, (None, ""))
        if kind is None or client.run(client._coordinator, kind, key, client.attempt()) == node:
            return group
    raise AssertionError


@pytest.mark.parametrize(("role", "request_name"), CASES)
def test_a_transaction_outlives_a_broker(outlived: Outlived, role: str, request_name: str) -> None:
    """A transaction survives the kill of a broker before its request."""
    published, offset = outlived[role, request_name]
    assert (published, offset.result()) == (b"abcdefghijkl", 12)


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
            load.until_done(running)
            for role in (slot_name(name, 0), slot_name(name, 1), name):
                node = coordinator(address, role)
                brokers.brokers[node].kill()
                load.until_done(running)
                brokers.brokers[node].restart()
                load.until_done(running)
            load.flush()
            assert delivered(address, name, load.sent) == load.expected()
            ends = [
                datetime.fromisoformat(line["timestamp"]) for line in running.lines if line["event"] == "batch_finished"
            ]
            gaps = sorted(((b - a).total_seconds() for a, b in pairwise(ends)), reverse=True)
            starts = sum(line["event"] == "job_started" for line in running.lines)
            log.info("%d events; longest pauses between two batches: %s s; starts: %d", load.sent, gaps[:5], starts)


class Load:
    """Numbered events; event n has x = n % VALUES, and lies in partition n % PARTITIONS."""

    def __init__(self, address: str, topic: str) -> None:
        self.sent = 0
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5})

    def until_done(self, running: Job) -> None:
        """Produce steadily until the job has delivered events that were written meanwhile."""
        newer = self.sent + NEWER
        deadline = time.monotonic() + PATIENCE_S
        while running.total("event_count") < newer:
            assert time.monotonic() < deadline, running.lines[-3:]
            for _ in range(EVENTS_PER_S // 20):
                event = {"x": self.sent % VALUES, "n": self.sent}
                self._producer.produce(self._topic, json.dumps(event).encode(), partition=self.sent % PARTITIONS)
                self.sent += 1
            self._producer.poll(0.05)
            time.sleep(0.05)

    def flush(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0

    def expected(self) -> Mapping[str, list[list[int]]]:
        """Return the expected events of each subscriber and partition, in order."""
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
    """Return the node of the coordinator."""
    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        return int(admin.describe_transactions([transactional_id])[transactional_id].coordinator_id)
    finally:
        admin.close()
