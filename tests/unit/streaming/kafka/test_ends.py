"""The ends of partitions, and topics that are gone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from streaming.errors import TopicMissing
from streaming.kafka import ends
from streaming.kafka.clients import Cluster
from streaming.kafka.ends import TopicEnds


class Consumer:
    """The events topic has one partition, with 7 records, unless it is `gone`."""

    gone = False

    def list_topics(self, topic: str, timeout_s: float) -> Any:
        error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART) if self.gone else None
        return SimpleNamespace(topics={topic: SimpleNamespace(error=error, partitions={} if error else {0: None})})

    def offsets_for_times(self, partitions: Any, timeout_s: float) -> Any:
        return [SimpleNamespace(topic=p.topic, partition=p.partition, offset=7, error=None) for p in partitions]

    def close(self) -> None: ...


def test_a_topic_that_stays_away_is_an_error_and_one_that_comes_again_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer, now = Consumer(), SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr(Cluster, "reader", lambda self: consumer)
    monkeypatch.setattr(ends, "time", now)
    monkeypatch.setattr("streaming.kafka.login.renew", lambda *_: None)
    topics: Any = SimpleNamespace(sources={"events": 0})
    found = TopicEnds(Cluster("", {}), topics)

    def at(s: float, gone: bool) -> Any:
        now.monotonic, consumer.gone = lambda: s, gone
        return found()

    assert at(101.0, gone=False) == {("events", 0): 7}
    assert at(103.0, gone=True) is None
    assert at(107.0, gone=True) is None
    assert at(109.0, gone=False) == {("events", 0): 7}
    assert at(111.0, gone=True) is None
    with pytest.raises(TopicMissing, match="the topic events was deleted"):
        at(117.0, gone=True)
