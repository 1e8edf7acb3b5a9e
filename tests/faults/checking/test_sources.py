"""Partitions of several topics, and what tenants may subscribe to, are checked as what they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from config import load as load_settings
from rig.load import Load
from rig.records import NOTHING, TENANT, event_of, number_of
from streaming.kafka.clients import Cluster
from tests.faults.checking.check import Found, check
from tests.faults.checking.reading import Reading
from tests.faults.checking.sources import Partitions, tenants_of
from tests.faults.system import SEVERAL

SETTINGS = load_settings(SEVERAL)
OWN, T1, T2 = tenants_of(SETTINGS)
LOAD = Load(subscriptions=1, subscribers=10, symbols=1, seed=2)
EVENT = next(LOAD.events())
PRICE = orjson.loads(EVENT)["price"]  # the second tenant gets events below 500,000 only


@dataclass
class Message:
    topic_: str
    partition_: int
    offset_: int
    key_: bytes | None
    value_: bytes | None
    headers_: tuple[tuple[str, bytes], ...] = ()

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_"):
            raise AttributeError(name)
        return lambda: getattr(self, f"{name}_")


def document(subscriber: str, low: int = 0) -> bytes:
    price, volume = ([{"numeric": [">=", begin, "<", 1_000_000]}] for begin in (low, 0))
    pattern = {"symbol": ["S0"], "price": price, "volume": volume}
    return orjson.dumps({"id": "s1", "subscriber": subscriber, "pattern": pattern})


def accepted(topic: str, version: int) -> Message:
    """The status of the first change of a topic, which is in its partition 1."""
    in_force_from = {"events": {"0": 0, "1": 0}, "events.more": {"0": 0, "1": 0}}
    status = {"status": "accepted", "change": {"partition": 1, "offset": 0}}
    value = orjson.dumps({**status, "version": version, "in_force_from": in_force_from})
    return Message(f"{topic}.status", 0, 0, b"s1", value)


def delivery(topic: str, ids: str) -> Message:
    headers = {"ce_id": f"{topic}-0-0", "ce_matchversion": "3", "ce_subscriptionids": ids}
    encoded = tuple((name, value.encode()) for name, value in headers.items())
    return Message("deliveries.r2", 0, 0, None, EVENT, encoded)


def history(*deliveries: Message) -> Found:
    """All three have subscribed r2 by the same id, of which t1 may not. There is one event, in the second topic."""
    reading = Reading(Cluster("", {}), SETTINGS, 2)
    for topic, tenant in tenants_of(SETTINGS).items():
        changes = reading.changes[reading.change_partitions.number(topic, 1)]
        reading._keep(Message(topic, 1, 0, b"s1", document("r2")), changes, tenant.change)
    reading.rubbish.clear()  # of which there would be a dead letter
    for message in (accepted(OWN, 3), accepted(T2, 3)):
        reading.statuses.append(reading._status(message))
    [rejected] = [reading._status(accepted(T1, 3))]
    reading.statuses.append(rejected._replace(status="rejected", version=-1, in_force_from={}))
    events = reading.events[reading.event_partitions.number("events.more", 0)]
    reading._keep(Message("events.more", 0, 0, None, EVENT), events, event_of)
    for message in deliveries:
        reading._deliver(message)
    places = (*reading.event_partitions.places, *reading.change_partitions.places)
    ends = dict.fromkeys(places, 0) | {("events.more", 0): 1} | {(topic, 1): 1 for topic in (OWN, T1, T2)}
    return check(reading, ends, (), LOAD, ((0, 1),))


def test_added_partitions_are_numbered_behind_those_of_all_topics() -> None:
    partitions = Partitions(["a", "b"], 2)
    partitions.add()
    assert partitions.places == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("a", 2), ("b", 2)]
    assert [partitions.number(*at) for at in partitions.places] == [*range(6)]
    assert partitions.number("a", 3) == partitions.number("c", 0) == len(partitions) == 6


def test_the_same_id_of_two_tenants_is_two_subscriptions() -> None:
    assert number_of("s17") == 17
    assert number_of("t2/s17") == 2 * TENANT + 17


@pytest.mark.parametrize(
    ("topic", "subscriber", "low", "high"),
    [(OWN, 3, 600_000, 1_000_000), (T1, 1, 0, 1_000_000), (T1, 13, 0, 1_000_000), (T2, 2, 0, 500_000)],
)
def test_a_tenant_subscribes_its_own_subscribers_within_its_pattern(
    topic: str, subscriber: int, low: int, high: int
) -> None:
    tenant = tenants_of(SETTINGS)[topic]
    row = tenant.change(b"s1", document(f"r{subscriber}", low))
    assert row == [tenant.number * TENANT + 1, subscriber, 0, low, high, 0, 1_000_000]
    assert tenant.change(b"s1", None)[:2] == [tenant.number * TENANT + 1, -1]


@pytest.mark.parametrize(("topic", "subscriber"), [(T1, "r2"), (T2, "r1"), (T2, "r22")])
def test_the_change_of_a_tenant_for_another_subscriber_is_none(topic: str, subscriber: str) -> None:
    assert tenants_of(SETTINGS)[topic].change(b"s1", document(subscriber))[0] == NOTHING


def test_deliveries_name_the_topic_of_the_event_and_the_tenants_of_the_subscriptions() -> None:
    assert PRICE < 500_000
    assert history(delivery("events.more", '["s1","t2/s1"]')).right
    for ids in ('["s1"]', '["s1","t1/s1"]', '["s1","t1/s1","t2/s1"]'):
        assert history(delivery("events.more", ids)).answer.wrong_ids == 1
    other = history(delivery("events", '["s1","t2/s1"]')).answer
    assert (other.missing, other.unexpected) == (1, 1)
    assert history().answer.missing == 1
