"""Numbers of tenants, their bounds, and what the job saved about them."""

from __future__ import annotations

import pytest
from orjson import dumps

from config.model import Settings, Subscriptions, TenantSettings
from streaming import tenants
from streaming.documents.change_order import Decisions
from streaming.documents.subscriptions import Rejected, read_change
from streaming.source_topics import SourceTopics
from streaming.state.first_load import RejectedChanges
from streaming.tenants import MOST_PARTITIONS, OWN, change_partition, topic_partition
from tests.support.doubles.topic import Record

ACME = TenantSettings(topic="acme.subs", status_topic="acme.status", prefix="acme-", subscribers=["bob"])
ZOO = TenantSettings(topic="zoo.subs", status_topic="zoo.status", prefix="zoo-", pattern={"x": [1]})
SETTINGS = Settings(subscriptions=Subscriptions(tenants={"acme": ACME, "zoo": ZOO}))
BY_NAME = {tenant.name: tenant for tenant in tenants.of(SETTINGS).values()}


def test_a_number_follows_from_the_name_alone() -> None:
    other = Settings(subscriptions=Subscriptions(tenants={"new": ACME, "zoo": ZOO}))
    assert tenants.number_of("zoo") in tenants.of(other).keys() & tenants.of(SETTINGS).keys()
    assert tenants.number_of("zoo") == 1_001_674  # as saved states have it
    assert tenants.number_of("") == OWN == 0


@pytest.mark.parametrize("partition", [0, 1, MOST_PARTITIONS - 1])
@pytest.mark.parametrize("name", ["", "acme", "zoo"])
def test_a_partition_of_changes_tells_topic_and_partition(name: str, partition: int) -> None:
    tenant = BY_NAME[name]
    number = change_partition(tenant.number, partition)
    assert 0 <= number < 1 << 31
    assert topic_partition(number, tenants.of(SETTINGS)) == (tenant, partition)


def test_without_tenants_partitions_are_those_of_the_topic() -> None:
    alone = tenants.of(Settings())
    assert topic_partition(5 * MOST_PARTITIONS, alone) == (alone[OWN], 5 * MOST_PARTITIONS)


def test_names_with_one_number_are_found() -> None:
    seen: dict[int, str] = {}
    names = (f"t{i}" for i in range(100_000))
    first, second = next(
        (seen[n], name) for name in names if seen.setdefault(n := tenants.number_of(name), name) != name
    )
    assert tenants.same_number(["acme", first, "zoo", second]) == (first, second)
    assert tenants.same_number(["acme", "zoo"]) is None


@pytest.mark.parametrize(
    ("tenant", "id", "subscriber", "reason"),
    [
        ("acme", "s1", "acme-1", ""),
        ("acme", "s1", "bob", ""),
        ("acme", "zoo/s1", "acme-", ""),  # the job knows it as acme/zoo/s1
        (
            "acme",
            "s1",
            "acme",
            "the tenant acme may not subscribe for 'acme'; its subscribers are those that ",
        ),
        ("acme", "s1", "zoo-1", "'acme-' and bob"),
        ("zoo", "s1", "bob", "its subscribers are those that begin with 'zoo-'"),
        ("", "s1", "acme-1", ""),
        ("", "acme", "acme-1", ""),
        ("", "other/s1", "acme-1", ""),
        ("", "acme/s1", "acme-1", "ids that begin with 'acme/' belong to the tenant acme; use another id"),
    ],
)
def test_a_change_beyond_its_bounds_is_rejected_with_the_reason(
    tenant: str, id: str, subscriber: str, reason: str
) -> None:
    document = dumps({"subscriber": subscriber, "pattern": {}})
    if not reason:
        read_change(id.encode(), document, BY_NAME[tenant])
        return
    with pytest.raises(Rejected) as rejected:
        read_change(id.encode(), document, BY_NAME[tenant])
    assert reason in str(rejected.value)
    assert rejected.value.id == id


def test_a_tombstone_unsubscribes_only_what_its_tenant_has() -> None:
    assert read_change(b"s1", None, BY_NAME["acme"]).subscription.id == "s1"
    with pytest.raises(Rejected, match="belong to the tenant acme"):
        read_change(b"acme/s1", None, BY_NAME[""])


def test_a_clients_settings_of_a_tenant_have_its_topics_and_bounds() -> None:
    settings = SETTINGS.of_tenant("zoo")
    assert (settings.subscriptions.topic, settings.subscriptions.status_topic) == ("zoo.subs", "zoo.status")
    assert tenants.own(settings) == BY_NAME["zoo"]
    assert tenants.own(SETTINGS) == BY_NAME[""]
    with pytest.raises(KeyError):
        SETTINGS.of_tenant("nobody")


def test_a_topic_of_events_that_is_added_has_the_next_number() -> None:
    sources = SourceTopics.of(SETTINGS)
    assert sources.add("more") == 1
    assert sources.changes == {s: name for s, name in sources.names.items() if name not in ("events", "more")}
    assert len(sources.changes) == 3


def test_decisions_of_tenants_on_one_id_are_apart() -> None:
    """Each tenant keeps its earlier s1, at another offset, because the later one was rejected."""
    decisions = Decisions()
    for name, offset in (("acme", 3), ("zoo", 5)):
        said = {
            "id": "s1",
            "status": "rejected",
            "query": "q",
            "topic_id": "",
            "version": 9,
            "read_up_to": {"1": 8},
            "in_force": {"partition": 1, "offset": offset},
            "change": {"partition": 1, "offset": 7},
        }
        decisions.update(Decisions("", statuses=[Record("s1", said)], tenant=BY_NAME[name]))
    assert {id for id, _ in decisions} == {b"acme/s1", b"zoo/s1"}
    for name, offset in (("acme", 3), ("zoo", 5)):
        at = change_partition(BY_NAME[name].number, 1)
        found = decisions.get(f"{name}/s1".encode())
        assert found is not None
        assert found.in_force == (at, offset)
        assert found.answers(at, 7)
        assert not found.answers(1, 7)
        rejected = RejectedChanges.of(at, set(), decisions, tenants.of(SETTINGS))
        there = {o for o in range(10) if Record("s1", {}, 1, o) not in rejected}
        assert there == {offset, 8, 9}


@pytest.mark.parametrize(
    "other",
    [{"prefix": "acm"}, {"subscribers": []}, {"pattern": {"x": [2]}}, {"topic": "other"}],
    ids=["prefix", "subscribers", "pattern", "topic"],
)
def test_the_checksum_changes_with_what_may_be_subscribed(other: dict[str, object]) -> None:
    def checksum(**of: TenantSettings) -> int:
        return tenants.checksum(Settings(subscriptions=Subscriptions(tenants=of)))

    before, fewer = checksum(acme=ACME, zoo=ZOO), ACME.model_copy(update={"max_subscriptions": 1})
    assert before == checksum(zoo=ZOO, acme=ACME) == checksum(zoo=ZOO, acme=fewer)
    changed = ACME.model_copy(update=other)
    assert len({before, checksum(acme=changed, zoo=ZOO), checksum(acme=ACME), checksum(zoo=ZOO)}) == 4
    assert checksum() == 0
