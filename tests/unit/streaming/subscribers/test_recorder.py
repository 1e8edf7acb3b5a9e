"""The thread that keeps the metrics: an error costs no count, and who was replaced writes nothing more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from matchers.index.snapshot import Snapshot
from streaming.documents.records import Record
from streaming.errors import BrokerUnreachable, TopicMissing, Unsettled
from streaming.kafka.clients import Cluster
from streaming.monitoring.view import SubscribersView
from streaming.subscribers import recorder
from streaming.subscribers.metrics_topic import MetricsTopic, totals_of
from streaming.subscribers.recorder import RecorderLimits, SubscriberRecorder
from streaming.subscribers.totals import Totals
from tests.support.doubles.stage import apply, change, state
from tests.support.patience import until
from tests.unit.streaming.subscribers.test_totals import Message, again, report, subscribers

pytestmark = pytest.mark.kernels


class ListTopic(MetricsTopic):
    """A metrics topic without a broker. Reading and writing fail with the errors that wait."""

    def __init__(self) -> None:
        super().__init__(Cluster("", {}), "metrics", "q")
        vars(self).update(written=[], reading_errors=[], errors=[], opened_producers=0)

    written: list[Record]
    reading_errors: list[Exception]
    errors: list[Exception]
    opened_producers: int

    def client(self) -> Any:
        return nullcontext()

    def opened(self, client: Any) -> Any:
        vars(self)["opened_producers"] += 1
        return self

    def totals(self) -> Totals:
        if self.reading_errors:
            raise self.reading_errors.pop(0)
        messages: Any = map(Message, self.written)
        return totals_of(messages, self.query)

    def publish(self, records: list[Record]) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.written.extend(records)

    def values(self) -> dict[str, int]:
        return {name: one.deliveries for name, one in subscribers(again(self.written)).items()}


@contextmanager
def recording(topic: ListTopic, snapshot: Snapshot | None = None) -> Iterator[SubscriberRecorder]:
    subscribed = state()
    if snapshot is None:
        documents = [("a", "ann"), ("b", "bob")]
        apply(
            subscribed,
            [change(i, id, {"subscriber": to, "pattern": {"x": [1]}}) for i, (id, to) in enumerate(documents)],
        )
    limits = RecorderLimits(100_000, ["ann"], every_s=0.01)
    with SubscriberRecorder(topic, lambda: snapshot or subscribed.snapshot, limits) as started:
        yield started


ANN = report({"ann": {"a": 2}}).to_bytes()
BOB = report({"bob": {"b": 1}}).to_bytes()


def test_reports_are_written_and_added_to_at_the_next_start() -> None:
    topic = ListTopic()
    with recording(topic) as first:
        first.counted(ANN)
        until(lambda: topic.values() == {"ann": 2})
        first.counted(BOB)  # written at the end
    assert topic.values() == {"ann": 2, "bob": 1}
    with recording(topic) as second:
        second.counted(ANN)
        until(lambda: second.view().is_whole and second.view().shown[0].deliveries == 4)
        assert second.view().number == 2
    assert topic.values() == {"ann": 4, "bob": 1}


@pytest.mark.parametrize("counts", [True, False])
def test_metrics_are_looked_up_by_name_and_by_id(counts: bool) -> None:
    limits = RecorderLimits(1, every_s=60.0, counts_subscriptions=counts)
    started = SubscriberRecorder(ListTopic(), Snapshot, limits)  # its thread does not run
    started.counted(ANN)
    started._add()
    found = started.look_up(["ann", "bob"], ["a", "b"])
    assert {name: one.deliveries for name, one in found.subscribers.items()} == {"ann": 2}
    assert (found.subscriptions is not None) == counts
    assert {id: of_id.matches for id, of_id in (found.subscriptions or {}).items()} == ({"a": 2} if counts else {})
    assert not found.is_whole
    assert started.look_up([], []).subscribers == {}


def test_an_error_of_the_topic_costs_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "RETRY_S", 0.0)
    topic = ListTopic()
    topic.reading_errors.append(TopicMissing("no topic metrics"))
    topic.errors.append(BrokerUnreachable("no broker"))
    with recording(topic) as started:
        started.counted(ANN)
        until(lambda: topic.values() == {"ann": 2})
        assert started.view().is_whole
    assert not topic.errors


def test_what_is_shown_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a restart after a kill would count backwards, which Prometheus takes for a new beginning."""
    monkeypatch.setattr(recorder, "RETRY_S", 0.0)
    topic = ListTopic()
    topic.errors.extend(BrokerUnreachable("away") for _ in range(5))
    with recording(topic) as started:
        started.counted(ANN)
        while True:
            shown = started.view().shown
            if topic.written:
                break
            assert shown == ()
        until(lambda: [one.deliveries for one in started.view().shown] == [2])
    assert topic.opened_producers == 6  # a new one each time: what became of the last transaction is unknown


def test_who_was_fenced_writes_nothing_more_unless_tasks_commit_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "RETRY_S", 0.2)
    topic = ListTopic()
    topic.errors.append(Unsettled("fenced"))
    with recording(topic) as started:
        started.counted(ANN)
        until(lambda: not topic.errors)
    assert topic.written == []
    topic.errors.append(Unsettled("timed out"))
    with recording(topic) as started:
        started.counted(ANN)
        until(lambda: not topic.errors)
        opened = topic.opened_producers
        time.sleep(0.3)
        assert topic.opened_producers == opened
        started.counted(BOB)
        until(lambda: topic.values() == {"ann": 2, "bob": 1})


def test_a_mistake_of_the_thread_ends_the_job() -> None:
    topic = ListTopic()
    topic.errors.append(ZeroDivisionError())

    def counted_again_and_again(started: SubscriberRecorder) -> None:
        until(lambda: started.counted(ANN))

    with pytest.raises(ZeroDivisionError), recording(topic) as started:
        counted_again_and_again(started)
    topic.errors.append(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError), recording(topic) as started:
        started.counted(ANN)


def test_many_reports_are_added_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "WAITING_REPORTS", 2)
    topic = ListTopic()
    started = SubscriberRecorder(topic, Snapshot, RecorderLimits(1, [], every_s=60.0))  # its thread does not run
    for _ in range(7):
        started.counted(ANN)
        assert len(started._reports) <= 2


def test_who_is_gone_becomes_a_tombstone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "SWEEP_EVERY_S", 0.0)  # the first sweep may come before the report
    topic = ListTopic()
    with recording(topic, Snapshot()) as started:
        started.counted(ANN)
        until(lambda: [record.key for record in topic.written if record.value is None] == [b"ann/a", b"ann"])
        assert started.view() != SubscribersView()
    assert topic.values() == {}
