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
from tests.integration.running import job, lines, records, subscription
from tests.support.patience import PATIENCE_S

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
    """Let topics accept records of any time, and keep old ones."""
    settings = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in (("message.timestamp.after.max.ms", str(2**63 - 1)), ("retention.ms", "-1"))
    ]
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=settings) for topic in topics]
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.incremental_alter_configs(resources).values():
        future.result(PATIENCE_S)


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
        assert producer.flush(PATIENCE_S) == 0
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
    """Create the topics of a job that accept any timestamp."""
    sluice("topics", "create", "--partitions", "1")
    takes_any_time(kafka, f"{sluice.name}.events", f"{sluice.name}.subscriptions")
    return sluice.name


EVERYTHING = subscription("a", "alice", n=[{"exists": True}])
CHANGES = [(f"s{i}".encode(), subscription(f"s{i}", "bob", m=[i]), ms) for i, ms in enumerate(among_good(TIMES))]
REJECTED: list[tuple[bytes | None, str, int]] = [(f"r{i}".encode(), "{not json", ms) for i, ms in enumerate(TIMES)]


def check_changes(sluice: CommandLine, kafka: str, letters: int = 0) -> None:
    """Each has one answer, in order; `letters` are of others."""
    statuses = [orjson.loads(r.value) for r in records(kafka, f"{sluice.name}.status")]
    assert [
        (s["id"], s["status"]) for s in sorted(statuses, key=lambda s: s["change"]["offset"]) if s["id"] != "a"
    ] == [
        *((key.decode(), "accepted") for key, _, _ in CHANGES),
        *((key.decode(), "rejected") for key, _, _ in REJECTED if key),
    ]
    listed = [json.loads(line) for line in sluice("dlq", "list", "--json").splitlines()]
    assert len(listed) == len(REJECTED) + letters
    assert not [letter for letter in listed if "unknown" in str(letter)]
    rejected = [dict(letter.headers) for letter in records(kafka, f"{sluice.name}.dead")]
    assert [h["sluice_origin_timestamp"] for h in rejected if h["sluice_reason"] == b"rejected_subscription"] == [
        b"%d" % ms for ms in TIMES
    ]


@pytest.mark.usefixtures("each_reading")
def test_events_and_changes_of_any_time_that_come_live(sluice: CommandLine, kafka: str, topics: str) -> None:
    """Events are delivered once and in order, also by a replay. Changes are answered."""
    sluice("subscribe", stdin=lines(EVERYTHING))
    write(kafka, f"{topics}.events", events(0, among_good(TIMES)))
    with job(sluice) as running:
        running.running()
        n = len(among_good(TIMES))
        running.until("done with what was there", lambda: running.total("event_count") == n)
        assert delivered(kafka, topics) == expected()
        for strange in among_good(TIMES):  # each may be the only one of its batch
            write(kafka, f"{topics}.events", events(n, [strange]))
            n += 1
        running.until("done with what came live", lambda: running.total("event_count") == n)
        assert delivered(kafka, topics, begin=n // 2) == expected(begin=n // 2)
        assert running.total("workers_lost_count") == 0
        latencies = [line["latency_ms"]["max"] for line in running.lines if line["event"] == "batch_finished"]
        assert set(latencies) == {None}, "none of these times says how late an event is"
        assert not [line for line in running.lines if line["level"] == "error"]
        assert records(kafka, f"{topics}.dead") == []

        write(kafka, f"{topics}.subscriptions", [*CHANGES, *REJECTED])
        running.until(
            "done with the changes",
            lambda: (
                running.total("change_count") == len(CHANGES)
                and running.total("rejected_change_count") == len(REJECTED)
            ),
        )
        write(kafka, f"{topics}.events", [(None, json.dumps({"m": m}), GOOD_MS) for m in range(len(CHANGES))])
        running.until("done with events for them", lambda: running.total("event_count") == n + len(CHANGES))
    check_changes(sluice, kafka)
    assert [orjson.loads(r.value)["m"] for r in records(kafka, f"{topics}.to.bob")] == list(range(len(CHANGES)))
    replayed = sluice("replay", "a", "--from", "1970-01-01T00:00:00Z", "--json")
    summary = json.loads(replayed.splitlines()[-1])
    assert (summary["finished"], summary["delivered"]) == (True, n)
    assert delivered(kafka, topics)[n:] == [*expected(), *expected(begin=n // 2)]


def test_changes_of_any_time_at_a_first_start_and_a_poisonous_event_in_a_batch_that_spark_cannot_read(
    sluice: CommandLine, kafka: str, topics: str
) -> None:
    write(kafka, f"{topics}.subscriptions", [*CHANGES, *REJECTED])
    sluice("subscribe", stdin=lines(EVERYTHING))
    spoiled = events(0, [GOOD_MS, 2**62, GOOD_MS, -1, GOOD_MS])
    spoiled[1] = (b"k", json.dumps({"n": 1, "text": "POISON"}), 2**62)
    write(kafka, f"{topics}.events", spoiled)
    sluice.environment["SLUICE_EVENTS__READING"] = "source"
    with job(
        sluice, "-s", "spark.options.spark.python.daemon.module=tests.integration.streaming.poisonous_daemon"
    ) as running:
        running.until("done with the events", lambda: running.total("event_count") == 5)
        write(kafka, f"{topics}.events", [(None, json.dumps({"m": m}), GOOD_MS) for m in range(len(CHANGES))])
        running.until("done with more events", lambda: running.total("event_count") == 5 + len(CHANGES))
    assert [n for n, _ in delivered(kafka, topics)] == [0, 2, 3, 4]
    (poison,) = [r for r in records(kafka, f"{topics}.dead") if dict(r.headers)["sluice_reason"] == b"poison_event"]
    assert poison.value == spoiled[1][1].encode()
    assert dict(poison.headers)["sluice_origin_timestamp"] == b"%d" % 2**62
    check_changes(sluice, kafka, letters=1)
    assert [orjson.loads(r.value)["m"] for r in records(kafka, f"{topics}.to.bob")] == list(range(len(CHANGES)))
