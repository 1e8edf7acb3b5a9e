"""The job as a user runs it: a process, a real broker, real Spark."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from streaming.kafka.topics import Topic, Topics
from tests.integration.conftest import CommandLine, delete, prefix
from tests.integration.running import Job, job, lines, records, subscription


def test_events_reach_subscribers_and_everything_else_is_answered(sluice: CommandLine, kafka: str) -> None:
    name = sluice.name
    sluice("topics", "create")
    sluice(
        "subscribe",
        stdin=lines(
            subscription("s1", "alice", symbol=["IBM"], price=[{"numeric": [">", 100]}]),
            subscription("s2", "alice", symbol=[{"prefix": "I"}]),
            subscription("s3", "bob", symbol=["MSFT"]),
        ),
    )
    with job(sluice, fresh=True) as running:
        running.running()
        sluice("produce", stdin=lines({"symbol": "IBM", "price": 150}, "{not json", [1], {"symbol": "IBM", "price": 1}))
        running.until("done with the events", lambda: running.total("event_count") == 4)

        # Order is kept within a partition of the events topic, and there are two.
        (both, one) = sorted(records(kafka, f"{name}.to.alice"), key=lambda record: record.value)
        assert both.value == b'{"symbol": "IBM", "price": 150}'
        headers = dict(both.headers)
        assert orjson.loads(headers["ce_subscriptionids"]) == ["s1", "s2"]
        assert headers["ce_specversion"] == b"1.0"
        assert headers["ce_matchversion"] == b"3"
        assert headers["ce_id"].startswith(f"{name}.events-".encode())
        assert orjson.loads(dict(one.headers)["ce_subscriptionids"]) == ["s2"]
        assert records(kafka, f"{name}.to.bob") == []
        reasons = [dict(r.headers) for r in records(kafka, f"{name}.dead")]
        assert [r["sluice_reason"] for r in reasons] == [b"undecodable_event"] * 2
        assert {r["sluice_detail"].split(b":")[0] for r in reasons} == {b"not JSON", b"not a JSON object but an array"}

        # Changes while it runs: one unsubscribed, one replaced, two rejected.
        sluice("unsubscribe", "s2")
        sluice("subscribe", "--id", "s3", "--subscriber", "bob", "--pattern", '{"symbol": ["IBM"]}')
        bad = [
            b'{"id": "s4", "subscriber": "../x", "pattern": {}}',
            b'{"id": "s5", "subscriber": "eve", "pattern": {"x": 5}}',
        ]
        _produce(kafka, f"{name}.subscriptions", [(b"s4", bad[0]), (b"s5", bad[1])])
        running.until(
            "done with the changes",
            lambda: running.total("change_count") == 2 and running.total("rejected_change_count") == 2,
        )
        sluice("produce", stdin=lines({"symbol": "IBM", "price": 101}))
        running.until("done with the last event", lambda: running.total("event_count") == 5)
        assert len(records(kafka, f"{name}.to.alice")) == 3
        assert [r.value for r in records(kafka, f"{name}.to.bob")] == [b'{"symbol": "IBM", "price": 101}']

        statuses = {r.key.decode(): orjson.loads(r.value) for r in records(kafka, f"{name}.status")}
        assert {id: s["status"] for id, s in statuses.items()} == {
            "s1": "accepted",
            "s2": "unsubscribed",
            "s3": "accepted",
            "s4": "rejected",
            "s5": "rejected",
        }
        assert "letters, digits" in statuses["s4"]["reason"]
        assert "field x: needs a list" in statuses["s5"]["reason"]
        last = records(kafka, f"{name}.to.bob")[-1]
        version = int(dict(last.headers)["ce_matchversion"])
        assert version >= statuses["s3"]["version"]
        assert [r.value for r in records(kafka, f"{name}.dead")][2:] in (bad, bad[::-1])

        out = sluice("consume", "bob")
        assert out == '{"symbol": "IBM", "price": 101}\n'
        assert json.loads(sluice("consume", "bob", "--json"))["headers"]["ce_subscriptionids"] == '["s3"]'
        running.process.send_signal(signal.SIGTERM)
        assert running.ended() == 0
        logged = [line["event"] for line in running.lines]
        assert (logged[0], logged[-1]) == ("process_started", "process_exited")
        assert logged.index("job_stopping") < logged.index("job_stopped")

    # It goes on where it stopped, with the subscriptions it had.
    sluice("produce", stdin=lines({"symbol": "IBM", "price": 102}))
    with job(sluice) as again:
        again.running()
        again.until("done with what came meanwhile", lambda: again.total("event_count") == 1)
        assert len(records(kafka, f"{name}.to.alice")) == 4
        assert len(records(kafka, f"{name}.to.bob")) == 2
    assert "belongs to the query" in sluice("run", "-s", "query.name=somebody-else", code=1)


def test_deliveries_to_a_deleted_topic_are_dead_letters_where_the_job_may_make_none(
    sluice: CommandLine, kafka: str
) -> None:
    name = sluice.name
    sluice.environment["SLUICE_DELIVERIES__CREATE_TOPICS"] = "false"
    sluice("topics", "create")
    sluice("subscribe", stdin=lines(subscription("a", "ann", x=[1]), subscription("b", "ben", x=[1])))
    topics = Topics(kafka, {})
    topics.create([Topic(f"{name}.to.ann"), Topic(f"{name}.to.ben")])
    with job(sluice) as running:
        running.running()
        sluice("produce", stdin=lines({"x": 1}))
        running.until("done with one event", lambda: running.total("event_count") == 1)
        delete(topics, f"{name}.to.ben")
        sluice("produce", stdin=lines({"x": 1, "n": 2}))
        running.until("done with two events", lambda: running.total("event_count") == 2)
        assert len(records(kafka, f"{name}.to.ann")) == 2
        (letter,) = records(kafka, f"{name}.dead")
        assert dict(letter.headers)["sluice_reason"] == b"missing_topic"
        assert dict(letter.headers)["sluice_subscriber"] == b"ben"


COUNTS = {"made": 2, "before": 3, "meanwhile": 3}  # partitions by subscriber


@dataclass(frozen=True)
class Shared:
    """A job for several tests. Each has its own subscribers, and fields in its events."""

    sluice: CommandLine
    topics: Topics
    running: Job

    def produce(self, *events: dict[str, Any]) -> None:
        """Waits until the job is done with them."""
        done = self.running.total("event_count")
        self.sluice("produce", stdin=lines(*events))
        self.running.until("done with the events", lambda: self.running.total("event_count") == done + len(events))


@pytest.fixture(scope="module")
def shared(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """Delivery topics that it makes have two partitions."""
    with prefix(kafka) as name:
        sluice = CommandLine(kafka, name, tmp_path_factory.mktemp("job"))
        sluice.environment["SLUICE_DELIVERIES__PARTITIONS"] = "2"
        sluice("topics", "create")
        topics = Topics(kafka, {})
        topics.create([Topic(f"{name}.to.before", COUNTS["before"])])
        sluice("subscribe", stdin=lines(*(subscription(s, s, x=[1]) for s in ("made", "before"))))
        with job(sluice) as running:
            yield Shared(sluice, topics, running.running())


def test_a_second_job_on_the_same_checkpoint_and_one_with_a_wrong_setting_are_rejected(
    shared: Shared, tmp_path: Path
) -> None:
    assert "another job is running on the checkpoint" in shared.sluice("run", code=1)
    wrong = ("-s", f"query.checkpoint={tmp_path}/other", "-s", "matching.algorithm=scam")
    assert "did you mean 'scan'" in shared.sluice("run", *wrong, code=1)


def test_a_deleted_topic_of_a_subscriber_is_made_again(shared: Shared, kafka: str) -> None:
    name = shared.sluice.name
    shared.sluice("subscribe", "--wait", stdin=lines(subscription("a", "ann", y=[1]), subscription("b", "ben", y=[1])))
    shared.produce({"y": 1})
    letters = len(records(kafka, f"{name}.dead"))  # of other tests
    delete(shared.topics, f"{name}.to.ben")
    shared.produce({"y": 1, "n": 2})
    assert len(records(kafka, f"{name}.to.ann")) == 2
    assert [r.value for r in records(kafka, f"{name}.to.ben")] == [b'{"y": 1, "n": 2}']
    assert len(records(kafka, f"{name}.dead")) == letters


def test_events_of_one_partition_stay_in_order_however_many_partitions_a_delivery_topic_has(
    shared: Shared, kafka: str
) -> None:
    """Topics of the job, topics that existed before, and topics that a user creates during the run keep the order; a
    replay uses the same partitions."""
    sluice, running, n = shared.sluice, shared.running, 200
    name = sluice.name
    shared.topics.create([Topic(f"{name}.to.meanwhile", COUNTS["meanwhile"])])
    sluice("subscribe", "--wait", stdin=lines(subscription("meanwhile", "meanwhile", x=[1])))
    before = running.total("event_count")
    _produce(kafka, f"{name}.events", [(b"key-%d" % (i % 23), b'{"x": 1}') for i in range(n)])
    running.until("done with the events", lambda: running.total("event_count") == before + n)
    for subscriber, count in COUNTS.items():
        topic = f"{name}.to.{subscriber}"
        assert shared.topics.partitions()[topic] == count
        placed = _places(records(kafka, topic), count)
        assert len(placed) == n
        sluice("replay", subscriber, "--from", "2020-01-01T00:00:00Z")
        replays = [r for r in records(kafka, topic) if "sluice_replay" in dict(r.headers)]
        assert _places(replays, count) == placed


def _places(deliveries: list[Any], partitions: int) -> set[tuple[str, int]]:
    """(id of the event, partition) of each; those of one partition of the events topic must be in one, in order."""
    read: dict[int, list[tuple[int, int]]] = {}
    for record in deliveries:
        source, offset = dict(record.headers)["ce_id"].decode().rsplit("-", 2)[1:]
        read.setdefault(int(source), []).append((record.partition, int(offset)))
    for source, found in read.items():
        assert {partition for partition, _ in found} == {source % partitions}
        assert [offset for _, offset in found] == sorted(offset for _, offset in found)
    return {(dict(r.headers)["ce_id"].decode(), r.partition) for r in deliveries}


def test_changes_are_waited_for_and_subscriptions_are_paused_and_resumed(shared: Shared, kafka: str) -> None:
    sluice, running = shared.sluice, shared.running

    def produce(n: int) -> None:
        shared.produce({"symbol": "IBM", "n": n})

    def delivered() -> list[int]:
        return [orjson.loads(r.value)["n"] for r in records(kafka, f"{sluice.name}.to.alice")]

    def last_batch() -> dict[str, Any]:
        return [line for line in running.lines if line["event"] == "batch_finished"][-1]

    good, bad = subscription("s1", "alice", symbol=["IBM"]), subscription("s2", "bob", symbol=[{"prefx": "I"}])
    error = sluice("subscribe", "--wait", stdin=lines(good, bad), code=1)
    (accepted,) = [line for line in error.splitlines() if line.startswith("s1: ")]
    assert re.fullmatch(r"s1: in force from version \d+, events 0:\d+, 1:\d+", accepted)
    assert "s2: rejected: field symbol: unknown operator 'prefx'; did you mean 'prefix'?" in error
    produce(1)
    assert delivered() == [1]
    registered = last_batch()["subscription_count"]

    paused = orjson.loads(sluice("pause", "s1", "--wait", "--json"))
    assert (paused["id"], paused["status"], paused["subscriber"]) == ("s1", "paused", "alice")
    assert sum(paused["in_force_from"].values()) == running.total("event_count")
    produce(2)
    assert delivered() == [1]
    assert last_batch()["subscription_count"] == registered

    assert "nothing was written" in sluice("pause", "s1", "s3", code=1)
    assert sluice("pause", "s1", "--wait", "--json") == ""
    assert orjson.loads(sluice("resume", "s1", "--wait", "--json"))["status"] == "accepted"
    produce(3)
    assert sorted(delivered()) == [1, 3]

    assert orjson.loads(sluice("unsubscribe", "s1", "--wait", "--json"))["status"] == "unsubscribed"
    assert "'s1' is unsubscribed" in sluice("resume", "s1", code=1)
    produce(4)
    assert sorted(delivered()) == [1, 3]


def test_changes_that_no_job_answers_are_waited_for_as_long_as_asked(sluice: CommandLine) -> None:
    sluice("topics", "create")
    changes = lines(subscription("s1", "alice", symbol=["IBM"]), subscription("s2", "bob"))
    error = sluice("subscribe", "--wait", "--timeout", "1", stdin=changes, code=75)
    assert "no answer to 2 of 2 changes within 1 s: 's" in error
    assert "a running job" in error


def _produce(kafka: str, topic: str, pairs: list[tuple[bytes, bytes]]) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=kafka)
    for key, value in pairs:
        producer.send(topic, value, key=key)
    producer.close()
