"""Answers of brokers that are incomplete, cannot be read, or make no sense: the request is sent again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from kafka.protocol.producer import ProduceRequest

from streaming.errors import BrokerUnreachable, JobError
from streaming.publishing.connection.client import Client
from streaming.publishing.fencing import fence_all
from streaming.publishing.slot import Slot
from tests.support.doubles.wire import HOSTS, Frame, frame_of, whole
from tests.support.histories.spoiled_answers import ADDRESS, GROUP, SLOTS, TRANSACTIONS, AnswerHistory

Change = Callable[[Any], Any]


def _set(**fields: Any) -> Change:
    def change(response: Any) -> None:
        for name, value in fields.items():
            setattr(response, name, value)

    return change


def _first_of(array: str, change: Change) -> Change:
    return lambda response: change(getattr(response, array)[0])


def _of_each(array: str, change: Change) -> Change:
    return lambda response: [change(one) for one in getattr(response, array)]


TOPICS = "Metadata of topics"  # others are of brokers only

# Version of transactions, request, which of its answers, and what becomes of that.
INCOMPLETE: dict[str, tuple[int, str, int, Change]] = {
    "no topics written to": (2, "Produce", 0, _set(responses=[])),
    "null instead of topics written to": (2, "Produce", 0, _set(responses=None)),
    "null instead of partitions written to": (2, "Produce", 0, _first_of("responses", _set(partition_responses=None))),
    "another partition": (2, "Produce", 0, _first_of("responses", _first_of("partition_responses", _set(index=1)))),
    "another topic": (2, "Produce", 0, _first_of("responses", _set(name="carol"))),
    "no topics with offsets": (2, "TxnOffsetCommit", 0, _set(topics=[])),
    "null instead of partitions with offsets": (2, "TxnOffsetCommit", 0, _first_of("topics", _set(partitions=None))),
    "no partitions added": (1, "AddPartitionsToTxn", 0, _set(results_by_topic_v3_and_below=[])),
    "null instead of partitions added": (1, "AddPartitionsToTxn", 0, _set(results_by_topic_v3_and_below=None)),
    "no groups": (2, "OffsetFetch", 1, _set(groups=[])),
    "another group": (2, "OffsetFetch", 1, _first_of("groups", _set(group_id="another"))),
    "no committed offsets": (2, "OffsetFetch", 1, _first_of("groups", _set(topics=[]))),
    "null instead of committed offsets": (
        *(2, "OffsetFetch", 1),
        _first_of("groups", _first_of("topics", _set(partitions=None))),
    ),
    "no coordinator": (2, "FindCoordinator", 0, _set(coordinators=[])),
    "null instead of coordinators": (2, "FindCoordinator", 0, _set(coordinators=None)),
    "the coordinator of another": (2, "FindCoordinator", 0, _first_of("coordinators", _set(key="another"))),
    "no producer": (2, "InitProducerId", 0, _set(producer_id=-1, producer_epoch=-1)),
    "no next producer": (2, "EndTxn", 0, _set(producer_id=-1, producer_epoch=-1)),
    "no brokers": (2, "Metadata", 0, _set(brokers=[])),
    "null instead of topics of which none was asked for": (2, "Metadata", 0, _set(topics=None)),
    "no topics": (2, TOPICS, 0, _set(topics=[])),
    "null instead of topics": (2, TOPICS, 0, _set(topics=None)),
    "no partitions": (2, TOPICS, 0, _of_each("topics", _set(partitions=[]))),
    "a partition of a very high number": (
        *(2, TOPICS, 0),
        _of_each("topics", _first_of("partitions", _set(partition_index=1_000_000))),
    ),
    "null instead of versions": (2, "ApiVersions", 0, _set(api_keys=None)),
}


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.mark.parametrize(("version", "request_name", "nth", "change"), INCOMPLETE.values(), ids=INCOMPLETE)
def test_an_incomplete_answer_is_none(
    version: int, request_name: str, nth: int, change: Change, patch: pytest.MonkeyPatch
) -> None:
    expected = _published(patch, version, lambda name, number: None)
    changed = _published(patch, version, lambda name, number: change if (name, number) == (request_name, nth) else None)
    assert changed[request_name] > expected[request_name]


def _published(patch: pytest.MonkeyPatch, version: int, change_of: Callable[[str, int], Change | None]) -> Counter[str]:
    """A history without an error, and a second start; returns how often which request was answered."""
    history = AnswerHistory(patch, version)
    answered: Counter[str] = Counter()

    def spoil(name: str, response: Any) -> Iterable[Frame]:
        asked = TOPICS if name == "Metadata" and response.topics else name
        if change := change_of(asked, answered[asked]):
            change(response)
        answered[asked] += 1
        return whole(name, response)

    history.wire.spoil = spoil
    assert history.starts(), history.errors
    assert history.starts(), history.errors
    assert not history.errors
    history.check(TRANSACTIONS)
    return answered


@pytest.mark.parametrize(
    "wrong", [{"host": "." * 300}, {"port": -1}, {"host": "nobody"}], ids=["no address", "no port", "nobody's address"]
)
def test_brokers_at_wrong_addresses_are_looked_up_again(wrong: dict[str, Any], patch: pytest.MonkeyPatch) -> None:
    history = AnswerHistory(patch, 2)
    looked_up = 0

    def spoil(name: str, response: Any) -> Iterable[Frame]:
        nonlocal looked_up
        if name == "Metadata":
            looked_up += 1
            if looked_up <= 2:  # both slots look
                _of_each("brokers", _set(**wrong))(response)
        return whole(name, response)

    history.wire.spoil = spoil
    began = history.brokers.now
    assert history.starts(), history.errors
    assert looked_up > 2
    assert history.brokers.now - began < 5.0
    history.check(TRANSACTIONS)


UNREADABLE: dict[str, Callable[[bytes], bytes]] = {
    "ends too early": lambda body: body[:-1],
    "has nothing": lambda body: b"",
    "has no end": lambda body: b"\xff" * 100,
    "is no text": lambda body: b"\0" * 4 + b"\x02\x05\xff\xfe\xff\xfe" + body,
}


@pytest.mark.parametrize("change", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("request_name", ["Produce", "TxnOffsetCommit", "OffsetFetch", "Metadata", "FindCoordinator"])
def test_an_answer_that_cannot_be_read_ends_the_connection_at_once(
    request_name: str, change: Callable[[bytes], bytes], patch: pytest.MonkeyPatch
) -> None:
    history = AnswerHistory(patch, 2)
    spoiled = False

    def spoil(name: str, response: Any) -> Iterable[Frame]:
        nonlocal spoiled
        frame = frame_of(response)
        if name != request_name or spoiled:
            return [(0.0, frame)]
        spoiled = True
        payload = frame[4:9] + change(frame[9:])
        return [(0.0, len(payload).to_bytes(4, "big") + payload)]

    history.wire.spoil = spoil
    began = history.brokers.now
    assert history.starts(), history.errors
    assert spoiled
    assert history.brokers.now - began < 5.0  # and does not wait for the timeout of the request
    history.check(TRANSACTIONS)


def test_a_broker_without_the_versions_that_a_slot_needs_is_told(patch: pytest.MonkeyPatch) -> None:
    history = AnswerHistory(patch, 2)
    history.wire.versions = {ProduceRequest.API_KEY: (0, 8)}
    assert not history.starts()
    (error,) = history.errors
    assert type(error) is JobError
    assert f"the broker at {ADDRESS} is older than Kafka 3.0" in str(error)


def test_a_broker_that_always_answers_with_nonsense_is_told_in_time(patch: pytest.MonkeyPatch) -> None:
    history = AnswerHistory(patch, 2)

    def spoil(name: str, response: Any) -> Iterable[Frame]:
        frame = frame_of(response)
        return [(0.0, b"\0\0\0\x09" + frame[4:9] + b"\xff" * 4 if name == "InitProducerId" else frame)]

    history.wire.spoil = spoil
    began = history.brokers.now
    assert not history.starts()
    (error,) = history.errors
    assert type(error) is BrokerUnreachable
    assert str(error).startswith(f"requests to the brokers at {ADDRESS} failed for 60 s; last error: InitProducerId: ")
    assert "decode" in str(error)
    assert history.brokers.now - began < 70.0


def test_a_coordinator_is_looked_up_at_another_broker_while_the_first_is_down(patch: pytest.MonkeyPatch) -> None:
    """Other brokers name it until they notice."""
    history = AnswerHistory(patch, 2)
    history.wire.down = {next(iter(HOSTS.values()))}
    began = history.brokers.now
    client = Client(ADDRESS, {})
    assert len(fence_all(client, [Slot(client, name, GROUP) for name in SLOTS])) == len(SLOTS)
    client.close()
    assert history.brokers.now - began < 5.0


def test_a_broker_that_does_not_tell_its_features_is_asked_again(patch: pytest.MonkeyPatch) -> None:
    """A client that took the broker for version 1, which a new cluster does not speak, would stay at it for its
    life."""
    history = AnswerHistory(patch, 2)
    answered: Counter[str] = Counter()

    def spoil(name: str, response: Any) -> Iterable[Frame]:
        if name == "ApiVersions" and response.version == 3:
            if not answered["features"]:
                response.error_code, response.finalized_features = 7, []
            answered["features"] += 1
        answered[name] += 1
        return whole(name, response)

    history.wire.spoil = spoil
    assert history.starts(), history.errors
    assert answered["features"] == 2
    assert not answered["AddPartitionsToTxn"]


def test_a_code_that_nobody_knows_is_named(patch: pytest.MonkeyPatch) -> None:
    history = AnswerHistory(patch, 2)

    def spoil(name: str, response: Any) -> Iterable[Frame]:
        if name == "EndTxn":
            response.error_code = 9_999
        return whole(name, response)

    history.wire.spoil = spoil
    history.starts()
    assert "EndTxn of job/0: error 9999" in str(history.errors[0])
