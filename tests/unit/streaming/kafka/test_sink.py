"""The sink while topics are deleted during a transaction, and in a process that was replaced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming.documents.records import Record
from streaming.errors import BrokerUnreachable, ClaimFailed, Fenced, JobError
from streaming.kafka import sink as sink_module
from streaming.kafka.outputs import OutputTopics
from streaming.kafka.sink import Aborted, TransactionalSink
from streaming.kafka.topics import Topic
from tests.support.doubles import kafka_double
from tests.support.doubles.spark_double import Frame, WithoutSpark
from tests.support.doubles.stage import NAMES, SETTINGS, SlotsOn, change, event, state


class Stuck(kafka_double.Producer):
    """No record is taken, as when one topic of a transaction does not exist any more."""

    def produce(self, *_: Any, **__: Any) -> None: ...

    def flush(self, timeout: float) -> int:
        return 2


class Held(Stuck):
    """As that, and neither can the transaction be aborted."""

    def abort_transaction(self, timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "2 message(s) remaining"))


class ListingConsumer(kafka_double.GroupConsumer):
    there = ("here",)

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(topics=dict.fromkeys(self.there))


@pytest.mark.parametrize("producer", [Stuck, Held])
@pytest.mark.parametrize(
    ("topics", "error", "reason"),
    [
        (("here", "gone"), Aborted, "topic gone does not exist any more"),
        (("here", "here"), BrokerUnreachable, "2 records were not taken within 60 s"),
    ],
)
def test_records_that_are_not_taken_are_tried_again_if_their_topic_is_gone(
    monkeypatch: pytest.MonkeyPatch,
    producer: type[Stuck],
    topics: tuple[str, ...],
    error: type[Exception],
    reason: str,
) -> None:
    broker = kafka_double.Broker()
    broker.install(monkeypatch, lambda producer: producer)
    monkeypatch.setattr(sink_module, "Producer", lambda config: producer(broker, config))
    monkeypatch.setattr(sink_module, "Consumer", lambda config: ListingConsumer(broker, config))
    sink = TransactionalSink("", {}, "q", owner="a")
    with pytest.raises(error, match=reason):
        sink.publish([Record(topic, None, b"v", []) for topic in topics], {("events", 0): 1})


class Speechless(kafka_double.Producer):
    """It was fenced, and `flush` fails without saying so."""

    failed = False

    def flush(self, timeout: float) -> int:
        self.failed = True
        raise SystemError("flush returned NULL without setting an exception")

    def begin_transaction(self) -> None:
        if self.failed:
            raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", True))
        super().begin_transaction()


def test_a_fatal_error_that_the_client_loses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = kafka_double.Broker()
    broker.install(monkeypatch, lambda producer: producer)
    monkeypatch.setattr(sink_module, "Producer", lambda config: Speechless(broker, config))
    with pytest.raises(Fenced):
        TransactionalSink("", {}, "q").publish([], {("events", 0): 1})


PLACES = [("events", 0), ("events", 1), ("subs", 0)]


@pytest.mark.parametrize("taken", [PLACES, PLACES[:1], PLACES[2:]], ids=["all", "the first", "the last"])
def test_a_process_that_was_replaced_opens_nothing_if_another_committed_any_offset_it_had_claimed(
    monkeypatch: pytest.MonkeyPatch, taken: list[tuple[str, int]]
) -> None:
    broker = kafka_double.Broker()
    broker.install(monkeypatch, lambda producer: producer)
    TransactionalSink("", {}, "q", owner="a").publish([], dict.fromkeys(PLACES, 5))
    again = TransactionalSink("", {}, "q", owner="a", partitions=PLACES, again=True)
    assert again.committed(PLACES) == dict.fromkeys(PLACES, 5)
    other = TransactionalSink("", {}, "q", owner="b")
    other.publish([], dict.fromkeys(taken, 6))
    with pytest.raises(Fenced, match="has taken over"):
        TransactionalSink("", {}, "q", owner="a", partitions=PLACES, again=True)
    other.publish([], dict.fromkeys(taken, 7))  # it was not fenced by who was replaced


@pytest.mark.parametrize(("claims", "error"), [(False, ClaimFailed), (True, Fenced)])
def test_a_process_that_is_fenced_in_its_claim_may_try_again_unless_another_has_claimed(
    monkeypatch: pytest.MonkeyPatch, claims: bool, error: type[JobError]
) -> None:
    broker = kafka_double.Broker()
    broker.install(monkeypatch, lambda producer: producer)
    TransactionalSink("", {}, "q", owner="a").publish([], dict.fromkeys(PLACES, 5))
    sink = TransactionalSink("", {}, "q", owner="b", partitions=PLACES)
    other = TransactionalSink("", {}, "q", owner="a" if not claims else "c")
    if claims:
        other.committed(PLACES)
    with pytest.raises(error):
        sink.committed(PLACES)
    assert error.retry == (not claims)
    other.publish([], dict.fromkeys(PLACES, 6))
    assert TransactionalSink("", {}, "q", owner="b").committed(PLACES) == dict.fromkeys(PLACES, 6)


@pytest.mark.kernels
@pytest.mark.parametrize("create", [True, False])
def test_a_hundred_topics_that_are_deleted_at_once_do_not_end_the_job(
    monkeypatch: pytest.MonkeyPatch, create: bool
) -> None:
    broker = kafka_double.Broker()
    broker.install(monkeypatch, lambda producer: producer)
    subscribers = [f"s{n}" for n in range(100)]
    broker.create(Topic(name) for name in ("status", "dead", *map(NAMES.delivery_topic, subscribers)))
    sink, topics = TransactionalSink("", {}, "q", owner="a"), OutputTopics(broker, 1, 1, create)  # type: ignore[arg-type]  # a double
    slots: Any = SlotsOn(sink, broker=broker)
    p = WithoutSpark(state(), SETTINGS, sink, slots, topics, NAMES, careful=False)
    documents = [{"subscriber": subscriber, "pattern": {"x": [1]}} for subscriber in subscribers]
    for rows in ([change(n, f"id{n}", document) for n, document in enumerate(documents)], [event(0, {"x": 1})]):
        p(Frame.of(rows, 1_000, slots.stage), 0)  # type: ignore[arg-type]  # a double
    broker.delete([NAMES.delivery_topic(subscriber) for subscriber in subscribers])
    broker.deleted.clear()
    p(Frame.of([event(1, {"x": 1})], 1, slots.stage), 0)  # type: ignore[arg-type]  # a double
    made = sorted(record.topic for record in broker.read() if record.topic != "status")
    assert made == (sorted(map(NAMES.delivery_topic, subscribers)) if create else ["dead"] * 100)


def fenced(monkeypatch: pytest.MonkeyPatch) -> tuple[kafka_double.Broker, TransactionalSink, TransactionalSink]:
    """A broker, a sink that has committed, and one that has fenced it and not claimed the offsets yet."""
    broker = kafka_double.Broker()
    broker.install(monkeypatch, lambda producer: producer)
    old = TransactionalSink("", {}, "q", owner="a", partitions=PLACES)
    old.publish([], dict.fromkeys(PLACES, 5))
    return broker, old, TransactionalSink("", {}, "q", owner="b", partitions=PLACES)


def test_who_was_fenced_lets_the_other_claim_before_it_opens_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, old, new = fenced(monkeypatch)
    monkeypatch.setattr(broker, "sleep", lambda _: new.committed(PLACES))
    with pytest.raises(Fenced, match="has taken over"):
        old.publish([], dict.fromkeys(PLACES, 6))
    new.publish([], dict.fromkeys(PLACES, 7))
    assert new.committed(PLACES) == dict.fromkeys(PLACES, 7)


def test_who_was_fenced_goes_on_if_nobody_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    _, old, _ = fenced(monkeypatch)
    with pytest.raises(Aborted):
        old.publish([], dict.fromkeys(PLACES, 6))
    old.publish([], dict.fromkeys(PLACES, 6))
    assert old.committed(PLACES) == dict.fromkeys(PLACES, 6)
