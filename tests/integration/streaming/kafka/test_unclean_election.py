"""Three brokers, of which one becomes the leader of events that it lacks: the job ends and says so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rig.broker import EmbeddedCluster
from tests.integration.conftest import JARS, CommandLine, prefix
from tests.integration.running import job, lines
from tests.integration.streaming.driver.test_deleted_records import EVERYTHING, commit, numbers, write
from tests.support.patience import PATIENCE_S

SOON = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}
UNCLEAN = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
LEADER, FOLLOWER = 1, 2  # of the events; the third broker is needed for a quorum


@pytest.fixture
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(JARS, properties=SOON) as cluster:
        yield cluster


def create(address: str, topic: str) -> None:
    new = NewTopic(topic, 1, replica_assignment=[[LEADER, FOLLOWER]], config=UNCLEAN)
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([new]).values():
        future.result(PATIENCE_S)


def in_sync(address: str, topic: str) -> int:
    """Return how many replicas have all records."""
    found = AdminClient({"bootstrap.servers": address}).list_topics(topic, PATIENCE_S)
    return len(found.topics[topic].partitions[0].isrs)


def elect(address: str, topic: str) -> None:
    """Let the follower lead, without the records that only the leader has."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    deadline = time.monotonic() + PATIENCE_S
    while admin.list_topics(topic, PATIENCE_S).topics[topic].partitions[0].leader != FOLLOWER:
        assert time.monotonic() < deadline, "the follower never leads"
        with suppress(KafkaException):
            admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(topic, 0)]).result(PATIENCE_S)
        time.sleep(0.5)


def test_a_job_ends_if_a_new_leader_lacks_events_that_it_has_read(brokers: EmbeddedCluster, tmp_path: Path) -> None:
    address = brokers.bootstrap_servers
    with prefix(address) as name:
        sluice, topic = CommandLine(address, name, tmp_path), f"{name}.events"
        sluice.environment["SLUICE_DELIVERIES__REPLICATION_FACTOR"] = "3"
        create(address, topic)
        sluice("topics", "create", "--replication-factor", "3")
        sluice("subscribe", stdin=lines(EVERYTHING))
        with job(sluice, "--supervise", fresh=True) as running:
            running.running()
            write(address, topic, 0, 10)
            running.until("done with what both have", lambda: running.total("event_count") == 10)
            running.until("in sync", lambda: in_sync(address, topic) == 2)
            brokers.brokers[FOLLOWER].kill()
            write(address, topic, 10, 20)
            running.until("done with what one has", lambda: running.total("event_count") == 20)
            brokers.brokers[LEADER].kill()
            brokers.brokers[FOLLOWER].restart()
            elect(address, topic)
            brokers.brokers[LEADER].restart()
            assert running.ended() == 1
            told = str(running.lines[-10:]) + "".join(running.other)
        assert "an unclean leader election lost records" in told or "has lost records" in told or "ends at" in told
        assert f"{topic}, partition 0" in told
        error = sluice("run", code=1)
        assert f"{topic}, partition 0: the committed offset 20 lies beyond the end, 10" in error
        commit(address, name, topic, 10)  # as the documentation says
        write(address, topic, 20, 23)
        with job(sluice) as again:
            again.running()
            again.until("done", lambda: again.total("event_count") == 3)
        assert numbers(address, f"{name}.to.alice") == [*range(23)]
