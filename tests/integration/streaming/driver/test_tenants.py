"""Tenants on a real broker: rights of Kafka, bounds of the job, and one state through kills and other settings."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.model import TenantSettings
from streaming.client import ChangeRejected, Client
from streaming.documents.starts import OLDEST
from streaming.kafka import clients
from streaming.kafka.clients import Cluster
from tests.integration.conftest import JARS, CommandLine, but
from tests.integration.running import job, lines, records
from tests.support.doubles.secured import ADMIN, ADMIN_PASSWORD, Right, Secured, secured_kafka
from tests.support.patience import PATIENCE_S

PATTERN = {"country": ["CH", "DE"]}


def tenants_of(name: str) -> dict[str, Any]:
    return {
        "acme": {"topic": f"{name}.acme", "status_topic": f"{name}.acme.status", "prefix": "acme-", "pattern": PATTERN},
        "zoo": {"topic": f"{name}.zoo", "status_topic": f"{name}.zoo.status", "subscribers": ["zoo"]},
    }


def using(sluice: CommandLine, tenants: dict[str, Any]) -> None:
    sluice.environment["SLUICE_SUBSCRIPTIONS__TENANTS"] = json.dumps(tenants)


@pytest.fixture
def clients_of(sluice: CommandLine) -> Iterator[dict[str, Client]]:
    """A client of each tenant, by name; "" is that of the job's own topic."""
    using(sluice, tenants_of(sluice.name))
    settings = but(sluice.settings(), subscriptions={"tenants": tenants_of(sluice.name)})
    sluice("topics", "create")
    opened = {"": Client(settings), **{name: Client(settings.of_tenant(name)) for name in ("acme", "zoo")}}
    yield opened
    for client in opened.values():
        client.close()


def delivered(sluice: CommandLine, subscriber: str, least: int) -> list[tuple[Any, Any]]:
    """The events that it got, and the ids of the subscriptions."""
    kafka = sluice.environment["SLUICE_KAFKA__BOOTSTRAP_SERVERS"]
    found = records(kafka, f"{sluice.name}.to.{subscriber}", least)
    return [(json.loads(r.value), json.loads(dict(r.headers)["ce_subscriptionids"])) for r in found]


def publish(sluice: CommandLine, numbers: range) -> None:
    sluice("produce", stdin=lines(*({"n": n, "country": ["CH", "FR", "DE"][n % 3]} for n in numbers)))


def test_tenants_share_a_job_through_kills_and_are_left_out_and_come_back(
    sluice: CommandLine, clients_of: dict[str, Client]
) -> None:
    own, acme, zoo = clients_of.values()
    acme.subscribe("s1", "acme-1", {})  # before the first start
    zoo.subscribe("s1", "zoo", {"country": ["FR"]})
    with job(sluice) as first:
        first.running()
        own.subscribe("s1", "acme-1", {"country": ["FR"]}).wait(PATIENCE_S)  # the job's own may, and it is no tenant's
        acme.subscribe("s2", "acme-2", {"n": [{"numeric": [">=", 3]}]}).wait(PATIENCE_S)
        publish(sluice, range(6))
        first.until("done with the events", lambda: first.total("event_count") >= 6)
        first.process.send_signal(signal.SIGKILL)
        first.ended()
    expected_1 = [(n, ["s1"] if n % 3 == 1 else ["acme/s1"]) for n in range(6)]
    expected_2 = [(n, ["acme/s2"]) for n in (3, 5)]
    assert by_number(sluice, "acme-1", 6) == expected_1
    assert by_number(sluice, "acme-2", 2) == expected_2
    assert by_number(sluice, "zoo", 2) == [(1, ["zoo/s1"]), (4, ["zoo/s1"])]

    zoo.unsubscribe("s1")
    publish(sluice, range(6, 9))
    with job(sluice) as second:
        second.until("done with more", lambda: second.total("event_count") >= 3)
        zoo.unsubscribe("s1").wait(PATIENCE_S)
    assert [s.id for s in zoo.subscriptions()] == []
    assert [s.id for s in acme.subscriptions()] == ["s1", "s2"]
    expected_1 += [(n, ["s1"] if n % 3 == 1 else ["acme/s1"]) for n in range(6, 9)]
    assert by_number(sluice, "acme-1", 9) == expected_1

    using(sluice, {"zoo": tenants_of(sluice.name)["zoo"]})
    publish(sluice, range(9, 12))
    with job(sluice) as third:
        third.until("done without acme", lambda: third.total("event_count") >= 3)
        assert "saved_state_rejected" in [line["event"] for line in third.lines]
    expected_1 += [(10, ["s1"])]
    assert by_number(sluice, "acme-1", 10) == expected_1

    narrower = tenants_of(sluice.name)
    narrower["acme"]["pattern"] = {"country": ["CH"]}
    using(sluice, dict(reversed(narrower.items())))
    with job(sluice) as fourth:
        fourth.running()
        acme.pause("s2").wait(PATIENCE_S)
        publish(sluice, range(12, 15))
        fourth.until("done with acme again", lambda: fourth.total("event_count") >= 3)
    expected_1 += [(12, ["acme/s1"]), (13, ["s1"])]  # and no longer 14, of DE
    assert by_number(sluice, "acme-1", 12) == expected_1
    assert by_number(sluice, "acme-2", 4) == [*expected_2, (6, ["acme/s2"]), (8, ["acme/s2"])]


def by_number(sluice: CommandLine, subscriber: str, least: int) -> list[tuple[int, list[str]]]:
    return sorted((event["n"], ids) for event, ids in delivered(sluice, subscriber, least))


def test_a_tenant_knows_its_own_ids_and_no_others(sluice: CommandLine, clients_of: dict[str, Client]) -> None:
    sluice.environment["SLUICE_EVENTS__READING"] = "source"
    own, acme, zoo = clients_of.values()
    with pytest.raises(ChangeRejected, match="the tenant acme may not subscribe for 'zoo'"):
        acme.subscribe("s1", "zoo", {})
    with pytest.raises(ChangeRejected, match="belong to the tenant acme"):
        own.subscribe("acme/s1", "alice", {})
    assert "unknown tenant 'nobody'" in sluice("subscriptions", "list", "--tenant", "nobody", code=2)
    publish(sluice, range(3))
    with job(sluice) as running:
        running.running()
        for topic, status in ((f"{sluice.name}.acme", acme), (f"{sluice.name}.zoo", zoo)):
            beyond = json.dumps({"subscriber": "bob", "pattern": {}}).encode()
            clients.write(Cluster.of(sluice.settings()), topic, [(b"s9", beyond)])
            running.until("rejected", lambda of=status: of.statuses("s9")["s9"].rejected)
        zoo.subscribe("s2", "zoo", {}).wait(PATIENCE_S)
        acme.begin([(b"s2", b'{"id": "s2", "subscriber": "acme-1", "pattern": {}}')], OLDEST).wait(PATIENCE_S)
        with acme.catch_up("s2", timeout_s=PATIENCE_S) as replay:
            replay.run()
        said = sluice("subscriptions", "status", "s2", "--tenant", "acme")
    assert said.startswith("s2: in force")
    assert by_number(sluice, "acme-1", 2) == [(0, ["acme/s2"]), (2, ["acme/s2"])]  # past ones, and the tenant's alone
    verdicts = acme.explain({"n": 1, "country": "FR"})
    assert [(v.id, v.matches) for v in verdicts] == [("s2", False)]
    assert "acme" not in sluice("subscriptions", "list")
    letters = records(sluice.environment["SLUICE_KAFKA__BOOTSTRAP_SERVERS"], f"{sluice.name}.dead", 2)
    assert {dict(letter.headers)["sluice_origin_topic"] for letter in letters} == {
        f"{sluice.name}.acme".encode(),
        f"{sluice.name}.zoo".encode(),
    }
    using(
        sluice,
        {"acme": {**tenants_of(sluice.name)["acme"], "subscribers": ["bob"]}, "zoo": tenants_of(sluice.name)["zoo"]},
    )
    assert "2 redriven" in sluice("dlq", "redrive", "--all-letters")
    with job(sluice) as again:
        again.running()
        again.until("accepted now", lambda: not acme.statuses("s9")["s9"].rejected)
        again.until("rejected again", lambda: zoo.statuses("s9")["s9"].waiting is None)
    assert zoo.statuses("s9")["s9"].rejected


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    (certificates := tmp_path / "certificates").mkdir()
    with secured_kafka(JARS, certificates) as kafka:
        yield kafka


def test_kafkas_rights_decide_who_is_which_tenant(secured: Secured, tmp_path: Path) -> None:
    """Two principals with the rights of SECURITY.md on their own topics."""
    tenants = {name: TenantSettings.model_validate(of) for name, of in tenants_of("t").items()}
    facts = "\n".join(f"{name} = {toml(of)}" for name, of in tenants.items())
    environment = {n: v for n, v in os.environ.items() if not n.startswith("SLUICE_")}
    sluice = CommandLine("", "t", tmp_path)
    sluice.environment = {
        **environment,
        "SLUICE_QUERY__CHECKPOINT": str(tmp_path / "checkpoint"),
        "SLUICE_LOG__FORMAT": "json",
    }

    def as_(user: str) -> tuple[str, str]:
        password = ADMIN_PASSWORD if user == ADMIN else f"password-of-{user}"
        file = tmp_path / f"{user}.toml"
        file.write_text(f"{secured.settings(user, password)}\n[subscriptions.tenants]\n{facts}\n")
        return "--config", str(file)

    for user, tenant in (("ann", tenants["acme"]), ("zoe", tenants["zoo"])):
        secured.add_user(user, f"password-of-{user}")
        secured.allow(Right(user, "topic", tenant.topic, operation) for operation in ("write", "read"))
        secured.allow([Right(user, "topic", tenant.status_topic, "read")])
    sluice("topics", "create", *as_(ADMIN))
    with job(sluice, *as_(ADMIN)) as running:
        running.running()
        for user, name, other, subscriber in (("ann", "acme", "zoo", "acme-1"), ("zoe", "zoo", "acme", "zoo")):
            own = ("--id", "s1", "--subscriber", subscriber, "--pattern", "{}")
            sluice("subscribe", *own, "--wait", "--tenant", name, *as_(user))
            said = sluice("subscribe", *own[:3], "zoo", *own[4:], "--tenant", other, *as_(user), code=1)
            assert "authorization failed" in said or "may not subscribe" in said
            said = sluice("unsubscribe", "s1", "--tenant", other, *as_(user), code=1)
            assert "authorization failed" in said
            said = sluice("unsubscribe", "s1", *as_(user), code=1)
            assert "the topic subscriptions cannot be used: Broker: Topic authorization failed" in said
        sluice("produce", *as_(ADMIN), stdin='{"country": "CH"}\n{"country": "FR"}\n')
        running.until("done with the events", lambda: running.total("event_count") == 2)
    assert sluice("consume", "acme-1", *as_(ADMIN)).splitlines() == ['{"country": "CH"}']
    both = sluice("consume", "zoo", *as_(ADMIN)).splitlines()
    assert sorted(both) == ['{"country": "CH"}', '{"country": "FR"}']


def toml(tenant: TenantSettings) -> str:
    values = {name: value for name, value in tenant.model_dump().items() if name != "pattern"}
    pattern = ", ".join(f"{name} = {json.dumps(value)}" for name, value in tenant.pattern.items())
    return "{ " + ", ".join(f"{k} = {json.dumps(v)}" for k, v in values.items()) + f", pattern = {{ {pattern} }} }}"
