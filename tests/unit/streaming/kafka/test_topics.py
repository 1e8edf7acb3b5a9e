"""The client for topics, where the broker does not answer, or creates none."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition

from streaming.errors import BrokerUnreachable, Forbidden, TopicMissing
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
        lambda there: there.rejected_config(Topic("events")),
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


class Rejecting:
    """An admin client of a cluster of `brokers`, which answers the creation of a topic with one error after the
    other, the last one again and again; without any it creates it."""

    def __init__(self, brokers: int, *codes: int) -> None:
        self.brokers = brokers
        self.codes = list(codes)
        self.tries = 0
        self.hidden = 0  # so many times it does not show the topics that there are

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(brokers=dict.fromkeys(range(self.brokers)), topics={})

    def create_topics(self, wanted: list[Any], **_: object) -> dict[str, Future[Any]]:
        self.tries += 1
        futures = {topic.topic: Future[Any]() for topic in wanted}
        for name, future in futures.items():
            if name == "made" or not self.codes:
                future.set_result(None)
            else:
                future.set_exception(KafkaException(KafkaError(self.codes[0])))
        self.codes = self.codes[1:] if len(self.codes) != 1 else self.codes
        return futures

    def describe_topics(self, topics: TopicCollection, **_: object) -> dict[str, Future[Any]]:
        futures = {name: Future[Any]() for name in topics.topic_names}
        for future in futures.values():
            if self.hidden:
                future.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
            else:
                future.set_result(SimpleNamespace(partitions=[0]))
        self.hidden = max(self.hidden - 1, 0)
        return futures


class Clock:
    """A time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, s: float) -> None:
        self.now += s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(topics, "time", clock)
    return clock


def of(admin: Rejecting | Leaderless, monkeypatch: pytest.MonkeyPatch) -> Topics:
    there = Topics("127.0.0.1:1", {})
    monkeypatch.setattr(there, "_admin", admin)
    return there


WANTED = [Topic("made"), Topic("wanted", replication_factor=3)]
PASSING = (
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_CONTROLLER,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError.INVALID_REPLICATION_FACTOR,  # all three brokers are fenced
)


@pytest.mark.parametrize("code", PASSING)
def test_a_creation_that_fails_for_a_moment_is_tried_again(
    code: int, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    admin = Rejecting(3, code, code, KafkaError.TOPIC_ALREADY_EXISTS)  # the second try made it, and the answer was lost
    assert of(admin, monkeypatch).create(WANTED) == {}
    assert admin.tries == 3
    assert clock.now < 1.0


def test_a_creation_waits_until_the_broker_shows_the_topics(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    admin = Rejecting(3)
    admin.hidden = 3
    assert of(admin, monkeypatch).create(WANTED) == {}
    assert (admin.hidden, admin.tries) == (0, 1)
    assert 0.0 < clock.now < 1.0


@pytest.mark.parametrize("code", PASSING)
def test_a_creation_that_goes_on_failing_is_no_dead_letter_but_a_broker_that_is_away(
    code: int, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    with pytest.raises(BrokerUnreachable, match="the topic wanted cannot be created"):
        of(Rejecting(3, code), monkeypatch).create(WANTED)
    assert 30.0 < clock.now < 40.0


@pytest.mark.parametrize(
    ("brokers", "code"),
    [
        (3, KafkaError.TOPIC_AUTHORIZATION_FAILED),
        (3, KafkaError.TOPIC_EXCEPTION),
        (3, KafkaError.POLICY_VIOLATION),
        (1, KafkaError.INVALID_REPLICATION_FACTOR),
        (2, KafkaError.INVALID_REPLICATION_FACTOR),
    ],
)
def test_a_creation_that_needs_a_change_is_given_up_at_once(
    brokers: int, code: int, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    admin = Rejecting(brokers, code)
    assert of(admin, monkeypatch).create(WANTED) == {"wanted": KafkaError(code).str()}
    assert admin.tries == 1
    assert clock.now == 0.0


def test_brokers_that_are_away_now_count_for_a_factor_of_replication(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    admin = Rejecting(3, KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.INVALID_REPLICATION_FACTOR)
    there = of(admin, monkeypatch)
    there.partitions()
    admin.brokers, admin.codes = 1, [*admin.codes, KafkaError.TOPIC_ALREADY_EXISTS]
    assert there.create(WANTED) == {}


class Leaderless:
    """An admin client of a topic of one partition, which has no leader for the first `times` requests."""

    def __init__(self, times: int, code: int = KafkaError.NOT_LEADER_FOR_PARTITION) -> None:
        self.times = times
        self.code = code

    def list_topics(self, name: str, timeout: float) -> Any:
        return SimpleNamespace(topics={name: SimpleNamespace(partitions={0: None})})

    def list_offsets(self, wanted: dict[TopicPartition, Any], **_: object) -> dict[TopicPartition, Future[Any]]:
        future = Future[Any]()
        if self.times:
            future.set_exception(KafkaException(KafkaError(self.code)))
        else:
            future.set_result(SimpleNamespace(offset=7))
        self.times -= 1
        return dict.fromkeys(wanted, future)


def test_a_topic_that_was_deleted_a_moment_ago_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Topics("127.0.0.1:1", {})
    monkeypatch.setattr(there, "counts", lambda names: {})
    with pytest.raises(TopicMissing, match="no topic events at "):
        there.offsets("events")


OFFSETS = [
    pytest.param(lambda there: there.ends(["events"], 5.0), "end", id="ends"),
    pytest.param(lambda there: there.firsts([("events", 0)], 5.0), "first", id="firsts"),
]


@pytest.mark.parametrize(("request_", "which"), OFFSETS)
def test_offsets_of_a_partition_without_a_leader_are_asked_for_again(
    request_: Callable[[Topics], object], which: str, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    assert request_(of(Leaderless(3), monkeypatch)) == {("events", 0): 7}
    assert 0.0 < clock.now < 1.0
    with pytest.raises(BrokerUnreachable, match=f"cannot read {which} offsets at "):
        request_(of(Leaderless(1_000), monkeypatch))
    assert 4.0 < clock.now < 7.0


@pytest.mark.parametrize(("request_", "which"), OFFSETS)
def test_offsets_that_are_rejected_are_not_asked_for_again(
    request_: Callable[[Topics], object], which: str, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    with pytest.raises(Forbidden, match=f"{which} offsets"):
        request_(of(Leaderless(1, KafkaError.TOPIC_AUTHORIZATION_FAILED), monkeypatch))
    assert clock.now == 0.0
