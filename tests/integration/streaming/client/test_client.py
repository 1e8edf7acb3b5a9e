"""The life of subscriptions through the Python client, beside a running job."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from config.model import Settings
from streaming.client import (
    ChangeRejected,
    Client,
    DeadLetterFilter,
    Deliveries,
    JobError,
    NoSubscription,
    Unanswered,
    Undecodable,
)
from streaming.errors import TopicMissing
from streaming.kafka import clients, layout
from streaming.kafka.clients import Cluster
from tests.integration.conftest import CommandLine, delete
from tests.integration.running import job
from tests.support.patience import PATIENCE_S


@pytest.fixture
def settings(sluice: CommandLine) -> Settings:
    settings = sluice.settings()
    assert Cluster.of(settings).topics().create(layout.topics(settings, 2, 1)) == {}
    return settings


@pytest.fixture
def client(settings: Settings) -> Iterator[Client]:
    with Client(settings) as client:
        yield client


def publish(settings: Settings, *events: bytes) -> None:
    clients.write(Cluster.of(settings), settings.events.topic, [(b"key", event) for event in events])


def next_of(deliveries: Deliveries, number: int) -> list[Any]:
    """The next events, none of them after PATIENCE_S."""
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < number and time.monotonic() < deadline:
        if (delivery := deliveries.poll(1.0)) is not None:
            found.append(delivery.json())
    return found


def test_a_subscription_lives_from_its_first_delivery_to_its_deletion(
    sluice: CommandLine, settings: Settings, client: Client
) -> None:
    with job(sluice):
        (answer,) = client.subscribe("s1", "alice", {"x": [{"numeric": [">", 0]}]}).wait(PATIENCE_S)
        assert (answer.id, answer.rejected, answer.superseded) == ("s1", False, False)
        assert answer.status["subscriber"] == "alice"

        publish(settings, b'{"x": 1}', b'{"x": -1}', b'{"x": 2}', b'{"x": 3}')
        with client.deliveries("alice", group=f"{sluice.name}.service") as first:
            assert next_of(first, 2) == [{"x": 1}, {"x": 2}]
            first.commit()
            assert next_of(first, 1) == [{"x": 3}]
        with client.deliveries("alice", group=f"{sluice.name}.service") as second:
            assert next_of(second, 1) == [{"x": 3}]

        assert client.pause("s1").wait(PATIENCE_S)[0].status["status"] == "paused"
        publish(settings, b'{"x": 4}')
        assert client.pause("s1").unchanged == ("s1",)
        assert client.statuses("s1")["s1"].status["status"] == "paused"  # type: ignore[index]
        resumed = client.resume("s1").wait(PATIENCE_S)[0]
        publish(settings, b'{"x": 5}')

        with client.deliveries("alice") as deliveries:
            assert [d["x"] for d in next_of(deliveries, 4)] == [1, 2, 3, 5]
        (last,) = (d for d in client.deliveries("alice", follow=False) if d.json() == {"x": 5})
        assert (last.ids, last.version, last.key, last.replay) == (["s1"], resumed.version, b"key", None)

        assert client.unsubscribe("s1").wait(PATIENCE_S)[0].status["status"] == "unsubscribed"
        assert list(client.subscriptions()) == []
        with pytest.raises(NoSubscription, match="'s1' is unsubscribed"):
            client.subscription("s1")


def test_past_events_are_tried_explained_and_replayed_and_dead_letters_sent_again(
    sluice: CommandLine, settings: Settings, client: Client
) -> None:
    begin_ms = int(time.time() * 1_000) - 60_000
    with job(sluice):
        publish(settings, b'{"x": 1}', b'{"x": 9}', b"none")
        deadline = time.monotonic() + PATIENCE_S
        while not (letters := list(client.dead_letters())):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        (letter,) = letters
        assert (letter.reason, letter.value, letter.redriven) == ("undecodable_event", b"none", False)

        pattern = {"x": [{"numeric": [">", 5]}]}
        tried = client.backtest(pattern, from_ms=begin_ms)
        assert (tried.events, tried.matched, tried.unread, tried.finished) == (3, 1, 1, True)
        assert [example.value for example in tried.examples] == [b'{"x": 9}']
        with pytest.raises(JobError, match=r'numeric takes .* not "about"'):
            client.backtest({"x": [{"numeric": ["about", 5]}]}, from_ms=begin_ms)

        client.subscribe("s1", "alice", pattern).wait(PATIENCE_S)
        assert [(v.id, v.matches) for v in client.explain({"x": 6}, subscriber="alice")] == [("s1", True)]
        (verdict,) = client.explain(b'{"x": 5}', id="s1")
        assert not verdict.matches
        assert [str(line) for line in verdict.failed] == ["not held x: wanted > 5; found 5"]
        assert client.explain({"x": 6}, id="s1", subscriber="bob") == []
        with pytest.raises(Undecodable):
            client.explain(b"none")
        with pytest.raises(NoSubscription, match="no subscription has the id 's2'"):
            client.explain({}, id="s2")

        with client.replay("s1", from_ms=begin_ms, name="again") as replay:
            assert replay.run().delivered == 1
        with client.replay("s1", name="again") as replay:
            assert (replay.done, replay.run().delivered) == (replay.size, 0)
        (delivery,) = client.deliveries("alice", follow=False)
        assert (delivery.json(), delivery.replay) == ({"x": 9}, "again")

        outcomes: list[Any] = []
        wanted = DeadLetterFilter(places=frozenset([letter.place]))
        assert client.redrive(wanted, dry_run=True).counts == {"redriven": 1}
        assert client.redrive(wanted, taken=outcomes.append).complete
        assert [(outcome.place, outcome.what) for outcome in outcomes] == [(letter.place, "redriven")]
        assert letter.place not in [other.place for other in client.dead_letters()]
        (sent,) = client.dead_letters(wanted, redriven=True)
        assert sent.redriven


def test_a_replay_needs_to_know_what_to_replay(client: Client) -> None:
    with pytest.raises(ValueError, match="pass from_ms"), client.replay("s1"):
        pass
    with pytest.raises(ValueError, match="the name of a replay must have"), client.replay("s1", name="a/b"):
        pass


def test_a_rejection_is_an_error_with_the_reason_of_the_job(
    sluice: CommandLine, settings: Settings, client: Client
) -> None:
    sluice.environment["SLUICE_QUOTAS__SUBSCRIPTIONS"] = "1"
    with job(sluice):
        client.subscribe("s1", "alice", {}).wait(PATIENCE_S)
        second = client.subscribe("s2", "alice", {})
        for _ in range(2):  # a repeated wait has the same answer
            with pytest.raises(ChangeRejected, match=r"s2: .*quotas\.subscriptions") as rejected:
                second.wait(PATIENCE_S)
        assert rejected.value.reasons.keys() == {"s2"}
        status = client.statuses("s2")["s2"]
        assert status.rejected
        assert rejected.value.reasons["s2"] in str(status)


def test_without_a_job_a_change_waits_for_it(sluice: CommandLine, settings: Settings, client: Client) -> None:
    with pytest.raises(ChangeRejected, match="s1: subscriber must be"):
        client.subscribe("s1", "a lice", {})
    with pytest.raises(ChangeRejected, match="s1: not JSON: Object of type set"):
        client.subscribe("s1", "alice", {"x": {1}})
    assert list(client.subscriptions()) == []
    change = client.subscribe("s1", "alice", {"x": [1]}, expires_at="2100-01-01T00:00:00Z", paused=True)
    with pytest.raises(Unanswered, match="a running job"):
        change.wait(0.0)
    (found,) = client.subscriptions(subscriber="alice", paused=True, prefix="s")
    wanted = {"subscriber": "alice", "pattern": {"x": [1]}, "expires_at": "2100-01-01T00:00:00Z", "paused": True}
    assert found.document == {"id": "s1", **wanted} == client.subscription("s1").document
    assert client.statuses("s1")["s1"].waiting == (found.partition, found.offset)
    with job(sluice):
        assert change.wait(PATIENCE_S)[0].status["status"] == "paused"


def test_a_change_that_nobody_watches_cannot_be_waited_for(client: Client) -> None:
    changes = client.write([(b"s1", None)], answers=False)
    assert changes.count == 1
    with pytest.raises(JobError, match="written without `answers`"):
        changes.wait()


def kafka_threads() -> set[str]:
    """The threads of librdkafka in this process."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended
            if (task / "comm").read_text().startswith("rdk:"):
                found.add(task.name)
    return found


def test_a_program_that_cannot_read_the_answers_may_write_but_not_wait(settings: Settings, client: Client) -> None:
    delete(Cluster.of(settings).topics(), settings.subscriptions.status_topic)
    change = client.subscribe("s1", "alice", {})
    with pytest.raises(TopicMissing, match="the job writes its answers there"):
        change.wait()
    with pytest.raises(TopicMissing, match="the job writes its answers there"):
        client.write([(b"s1", None)], answers=True)
    assert [s.id for s in client.subscriptions()] == ["s1"]


def test_a_closed_client_leaves_no_threads_and_says_that_it_is_closed(settings: Settings) -> None:
    before = kafka_threads()
    client = Client(settings)
    client.subscribe("s1", "alice", {})
    list(client.subscriptions())
    assert not kafka_threads() <= before
    client.close()
    client.close()
    deadline = time.monotonic() + PATIENCE_S
    while not kafka_threads() <= before:  # librdkafka ends them in the background
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with pytest.raises(ValueError, match="the client is closed"):
        client.subscribe("s2", "alice", {})


def test_threads_may_share_a_client(client: Client) -> None:
    threads = [threading.Thread(target=client.subscribe, args=(f"s{n}", "alice", {})) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(s.id for s in client.subscriptions()) == [f"s{n}" for n in range(8)]
