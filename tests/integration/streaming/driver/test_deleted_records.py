"""Events deleted before they were read are counted, and a topic that was created again is noticed."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from typing import Any

import orjson
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streaming.kafka.topics import Topic, Topics
from tests.integration.conftest import CommandLine, delete
from tests.integration.running import Job, job, lines, records, subscription
from tests.support.patience import PATIENCE_S

EVERYTHING = subscription("a", "alice", n=[{"exists": True}])


def delete_records(kafka: str, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        future.result(PATIENCE_S)


def write(kafka: str, topic: str, begin: int, end: int, **options: Any) -> None:
    """Events n = begin .. end, to the first partition; with a transactional.id, one transaction each."""
    producer = Producer({"bootstrap.servers": kafka, "log_level": 0, **options})
    if options:
        producer.init_transactions()
    for n in range(begin, end):
        if options:
            producer.begin_transaction()
        producer.produce(topic, json.dumps({"n": n}), partition=0)
        if options:
            producer.commit_transaction()
    assert producer.flush(PATIENCE_S) == 0


def numbers(kafka: str, topic: str) -> list[int]:
    return [orjson.loads(record.value)["n"] for record in records(kafka, topic)]


def warned(running: Job, event: str) -> list[dict[str, Any]]:
    return [line for line in running.lines if line["event"] == event]


def lost(running: Job) -> list[tuple[int, int, int]]:
    found = warned(running, "events_deleted")
    return [(line["offset_from"], line["offset_to"], line["offset_count"]) for line in found]


def metric(running: Job, name: str) -> float:
    (url,) = {line["monitoring_url"] for line in running.lines if line["event"] == "job_started"}
    with urllib.request.urlopen(f"{url}/metrics", timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    (value,) = (line.split(" ")[1] for line in text.splitlines() if line.startswith(f"{name} "))
    return float(value)


def healthy(running: Job) -> int:
    (url,) = {line["monitoring_url"] for line in running.lines if line["event"] == "job_started"}
    with urllib.request.urlopen(f"{url}/health", timeout=PATIENCE_S) as answer:
        return int(answer.status)


@pytest.fixture
def topic(sluice: CommandLine) -> str:
    """Events of one partition, all for alice."""
    sluice("topics", "create", "--partitions", "1")
    sluice("subscribe", stdin=lines(EVERYTHING))
    return f"{sluice.name}.events"


@pytest.mark.usefixtures("each_reading")
def test_events_that_are_deleted_before_they_are_read_are_counted_once(
    sluice: CommandLine, kafka: str, topic: str
) -> None:
    """While the job runs and while it is down. Offsets that are missing at the ends of transactions are none."""
    alice = f"{sluice.name}.to.alice"
    write(kafka, topic, 0, 10, **{"transactional.id": f"{topic}.writer"})
    write(kafka, topic, 10, 20)
    with job(sluice) as running:
        running.running()
        running.until("done", lambda: running.total("event_count") == 20)
        delete_records(kafka, topic, 29)
        write(kafka, topic, 20, 21)
        running.until("done", lambda: running.total("event_count") == 21)

        deleted = "sluice_events_deleted_unread_total"
        begin, end = 21, 21
        while metric(running, deleted) == 0:
            begin, end = end, end + 20
            os.killpg(running.process.pid, signal.SIGSTOP)  # while events come and go
            try:
                write(kafka, topic, begin, begin + 1)  # answers a request that waits at the broker
                write(kafka, topic, begin + 1, end)  # a slow broker may answer with these as well: once more, then
                delete_records(kafka, topic, end + 5)
            finally:
                os.killpg(running.process.pid, signal.SIGCONT)
            running.until("done", lambda: running.total("event_count") + metric(running, deleted) == end)  # noqa: B023
        gone = set(range(end)) - set(numbers(kafka, alice))  # the job may have the answer to that request
        (first, last, offsets), *others = lost(running)
        assert first in (begin + 10, min(gone) + 10), "where what was read together begins"
        assert (last, offsets, others) == (end + 5, len(gone), [])
        assert sorted(gone) == list(range(min(gone), end - 5))
        assert metric(running, deleted) == len(gone)
        assert healthy(running) == 200
    write(kafka, topic, end, end + 20)
    delete_records(kafka, topic, end + 25)
    with job(sluice) as running:
        running.running()
        running.until("done", lambda: running.total("event_count") == 5)
        assert lost(running) == [(end + 10, end + 25, 15)]
        (line,) = warned(running, "events_deleted")
        assert (line["topic"], line["partition"]) == (topic, 0)
        assert metric(running, deleted) == 15
        assert healthy(running) == 200
    with job(sluice) as running:
        running.running()
        write(kafka, topic, end + 20, end + 21)
        running.until("done", lambda: running.total("event_count") == 1)
        assert lost(running) == [], "it was said already"
    assert numbers(kafka, alice) == [n for n in (*range(end), *range(end + 15, end + 21)) if n not in gone]


def test_a_topic_made_again_is_read_from_its_first_record_on(sluice: CommandLine, kafka: str, topic: str) -> None:
    """Unless offsets are committed that lie beyond its end: these stop the start, with what to do."""
    topics = Topics(kafka, {})
    with job(sluice) as running:
        running.running()
        write(kafka, topic, 0, 10)
        running.until("done", lambda: running.total("event_count") == 10)
    again(topics, topic)
    write(kafka, topic, 100, 103)
    with job(sluice) as running:
        running.running()
        running.until("done", lambda: running.total("event_count") == 3)
        (line,) = [line for line in running.lines if line["event"] == "topic_offsets_missing"]
        assert line["topic"] == topic
        again(topics, topic)
        write(kafka, topic, 200, 202)
        assert running.ended() == 75
        assert "was deleted and recreated" in str(running.lines[-1]) + "".join(running.other)
    commit(kafka, sluice.name, topic, 10)  # as a job does that is in the middle of a batch then
    error = sluice("run", code=1)
    assert f"{topic}, partition 0: the committed offset 10 lies beyond the end, 2" in error
    commit(kafka, sluice.name, topic, 0)  # as the documentation says
    with job(sluice) as running:
        running.running()
        running.until("done", lambda: running.total("event_count") == 2)
    assert numbers(kafka, f"{sluice.name}.to.alice") == [*range(10), 100, 101, 102, 200, 201]


def again(topics: Topics, name: str) -> None:
    """Deletes a topic and makes another of its name."""
    delete(topics, name)
    while topics.create([Topic(name)]):
        time.sleep(0.05)


def commit(kafka: str, group: str, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])]
    for future in admin.alter_consumer_group_offsets(asked).values():
        future.result(PATIENCE_S)
