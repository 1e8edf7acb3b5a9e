"""Partitions that are added to a subscriber's topic while the job runs."""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from rig.processes import daemons_and_workers, ended, kill
from tests.integration.conftest import CommandLine
from tests.integration.running import Job, job, lines, records, subscription
from tests.support.patience import PATIENCE_S

SOURCES = 4  # partitions of the events
AT_ONCE = 3_000  # events: of so many, the next batch has several tasks


def test_each_source_partition_moves_when_the_driver_knows_of_new_ones(
    sluice: CommandLine, kafka: str, tmp_path: Path
) -> None:
    topic = f"{sluice.name}.to.alice"
    sluice.environment["SLUICE_DELIVERIES__PARTITIONS"] = "2"
    sluice("topics", "create", "--partitions", str(SOURCES))
    sluice("subscribe", stdin=lines(subscription("s1", "alice", n=[{"exists": True}])))
    producer = Producer({"bootstrap.servers": kafka})
    sent = 0

    def produce(running: Job) -> None:
        """Events, and wait for them."""
        nonlocal sent
        before = running.total("event_count") - sent
        for n in range(sent, sent + AT_ONCE):
            producer.produce(f"{sluice.name}.events", json.dumps({"n": n}).encode(), partition=n % SOURCES)
        sent += AT_ONCE
        assert producer.flush(PATIENCE_S) == 0
        running.until("delivered", lambda: running.total("event_count") - sent >= before)

    def add_one(there: int) -> None:
        admin = AdminClient({"bootstrap.servers": kafka})
        admin.create_partitions([NewPartitions(topic, there + 1)])[topic].result(PATIENCE_S)

    def used() -> set[int]:
        return {record.partition for record in records(kafka, topic)}

    with job(sluice, "--set", "kafka.client.metadata.max.age.ms=3600000") as running:
        running.running()
        produce(running)
        add_one(2)
        _, workers = daemons_and_workers(running.processes())
        kill(workers)  # new ones ask the broker, which says 3
        assert ended(workers, PATIENCE_S)
        produce(running)
        produce(running)
        assert used() == {0, 1}
    with job(sluice, "--set", "kafka.client.metadata.max.age.ms=500") as running:
        running.running()
        produce(running)
        assert used() == {0, 1, 2}
        add_one(3)

        def fourth_is_used() -> bool:
            produce(running)
            return 3 in used()

        running.until("used", fourth_is_used)
        produce(running)
    found = records(kafka, topic)
    partition = {json.loads(record.value)["n"]: record.partition for record in found}
    assert Counter(json.loads(record.value)["n"] for record in found) == Counter(range(sent))
    for source in range(SOURCES):
        went = [at for at, _ in groupby(partition[n] for n in range(source, sent, SOURCES))]
        assert went == [at for at, _ in groupby(source % n for n in (2, 3, 4))]
