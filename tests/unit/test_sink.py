"""The sink, where a topic goes away while records are under way to it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streaming import sink as sinking
from streaming.errors import BrokerUnreachable
from streaming.records import Record
from streaming.sink import Aborted, TransactionalSink
from tests import kafka_double


class Stuck(kafka_double.Producer):
    """No record is taken, as when one topic of a transaction does not exist any more."""

    def produce(self, *_: Any, **__: Any) -> None: ...

    def flush(self, timeout: float) -> int:
        return 2


class Consumer(kafka_double.Consumer):
    there = ("here",)

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(topics=dict.fromkeys(self.there))


@pytest.mark.parametrize(
    ("topics", "error", "reason"),
    [
        (("here", "gone"), Aborted, "topic gone does not exist any more"),
        (("here", "here"), BrokerUnreachable, "2 records were not taken within 60 s"),
    ],
)
def test_records_that_are_not_taken_are_tried_again_if_their_topic_is_gone(
    monkeypatch: pytest.MonkeyPatch, topics: tuple[str, ...], error: type[Exception], reason: str
) -> None:
    broker = kafka_double.Broker()
    monkeypatch.setattr(sinking, "Producer", lambda config: Stuck(broker, config))
    monkeypatch.setattr(sinking, "Consumer", lambda config: Consumer(broker, config))
    sink = TransactionalSink("", {}, "q", owner="a")
    with pytest.raises(error, match=reason):
        sink.publish([Record(topic, None, b"v", []) for topic in topics], {("events", 0): 1})
