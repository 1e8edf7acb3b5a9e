"""Events deleted before they were read are counted, and a topic that was created again is noticed."""

from __future__ import annotations

import json
import signal
import time
import urllib.request
from typing import Any

import orjson
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streaming.kafka.topics import Topic, Topics
from tests.integration.conftest import CommandLine
from tests.integration.test_job import Job, job, lines, records, subscription

EVERYTHING = subscription("a", "alice", n=[{"exists": True}])


def delete_records(kafka: str, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        future.result(30)


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
    assert producer.flush(30) == 0


def numbers(kafka: str, topic: str) -> list[int]:
    return [orjson.loads(record.value)["n"] for record in records(kafka, topic)]


def warned(running: Job, event: str) -> list[dict[str, Any]]:
    return [line for line in running.lines if line["event"] == event]


def lost(running: Job) -> list[tuple[int, int, int]]:
    found = warned(running, "events were deleted before they were read")
    return [(line["from"], line["to"], line["offsets"]) for line in found]


def metric(running: Job, name: str) -> float:
    (url,) = {line["monitoring"] for line in running.lines if line["event"] == "running"}
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    (value,) = (line.split(" ")[1] for line in text.splitlines() if line.startswith(f"{name} "))
    return float(value)


def healthy(running: Job) -> int:
    (url,) = {line["monitoring"] for line in running.lines if line["event"] == "running"}
    with urllib.request.urlopen(f"{url}/health", timeout=10) as answer:
        return int(answer.status)


def test_events_deleted_while_the_job_is_down_are_counted_once(sluice: CommandLine, kafka: str) -> None:
    name = sluice.name
    sluice("topics", "create", "--partitions", "1")
    sluice("subscribe", stdin=lines(EVERYTHING))
    with job(sluice) as running:
        running.running()
        write(kafka, f"{name}.events", 0, 10)
        running.until("done", lambda: running.total("events") == 10)
        assert lost(running) == []
    write(kafka, f"{name}.events", 10, 30)
    delete_records(kafka, f"{name}.events", 25)
    with job(sluice) as running:
        running.running()
        running.until("done", lambda: running.total("events") == 5)
        assert lost(running) == [(10, 25, 15)]
        (line,) = warned(running, "events were deleted before they were read")
        assert (line["topic"], line["partition"]) == (f"{name}.events", 0)
        assert metric(running, "sluice_events_deleted_unread_total") == 15
        assert healthy(running) == 200
    with job(sluice) as running:
        running.running()
        write(kafka, f"{name}.events", 30, 31)
        running.until("done", lambda: running.total("events") == 1)
        assert lost(running) == [], "it was said already"
    assert numbers(kafka, f"{name}.to.alice") == [*range(10), *range(25, 31)]


def test_events_deleted_while_the_job_runs_are_counted(sluice: CommandLine, kafka: str) -> None:
    name = sluice.name
    sluice("topics", "create", "--partitions", "1")
    sluice("subscribe", stdin=lines(EVERYTHING))
    with job(sluice) as running:
        running.running()
        write(kafka, f"{name}.events", 0, 10)
        running.until("done", lambda: running.total("events") == 10)
        running.process.send_signal(signal.SIGSTOP)  # while events come and go
        try:
            write(kafka, f"{name}.events", 10, 30)
            delete_records(kafka, f"{name}.events", 25)
        finally:
            running.process.send_signal(signal.SIGCONT)
        running.until("done", lambda: running.total("events") == 15)
        assert lost(running) == [(10, 25, 15)]
        assert running.total("deleted_unread") == 15
        assert metric(running, "sluice_events_deleted_unread_total") == 15
        assert healthy(running) == 200
    assert numbers(kafka, f"{name}.to.alice") == [*range(10), *range(25, 30)]


def test_what_was_read_before_it_was_deleted_is_not_counted(sluice: CommandLine, kafka: str) -> None:
    """Not even where offsets are missing, at the ends of transactions."""
    name = sluice.name
    sluice("topics", "create", "--partitions", "1")
    sluice("subscribe", stdin=lines(EVERYTHING))
    with job(sluice, "-s", "events.max_per_batch=5") as running:
        running.running()
        write(kafka, f"{name}.events", 0, 10)
        running.until("done", lambda: running.total("events") == 10)
        write(kafka, f"{name}.events", 10, 20, **{"transactional.id": f"{name}.writer"})
        running.until("done", lambda: running.total("events") == 20)
        delete_records(kafka, f"{name}.events", 29)  # the end of the last transaction is left
        write(kafka, f"{name}.events", 20, 21)
        running.until("done", lambda: running.total("events") == 21)
        assert lost(running) == []


def test_offsets_beyond_the_end_stop_the_start_with_what_to_do(sluice: CommandLine, kafka: str) -> None:
    name = sluice.name
    sluice("topics", "create", "--partitions", "1")
    with job(sluice) as running:
        running.running()
        write(kafka, f"{name}.events", 0, 10)
        running.until("done", lambda: running.total("events") == 10)
    topics = Topics(kafka, {})
    topics.delete([f"{name}.events"])
    again(topics, f"{name}.events")
    commit(kafka, name, f"{name}.events", 10)  # as a job does that is in the middle of a batch then
    write(kafka, f"{name}.events", 0, 3)
    error = sluice("run", code=1)
    assert f"{name}.events, partition 0: the committed offset 10 lies beyond the end, 3" in error
    commit(kafka, name, f"{name}.events", 0)  # what the documentation says to do
    with job(sluice) as running:
        running.running()
        running.until("done", lambda: running.total("events") == 3)


def test_a_topic_made_again_is_read_from_its_first_record_on(sluice: CommandLine, kafka: str) -> None:
    name = sluice.name
    sluice("topics", "create", "--partitions", "1")
    sluice("subscribe", stdin=lines(EVERYTHING))
    with job(sluice) as running:
        running.running()
        write(kafka, f"{name}.events", 0, 10)
        running.until("done", lambda: running.total("events") == 10)
    topics = Topics(kafka, {})
    topics.delete([f"{name}.events"])
    again(topics, f"{name}.events")
    write(kafka, f"{name}.events", 100, 103)
    with job(sluice) as running:
        running.running()
        running.until("done", lambda: running.total("events") == 3)
        (line,) = [line for line in running.lines if "deleted and made again" in line["event"]]
        assert line["topic"] == f"{name}.events"
        topics.delete([f"{name}.events"])
        again(topics, f"{name}.events")
        write(kafka, f"{name}.events", 200, 202)
        assert running.ended() == 75
        assert "was deleted and made again" in str(running.lines[-1]) + "".join(running.other)
    with job(sluice) as running:
        running.running()
        running.until("done", lambda: running.total("events") == 2)
    assert numbers(kafka, f"{name}.to.alice") == [*range(10), 100, 101, 102, 200, 201]


def again(topics: Topics, name: str) -> None:
    while name in topics.partitions():
        time.sleep(0.05)
    while topics.create([Topic(name)]):
        time.sleep(0.05)


def commit(kafka: str, group: str, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])]
    for future in admin.alter_consumer_group_offsets(asked).values():
        future.result(30)
