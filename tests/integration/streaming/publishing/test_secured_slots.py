"""Slots on a broker with TLS, passwords and rights: exactly those of SECURITY.md are enough, and each is needed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from streaming.errors import Forbidden, Unauthenticated
from streaming.kafka.topics import Topic, Topics
from streaming.publishing.connection.client import Client
from streaming.publishing.connection.rights import rejected
from streaming.publishing.contract import Aborted, RecordBatches
from streaming.publishing.fencing import committed_offsets, fence_all, slot_name
from streaming.publishing.slot import Committed, Slot
from tests.integration.conftest import JARS
from tests.support.doubles.plain_batches import batches
from tests.support.doubles.secured import ADMIN, ADMIN_PASSWORD, Right, Secured, certificates, rights, secured_kafka
from tests.support.patience import PATIENCE_S

PASSWORD = "hunter2-of-the-job"
DESTINATIONS = [("deliveries.alice", 0), ("deliveries.bob", 0)]
OFFSETS = {("events", 0): 5}
SLOT = slot_name("sluice", 0)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_kafka(JARS, tmp_path_factory.mktemp("secured")) as secured:
        admin = Topics(secured.bootstrap_servers, secured.client(ADMIN, ADMIN_PASSWORD))
        assert not admin.create(Topic(name) for name in ("events", *(topic for topic, _ in DESTINATIONS)))
        secured.add_user("job", PASSWORD)
        yield secured


def publish(secured: Secured) -> Committed:
    with closing(Client(secured.bootstrap_servers, secured.client("job", PASSWORD), timeout_s=PATIENCE_S)) as client:
        slot = Slot(client, SLOT, "sluice")
        (producer,) = fence_all(client, [slot])
        committed_offsets(client, "sluice", list(OFFSETS))
        some = batches(producer, [(0, [b"a"]), (1, [b"b"])])
        return slot.publish(producer, [some], DESTINATIONS, OFFSETS)


def open_with(secured: Secured, options: dict[str, str]) -> None:
    with closing(Client(secured.bootstrap_servers, options)) as client:
        Slot(client, SLOT, "sluice").open()


def rights_of_slots() -> list[Right]:
    """Return the permissions of SECURITY.md that slots need."""
    needed = {("topic", "events"), ("topic", "deliveries.*"), ("group", "sluice"), ("transactional-id", "sluice/*")}
    found = [right for right in rights() if right.who == "job" and (right.kind, right.name) in needed]
    assert {(right.kind, right.name) for right in found} == needed
    return [right for right in found if right.operation != "create"]


def test_the_documented_rights_are_enough_and_each_is_needed(secured: Secured) -> None:
    secured.allow(rights_of_slots())
    assert publish(secured).records == 2
    for right in rights_of_slots():
        secured.revoke(right)
        if right.name == "deliveries.*":
            with pytest.raises(Aborted) as aborted:
                publish(secured)
            assert aborted.value.rejected == {topic: "topic authorization failed" for topic, _ in DESTINATIONS}
        else:
            with pytest.raises(Forbidden, match=r"authorization failed.*SECURITY\.md"):
                publish(secured)
        secured.allow([right])
    assert publish(secured).records == 2


def test_whether_an_id_may_be_used_is_asked_without_disturbing_who_uses_it(secured: Secured) -> None:
    secured.allow(rights_of_slots())
    (write,) = [right for right in rights_of_slots() if right.kind == "transactional-id"]
    describe = replace(write, operation="describe")

    def asked() -> str:
        with closing(Client(secured.bootstrap_servers, secured.client("job", PASSWORD))) as other:
            return str(rejected(other, SLOT, "sluice"))

    def pieces() -> Iterator[RecordBatches]:
        yield batches(producer, [(0, [b"a"])])
        assert asked() == "None"
        yield batches(producer, [(1, [b"b"])])

    with closing(Client(secured.bootstrap_servers, secured.client("job", PASSWORD))) as client:
        slot = Slot(client, SLOT, "sluice")
        (producer,) = fence_all(client, [slot])
        assert slot.publish(producer, pieces(), DESTINATIONS, OFFSETS).records == 2
    secured.revoke(write)
    assert "(FindCoordinator); SECURITY.md" in asked()
    secured.allow([describe])
    assert "(AddOffsetsToTxn); SECURITY.md" in asked()
    secured.revoke(describe)
    secured.allow([write])


def test_a_wrong_password(secured: Secured) -> None:
    options = secured.client("job", "another")
    with pytest.raises(Unauthenticated, match=r"kafka\.client.*Authentication failed") as wrong:
        open_with(secured, options)
    assert "another" not in str(wrong.value)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_authority_that_did_not_sign_the_broker(secured: Secured, tmp_path: Path) -> None:
    certificates(tmp_path, "other")
    options = secured.client("job", PASSWORD, tmp_path / "other.pem")
    with pytest.raises(Unauthenticated, match="certificate verify failed"):
        open_with(secured, options)
    gc.collect()  # kafka-python leaves the socket of a failed handshake to this


def test_a_mechanism_that_the_broker_does_not_have(secured: Secured) -> None:
    options = {**secured.client("job", PASSWORD), "sasl.mechanism": "PLAIN"}
    with closing(Client(secured.bootstrap_servers, options)) as client, pytest.raises(Unauthenticated):
        Slot(client, SLOT, "sluice").open()


def test_an_authority_given_as_text(secured: Secured) -> None:
    options = secured.client("job", PASSWORD)
    options["ssl.ca.pem"] = Path(options.pop("ssl.ca.location")).read_text()
    with closing(Client(secured.bootstrap_servers, options)) as client:
        assert client.transaction_version() == 2
