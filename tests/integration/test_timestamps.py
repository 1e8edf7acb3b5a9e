"""The job handles every timestamp that a broker accepts: live, at a first start and in a replay."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.integration.conftest import CommandLine
from tests.integration.test_job import job, lines, records, subscription

GOOD_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
# (timestamp in ms, ce_time). librdkafka takes 0 for now, so 1 stands for it.
STRANGE: list[tuple[int, bytes | None]] = [
    (-9223372036854776, None),  # the first that Spark cannot represent
    (2**62, None),
    (2**63 - 1, None),
    (-(2**63), None),
    (-1, None),  # "no timestamp"
    (1, b"1970-01-01T00:00:00.001Z"),
    (-14831769600000, b"1500-01-01T00:00:00.000Z"),  # Spark takes it for a date of the Julian calendar
    (-62135596800000, b"0001-01-01T00:00:00.000Z"),
    (-62135596800001, None),  # before the year 1
    (-2208988800001, b"1899-12-31T23:59:59.999Z"),
]
TIMES = [ms for ms, _ in STRANGE]


def takes_any_time(kafka: str, *topics: str) -> None:
    """And keeps what is old."""
    settings = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in (("message.timestamp.after.max.ms", str(2**63 - 1)), ("retention.ms", "-1"))
    ]
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=settings) for topic in topics]
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.incremental_alter_configs(resources).values():
        future.result(30)


def write(kafka: str, topic: str, written: Iterable[tuple[bytes | None, str, int]]) -> None:
    """(key, value, timestamp) to the first partition, in order, each in a batch of its own."""
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    failed: list[Any] = []
    for key, value, timestamp in written:
        producer.produce(
            *(topic, value.encode(), key, 0),
            on_delivery=lambda error, _: failed.append(error) if error else None,
            timestamp=timestamp,
        )
        assert producer.flush(30) == 0
    assert failed == []


def events(begin: int, times: Sequence[int]) -> list[tuple[bytes | None, str, int]]:
    return [(None, json.dumps({"n": n}), ms) for n, ms in enumerate(times, begin)]


def among_good(times: Sequence[int]) -> list[int]:
    return [ms for time in times for ms in (GOOD_MS, time)] + [GOOD_MS]


def delivered(kafka: str, name: str, begin: int = 0) -> list[tuple[int, bytes | None]]:
    """(n, ce_time) as they were delivered."""
    found = ((orjson.loads(r.value)["n"], dict(r.headers).get("ce_time")) for r in records(kafka, f"{name}.to.alice"))
    return [one for one in found if one[0] >= begin]


def expected(begin: int = 0) -> list[tuple[int, bytes | None]]:
    times = dict(STRANGE) | {GOOD_MS: b"2023-11-14T22:13:20.000Z"}
    return [(n, times[ms]) for n, ms in enumerate(among_good(TIMES), begin)]


@pytest.fixture
def topics(sluice: CommandLine, kafka: str) -> str:
    """Of a job that takes any time that a record can have."""
    sluice("topics", "create", "--partitions", "1")
    takes_any_time(kafka, f"{sluice.name}.events", f"{sluice.name}.subscriptions")
    return sluice.name


def test_events_of_any_time_are_delivered_once_and_in_order(sluice: CommandLine, kafka: str, topics: str) -> None:
    sluice("subscribe", stdin=lines(subscription("a", "alice", n=[{"exists": True}])))
    write(kafka, f"{topics}.events", events(0, among_good(TIMES)))
    with job(sluice) as running:
        running.running()
        n = len(among_good(TIMES))
        running.until("done with what was there", lambda: running.total("events") == n)
        assert delivered(kafka, topics) == expected()
        for strange in among_good(TIMES):  # each may be the only one of its batch
            write(kafka, f"{topics}.events", events(n, [strange]))
            n += 1
        running.until("done with what came live", lambda: running.total("events") == n)
        assert delivered(kafka, topics, begin=n // 2) == expected(begin=n // 2)
        assert running.total("workers_lost") == 0
        latencies = [line["latency_ms"]["max"] for line in running.lines if line["event"] == "batch"]
        assert set(latencies) == {None}, "none of these times says how late an event is"
        assert not [line for line in running.lines if line["level"] == "error"]
    assert records(kafka, f"{topics}.dead") == []
    replayed = sluice("replay", "a", "--from", "1970-01-01T00:00:00Z", "--json")
    summary = json.loads(replayed.splitlines()[-1])
    assert (summary["finished"], summary["delivered"]) == (True, n)
    assert delivered(kafka, topics)[n:] == [*expected(), *expected(begin=n // 2)]


def test_a_poisonous_event_is_isolated_also_where_spark_cannot_read_the_batch(
    sluice: CommandLine, kafka: str, topics: str
) -> None:
    sluice("subscribe", stdin=lines(subscription("a", "alice", n=[{"exists": True}])))
    spoiled = events(0, [GOOD_MS, 2**62, GOOD_MS, -1, GOOD_MS])
    spoiled[1] = (b"k", json.dumps({"n": 1, "text": "POISON"}), 2**62)
    write(kafka, f"{topics}.events", spoiled)
    with job(sluice, "-s", "spark.options.spark.python.daemon.module=tests.poisonous_daemon") as running:
        running.until("done with the events", lambda: running.total("events") == 5, 150)
    assert [n for n, _ in delivered(kafka, topics)] == [0, 2, 3, 4]
    (letter,) = records(kafka, f"{topics}.dead")
    headers = dict(letter.headers)
    assert letter.value == spoiled[1][1].encode()
    assert (headers["sluice_reason"], headers["sluice_origin_timestamp"]) == (b"poison_event", b"%d" % 2**62)


@pytest.mark.parametrize("first_start", [True, False], ids=["a first start", "live"])
def test_changes_of_any_time_are_answered(sluice: CommandLine, kafka: str, topics: str, first_start: bool) -> None:
    changes = [(f"s{i}".encode(), subscription(f"s{i}", "alice", n=[i]), ms) for i, ms in enumerate(among_good(TIMES))]
    refused: list[tuple[bytes | None, str, int]] = [(f"r{i}".encode(), "{not json", ms) for i, ms in enumerate(TIMES)]
    n = len(changes) + len(refused)
    if first_start:
        write(kafka, f"{topics}.subscriptions", [*changes, *refused])
    with job(sluice) as running:
        running.running()
        if not first_start:
            write(kafka, f"{topics}.subscriptions", [*changes, *refused])
            running.until("done with the changes", lambda: running.total("changes") + running.total("refused") == n)
        write(kafka, f"{topics}.events", events(0, [GOOD_MS] * len(changes)))
        running.until("done with the events", lambda: running.total("events") == len(changes))
    statuses = [orjson.loads(r.value) for r in records(kafka, f"{topics}.status")]
    assert [(s["id"], s["status"]) for s in sorted(statuses, key=lambda s: s["change"]["offset"])] == [
        *((key.decode(), "accepted") for key, _, _ in changes),
        *((key.decode(), "refused") for key, _, _ in refused if key),
    ]
    assert [dict(letter.headers)["sluice_origin_timestamp"] for letter in records(kafka, f"{topics}.dead")] == [
        b"%d" % ms for ms in TIMES
    ]
    assert [n for n, _ in delivered(kafka, topics)] == list(range(len(changes)))
    found = sluice("dlq", "list", "--json").splitlines()
    assert len(found) == len(refused)
    assert not [line for line in found if "unknown" in line]
