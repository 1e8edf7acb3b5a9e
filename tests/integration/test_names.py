"""Names of subscribers, and the broker's treatment of their topics."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaming.driver.pipeline import Pipeline
from streaming.kafka.outputs import OutputTopics
from streaming.kafka.topics import Topics
from tests.stage import NAMES, ListSink, change, event, state, step


@pytest.mark.parametrize("subscriber", [".", "..", "...", "-", "a.b", "x" * 200])
def test_every_name_that_is_taken_makes_a_topic(subscriber: str, kafka: str, name: str) -> None:
    outputs = OutputTopics(Topics(kafka, {}), 1, 1, create=True)
    topic = f"{name}.to.{subscriber}"
    assert outputs.missing([topic]) == set()
    assert topic in Topics(kafka, {}).partitions()


def test_of_two_names_that_differ_in_a_dot_only_the_first_gets_its_deliveries(kafka: str, name: str) -> None:
    """The broker refuses the other topic; those deliveries are dead letters, and the stream goes on."""
    names = replace(NAMES, delivery_topic=lambda subscriber: f"{name}.to.{subscriber}")
    sink = ListSink()
    p = Pipeline(state(), sink, OutputTopics(Topics(kafka, {}), 1, 1, create=True), names)
    step(p, change(0, "s1", {"subscriber": "a.b", "pattern": {"x": [1]}}))
    step(p, change(1, "s2", {"subscriber": "a_b", "pattern": {"x": [1]}}))
    for offset in (0, 1):
        delivered, letter = step(p, event(offset, {"x": 1}))
        assert delivered.topic == f"{name}.to.a.b"
        assert letter.topic == "dead"
        headers = dict(letter.headers)
        assert headers["sluice_reason"] == b"missing_topic"
        assert headers["sluice_subscriber"] == b"a_b"
