"""Follow docs/how-to/maintain.md on a real broker: restore a backup, add partitions, scale out."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from streaming.kafka.topics import Topics
from tests.integration.conftest import CommandLine, delete
from tests.integration.running import job, lines, records, subscription
from tests.support.patience import PATIENCE_S


def write(kafka: str, topic: str, begin: int, end: int, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    for n in range(begin, end):
        producer.produce(topic, json.dumps({"n": n}).encode(), partition=n % partitions)
    assert producer.flush(PATIENCE_S) == 0


def numbers(kafka: str, topic: str) -> Counter[int]:
    return Counter(json.loads(record.value)["n"] for record in records(kafka, topic))


def test_a_backup_restores_the_subscriptions_of_a_topic_that_is_lost(
    sluice: CommandLine, kafka: str, tmp_path: Path
) -> None:
    backup, topic = str(tmp_path / "backup.jsonl"), f"{sluice.name}.subscriptions"
    sluice("topics", "create", "--partitions", "1")
    sluice(
        "subscribe",
        stdin=lines(
            subscription("a", "ann", n=[{"numeric": ["<", 6]}]),
            subscription("b", "bob", n=[{"exists": True}]),
            subscription("gone", "ann", n=[{"exists": True}]),
        ),
    )
    with job(sluice) as running:
        running.running()
        sluice("unsubscribe", "gone", "--wait")
        sluice("pause", "b", "--wait")
        sluice("subscriptions", "export", backup)
        write(kafka, f"{sluice.name}.events", 0, 5, 1)
        running.until("done", lambda: running.total("event_count") == 5)
    delete(Topics(kafka, {}), topic)
    sluice("topics", "create", "--partitions", "1")
    assert json.loads(sluice("subscriptions", "apply", backup, "--json"))["new"] == 2
    write(kafka, f"{sluice.name}.events", 5, 10, 1)  # the first batch has them, and matches them with the backup
    with job(sluice) as running:
        running.running()
        running.until("done", lambda: running.total("event_count") == 5)
        found = map(json.loads, sluice("subscriptions", "list", "--json").splitlines())
        assert {one["id"]: one["state"] for one in found} == {"a": "in force", "b": "paused"}
    assert numbers(kafka, f"{sluice.name}.to.ann") == Counter(range(6))


def test_partitions_are_added_and_cores_between_two_starts(sluice: CommandLine, kafka: str) -> None:
    events, to = f"{sluice.name}.events", f"{sluice.name}.to.ann"
    sluice("topics", "create", "--partitions", "2")
    sluice("subscribe", stdin=lines(subscription("a", "ann", n=[{"exists": True}])))
    with job(sluice, "--set", "spark.master=local[1]", fresh=True) as running:
        running.running()
        write(kafka, events, 0, 1_000, 2)
        running.until("done", lambda: running.total("event_count") == 1_000)
        admin = AdminClient({"bootstrap.servers": kafka})
        admin.create_partitions([NewPartitions(events, 4)])[events].result(PATIENCE_S)
        while Topics(kafka, {}).partitions()[events] < 4:
            time.sleep(0.05)
        write(kafka, events, 1_000, 2_000, 4)
        running.until("done with new partitions", lambda: running.total("event_count") == 2_000)
    write(kafka, events, 2_000, 3_000, 4)
    with job(sluice, "--set", "spark.master=local[4]", fresh=True) as running:
        running.running()
        write(kafka, events, 3_000, 4_000, 4)
        running.until("done with more cores", lambda: running.total("event_count") == 2_000)
    assert numbers(kafka, to) == Counter(range(4_000))
