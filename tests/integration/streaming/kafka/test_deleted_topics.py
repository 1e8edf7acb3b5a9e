"""Delivery topics that somebody deletes while deliveries flow."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from streaming.driver.pipeline import Pipeline
from streaming.driver.slots import Slots
from streaming.kafka.outputs import OutputTopics
from streaming.kafka.topics import Topic, Topics
from streaming.publishing.connection.client import Client
from streaming.publishing.delivery import DeliveryRule
from streaming.publishing.ownership import Owner
from streaming.source_topics import SourceTopics
from tests.integration.running import records
from tests.support.doubles.spark_double import Frame, WithoutSpark
from tests.support.doubles.stage import NAMES, SETTINGS, Value, change, event, state

SUBSCRIBERS = [f"s{n:02}" for n in range(20)]


@pytest.fixture
def topics(kafka: str, name: str) -> Topics:
    made = Topics(kafka, {})
    made.create([Topic(f"{name}.{kind}") for kind in ("events", "subs", "status", "dead")])
    return made


@pytest.fixture
def owner(kafka: str, name: str) -> Iterator[Owner]:
    with closing(Client(kafka, {})) as client:
        yield Owner(client, name, "a")


def batch(p: Pipeline, *rows: dict[str, Any]) -> None:
    """Run a batch whose only task publishes with a real client."""
    frame: Any = Frame.of(rows, 100, lambda works: [work() for work in works])
    p(frame, 0)


@pytest.mark.parametrize("create", [True, False])
def test_many_topics_that_are_deleted_at_once_cost_nothing_but_time(
    kafka: str, name: str, topics: Topics, owner: Owner, create: bool
) -> None:
    """Half of them go. They are made anew, or what was for them becomes dead letters; the other half loses nothing."""
    events = f"{name}.events"
    names = replace(
        NAMES,
        sources=SourceTopics(f"{name}.subs", [events]),
        statuses=f"{name}.status",
        dead_letters=f"{name}.dead",
        delivery_topic=lambda subscriber: f"{name}.to.{subscriber}",
    )
    topics.create([Topic(names.delivery_topic(subscriber)) for subscriber in SUBSCRIBERS])
    outputs = OutputTopics(topics, 1, 1, create)
    settings = replace(
        SETTINGS,
        bootstrap_servers=kafka,
        query=name,
        topics=names.sources.events,
        dead_letters=names.dead_letters,
        rule=DeliveryRule(names.delivery_topic("")),
    )
    slots = Slots(owner, [(events, 0), (names.subscriptions, 0)], names.sources)
    slots.fence_all()
    slots.open(1, Value)
    p = WithoutSpark(state(), settings, owner, slots, outputs, names, careful=False)
    documents = [{"subscriber": subscriber, "pattern": {"x": [1]}} for subscriber in SUBSCRIBERS]
    batch(p, *(change(n, f"id{n}", document) for n, document in enumerate(documents)))
    gone, kept = SUBSCRIBERS[::2], SUBSCRIBERS[1::2]
    n = 30
    deleting = threading.Thread(target=topics.delete, args=([names.delivery_topic(s) for s in gone],))
    for offset in range(n):
        if offset == n // 3:
            deleting.start()
        if offset == n - 1:
            deleting.join()
            while not create and {*map(names.delivery_topic, gone)} & topics.partitions().keys():
                time.sleep(0.01)
        batch(p, event(offset, {"x": 1}))
    everything = [f"{events}-0-{offset}" for offset in range(n)]
    for subscriber in kept + gone * create:
        found = [dict(r.headers)["ce_id"].decode() for r in records(kafka, names.delivery_topic(subscriber))]
        assert found == everything[n - len(found) :]
        assert found == everything or subscriber in gone
    letters = [dict(r.headers) for r in records(kafka, names.dead_letters)]
    assert bool(letters) != create
    assert {r["sluice_reason"] for r in letters} <= {b"missing_topic"}
