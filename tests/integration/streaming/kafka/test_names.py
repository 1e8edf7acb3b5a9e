"""Names of subscribers, and the broker's treatment of their topics."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from streaming.kafka.outputs import OutputTopics
from streaming.kafka.topics import Topic, Topics
from streaming.publishing.delivery import DeliveryRule
from tests.support.doubles.spark_double import WithoutSpark
from tests.support.doubles.stage import NAMES, SETTINGS, ListSink, SlotsOn, change, event, state, step
from tests.support.patience import PATIENCE_S


@pytest.mark.parametrize("subscriber", [".", "..", "...", "-", "a.b", "x" * 200])
def test_every_name_that_is_taken_makes_a_topic(subscriber: str, kafka: str, name: str) -> None:
    outputs = OutputTopics(Topics(kafka, {}), 1, 1, create=True)
    topic = f"{name}.to.{subscriber}"
    assert outputs.missing([topic]) == set()
    end = time.monotonic() + PATIENCE_S
    while topic not in Topics(kafka, {}).partitions():  # the broker knows a moment after it has answered
        assert time.monotonic() < end
        time.sleep(0.1)


def test_of_two_names_that_differ_in_a_dot_only_the_first_gets_its_deliveries(kafka: str, name: str) -> None:
    """The broker rejects the other topic; those deliveries are dead letters, and the stream goes on."""
    dead = f"{name}.dead"
    names = replace(NAMES, dead_letters=dead, delivery_topic=lambda subscriber: f"{name}.to.{subscriber}")
    topics, sink = Topics(kafka, {}), ListSink()
    owner: Any = sink
    topics.create([Topic(dead)])
    slots: Any = SlotsOn(sink, broker=topics)
    settings = replace(SETTINGS, dead_letters=dead, rule=DeliveryRule(f"{name}.to."))
    p = WithoutSpark(state(), settings, owner, slots, OutputTopics(topics, 1, 1, create=True), names, careful=False)
    step(p, change(0, "s1", {"subscriber": "a.b", "pattern": {"x": [1]}}))
    step(p, change(1, "s2", {"subscriber": "a_b", "pattern": {"x": [1]}}))
    for offset in (0, 1):
        delivered, letter = sorted(step(p, event(offset, {"x": 1})), key=lambda record: record.topic == dead)
        assert delivered.topic == f"{name}.to.a.b"
        assert letter.topic == dead
        headers = dict(letter.headers)
        assert headers["sluice_reason"] == b"missing_topic"
        assert headers["sluice_subscriber"] == b"a_b"
