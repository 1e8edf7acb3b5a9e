"""The client for topics, where the broker does not answer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from streaming.errors import BrokerUnreachable
from streaming.kafka import topics
from streaming.kafka.topics import Topic, Topics


class Silent:
    """An admin client whose requests are never answered: a new cluster still makes the topic of its groups."""

    def describe_consumer_groups(self, names: list[str], **_: object) -> dict[str, Future[Any]]:
        return {name: Future() for name in names}

    def create_topics(self, wanted: list[Any], **_: object) -> dict[str, Future[Any]]:
        return {topic.topic: Future() for topic in wanted}

    def describe_topics(self, names: Any, **_: object) -> dict[str, Future[Any]]:
        return {"events": Future()}

    delete_topics = describe_consumer_groups


@pytest.mark.parametrize(
    "request_",
    [
        lambda there: there.check_group("sluice"),
        lambda there: there.create([Topic("events")]),
        lambda there: there.refused_config(Topic("events")),
        lambda there: there.delete(["events"]),
        lambda there: there.counts(["events"]),
        lambda there: there._check_rights(["events"]),
    ],
    ids=["group", "create", "config", "delete", "counts", "rights"],
)
def test_a_broker_that_does_not_answer_in_time_may_answer_later(
    request_: Callable[[Topics], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "TIMEOUT_S", 0.01)
    there = Topics("127.0.0.1:1", {})
    monkeypatch.setattr(there, "_admin", Silent())
    with pytest.raises(BrokerUnreachable, match="does not answer") as raised:
        request_(there)
    assert raised.value.retry
