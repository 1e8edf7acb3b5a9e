"""The topics of subscribers as the driver knows them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from config.model import Settings
from streaming.errors import BrokerUnreachable
from streaming.kafka.outputs import OutputTopics
from streaming.kafka.outputs import outputs as from_settings
from streaming.kafka.topics import Topic
from tests.support.patience import PATIENCE_S, until


class ListedTopics:
    """A broker's; `hold` makes lists wait."""

    def __init__(self, **partitions: int) -> None:
        self.there = {f"to.{name}": n for name, n in partitions.items()}
        self.created: list[Topic] = []
        self.lists = 0
        self.fails = False
        self.goes_on = threading.Event()
        self.goes_on.set()

    def partitions(self) -> dict[str, int]:
        there = dict(self.there)
        self.lists += 1
        self.goes_on.wait(PATIENCE_S)
        if self.fails:
            raise BrokerUnreachable("no answer")
        return there

    def create(self, topics: Any) -> Mapping[str, str]:
        for topic in topics:
            self.there[topic.name] = topic.partitions
            self.created.append(topic)
        return {}


def outputs(topics: Any, max_age_s: float) -> OutputTopics:
    return OutputTopics(topics, 2, 1, create=True, prefix="to.", max_age_s=max_age_s)


def test_only_unusual_numbers_of_partitions_of_our_topics_are_told() -> None:
    topics = ListedTopics(alice=2, bob=3)
    topics.there["another"] = 7
    known = outputs(topics, 300.0)
    assert known.unusual() == {"to.bob": 3}
    assert known.unusual() is known.unusual()
    assert known.missing(["to.carol"]) == set()  # it is made
    assert known.unusual() is known.unusual()
    assert known.unusual() == {"to.bob": 3}


def test_added_partitions_are_noticed_and_no_batch_waits_for_the_list() -> None:
    topics = ListedTopics(alice=2)
    known = outputs(topics, 0.0)
    topics.goes_on.clear()
    topics.there["to.alice"] = 3
    until(lambda: topics.lists > 1 or known.unusual() == {"to.alice": 3})
    assert (known.unusual(), known.partitions("to.alice")) == ({}, 2)
    topics.goes_on.set()
    until(lambda: known.unusual() == {"to.alice": 3})
    assert known.partitions("to.alice") == 3


def test_a_list_from_before_a_refresh_counts_no_more() -> None:
    topics = ListedTopics(alice=2)
    known = outputs(topics, 0.0)
    topics.goes_on.clear()
    until(lambda: known.unusual() == {} and topics.lists > 1)  # it has the old number
    topics.there["to.alice"] = 3
    topics.goes_on.set()
    known.refresh()
    for _ in range(100):
        assert known.unusual() == {"to.alice": 3}


@pytest.mark.parametrize("max_age_s", [0.0, 300.0])
def test_a_broker_that_does_not_answer_is_asked_again(max_age_s: float) -> None:
    topics = ListedTopics(alice=2)
    known = outputs(topics, max_age_s)
    topics.fails = True
    topics.there["to.alice"] = 3
    for _ in range(100):
        assert known.unusual() == {}
    if not max_age_s:
        until(lambda: known.unusual() == {} and topics.lists > 1)
    assert (topics.lists > 1) == (max_age_s == 0.0)
    topics.fails = False
    if not max_age_s:
        until(lambda: known.unusual() == {"to.alice": 3})


def test_a_new_topic_has_the_settings_of_delivery_topics_and_those_that_are_empty_are_the_brokers() -> None:
    config = {"retention.ms": 5, "index.interval.bytes": ""}
    settings = Settings.model_validate(
        {"deliveries": {"prefix": "to.", "topic_config": config, "partitions": 3, "replication_factor": 2}}
    )
    topics: Any = ListedTopics()
    assert from_settings(settings, topics).missing(["to.alice"]) == set()
    assert topics.created == [Topic("to.alice", 3, 2, {"segment.index.bytes": "262144", "retention.ms": "5"})]
