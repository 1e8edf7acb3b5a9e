"""Several topics of events in one job: each event is delivered once and in order, whatever dies or is added."""

from __future__ import annotations

import json
import signal
from collections import Counter
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer

from streaming.kafka.topics import Topic, Topics
from tests.integration.conftest import CommandLine
from tests.integration.running import Job, job, lines, records, subscription
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.usefixtures("each_reading")
ENVELOPE: list[tuple[str, str | bytes | None]] = [("content-type", b"application/cloudevents+json")]
Place = tuple[str, int, int]  # topic, partition, offset


class Topology:
    """A job with topics of events, of which the last has CloudEvents, and what was written to them."""

    def __init__(self, sluice: CommandLine, kafka: str) -> None:
        self.kafka, self.sluice, self.name = kafka, sluice, sluice.name
        self.orders, self.trades, self.ticks = (f"{self.name}.{topic}" for topic in ("orders", "trades", "ticks"))
        del sluice.environment["SLUICE_EVENTS__TOPIC"]
        self.written: Counter[Place] = Counter()
        self._next: Counter[tuple[str, int]] = Counter()
        self._producer = Producer({"bootstrap.servers": kafka})

    def read(self, *topics: str) -> None:
        """Settings for the next start."""
        self.sluice.environment["SLUICE_EVENTS__TOPICS"] = ",".join(topics)
        codecs = {self.trades: "cloudevents"} if self.trades in topics else {}
        self.sluice.environment["SLUICE_EVENTS__CODECS"] = json.dumps(codecs)

    def write(self, topic: str, n: int, **fields: Any) -> None:
        """To both partitions in turn."""
        for i in range(n):
            partition = i % 2
            offset = self._next[topic, partition]
            value: dict[str, Any] = {"n": offset, **fields}
            headers = None
            if topic == self.trades:
                value = {"specversion": "1.0", "id": str(i), "source": "s", "type": "t", **value}
                headers = ENVELOPE
            self._producer.produce(topic, json.dumps(value).encode(), partition=partition, headers=headers)
            self._producer.poll(0)
            self._next[topic, partition] += 1
            self.written[topic, partition, offset] += 1
        assert self._producer.flush(PATIENCE_S) == 0

    def delivered(self, subscriber: str) -> list[Place]:
        """The places of the events, in the order of the deliveries."""
        return [place(record) for record in records(self.kafka, f"{self.name}.to.{subscriber}")]

    def until_all_are_delivered(self, running: Job) -> None:
        running.until("delivered", lambda: len(self.delivered("alice")) == len(self.written))

    def check_deliveries(self) -> None:
        """Alice has every event once, those of each partition in order."""
        places = self.delivered("alice")
        assert Counter(places) == self.written
        assert in_order(places)


def place(record: Any) -> Place:
    """The place that a delivery names in its headers."""
    headers = dict(record.headers)
    topic, partition, offset = headers["ce_id"].decode().rsplit("-", 2)
    assert headers["ce_source"] == f"kafka:{topic}".encode()
    return topic, int(partition), int(offset)


@pytest.fixture
def many(sluice: CommandLine, kafka: str) -> Topology:
    return Topology(sluice, kafka)


def in_order(places: list[Place]) -> bool:
    last: dict[tuple[str, int], int] = {}
    for topic, partition, offset in places:
        if offset <= last.get((topic, partition), -1):
            return False
        last[topic, partition] = offset
    return True


def test_each_event_of_several_topics_is_delivered_once_and_in_order(many: Topology) -> None:
    sluice, kafka, name = many.sluice, many.kafka, many.name
    many.read(many.orders, many.trades)
    sluice("topics", "create", "--partitions", "2")
    of_trades = {"id": "b", "subscriber": "bob", "pattern": {"$topic": [many.trades], "n": [{"numeric": ["<", 5]}]}}
    with job(sluice, fresh=True) as running:
        running.running()
        sluice("subscribe", "--wait", stdin=lines(subscription("a", "alice", n=[{"exists": True}]), of_trades))
        many.write(many.orders, 3_000)
        many.write(many.trades, 3_000)
        topics = Topics(kafka, {})
        running.until("publishing", lambda: any(high for _, _, high in topics.offsets(f"{name}.to.alice")))
        running.process.send_signal(signal.SIGKILL)
        running.ended()
    status = {r.key.decode(): orjson.loads(r.value) for r in records(kafka, f"{name}.status")}["a"]
    assert status["in_force_from"] == {topic: {"0": 0, "1": 0} for topic in (many.orders, many.trades)}
    many.write(many.orders, 200)
    many.write(many.trades, 200)

    # A topic is added, which has events already.
    Topics(kafka, {}).create([Topic(many.ticks, 2)])
    many.write(many.ticks, 100)
    many.read(many.orders, many.ticks, many.trades)
    with job(sluice) as running:
        running.running()
        many.until_all_are_delivered(running)
        many.write(many.ticks, 100)
        many.until_all_are_delivered(running)
        running.process.send_signal(signal.SIGTERM)
        assert running.ended() == 0

    # One is left out, and comes back: what was written meanwhile is read, and nothing twice.
    many.read(many.trades, many.ticks)
    expected = len(many.written)
    many.write(many.orders, 50)
    with job(sluice) as running:
        running.running()
        many.write(many.trades, 50)
        running.until("delivered", lambda: len(many.delivered("alice")) == expected + 50)
        running.process.send_signal(signal.SIGTERM)
        assert running.ended() == 0
    many.read(many.orders, many.trades, many.ticks)
    with job(sluice) as running:
        running.running()
        many.until_all_are_delivered(running)
    many.check_deliveries()
    assert sorted(many.delivered("bob")) == [(many.trades, p, n) for p in (0, 1) for n in range(5)]
    assert records(kafka, f"{name}.dead") == []


def test_topics_that_match_a_pattern_are_read_from_their_first_record_whenever_they_come(many: Topology) -> None:
    sluice, kafka, name = many.sluice, many.kafka, many.name
    topics = Topics(kafka, {})
    first, second, third = (f"{name}.in.{topic}" for topic in "abc")
    sluice.environment["SLUICE_EVENTS__TOPIC_PATTERN"] = rf"{name}\.in\..*"
    sluice("topics", "create")
    assert "matches no topic" in sluice("run", code=1)
    topics.create([Topic(first, 2)])
    with job(sluice, fresh=True) as running:
        running.running()
        sluice("subscribe", "--wait", stdin=lines(subscription("a", "alice", n=[{"exists": True}])))
        many.write(first, 100)
        topics.create([Topic(second, 2)])
        many.write(second, 1_000)
        many.until_all_are_delivered(running)
        before = len(many.written)
        many.write(first, 1_000)
        many.write(second, 1_000)
        running.until("publishing", lambda: len(many.delivered("alice")) > before)
        running.process.send_signal(signal.SIGKILL)
        running.ended()
    topics.create([Topic(third, 2)])
    many.write(third, 100)
    with job(sluice) as running:
        running.running()
        many.until_all_are_delivered(running)
        many.check_deliveries()
        if sluice.environment["SLUICE_EVENTS__READING"] == "source":
            return  # Spark does not notice it
        topics.delete([second])
        assert running.ended() == 75
    with job(sluice) as running:
        running.running()
        many.write(third, 100)
        many.until_all_are_delivered(running)
