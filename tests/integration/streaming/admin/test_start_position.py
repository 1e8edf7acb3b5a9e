"""Past events joined exactly to live deliveries, by `subscribe --from` and `resume --catch-up`, despite kills."""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from config.model import Settings
from streaming.admin import change_acks
from streaming.client import ChangeRejected, Client, JobError, Unanswered
from streaming.documents.records import InForceFrom, Origin, rejected_status
from streaming.documents.records import status as accepted_status
from streaming.kafka import clients
from streaming.kafka.clients import Cluster
from streaming.kafka.topics import Topic, Topics
from tests.integration.conftest import CommandLine
from tests.integration.running import job, lines, records, subscription
from tests.support.patience import PATIENCE_S

PARTITIONS = 2


@pytest.fixture
def settings(sluice: CommandLine) -> Settings:
    settings, kafka = sluice.settings(), sluice.environment["SLUICE_KAFKA__BOOTSTRAP_SERVERS"]
    assert Topics(kafka, {}).create([Topic(settings.events.topic, PARTITIONS)]) == {}
    sluice("topics", "create", "--partitions", "1")
    return settings


class Flow:
    """Events with ascending numbers, one after the other, until it ends. `count` is the number of the next one."""

    def __init__(self, settings: Settings, topic: str = "", first: int = 0) -> None:
        self._topic = topic or settings.events.topic
        brokers = settings.kafka.bootstrap_servers
        # Idempotent: a record that is sent again after a pause of the broker is there once.
        self._producer = Producer({"bootstrap.servers": brokers, "linger.ms": 2, "enable.idempotence": True})
        self._numbers = itertools.count(first)
        self.count = first
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def burst(self, count: int) -> None:
        for n in itertools.islice(self._numbers, count):
            self._producer.produce(self._topic, json.dumps({"n": n, "x": 1}), partition=n % PARTITIONS)
            self._producer.poll(0)
            self.count = n + 1
        assert self._producer.flush(PATIENCE_S) == 0

    def _run(self) -> None:
        while not self._end.wait(0.01):
            self.burst(3)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        self._end.clear()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        try:
            yield
        finally:
            self._end.set()
            self._thread.join()


def delivered(settings: Settings, subscriber: str, least: int = 0) -> list[tuple[int, str | None]]:
    """(number of the event, name of the replay or None) of each delivery."""
    topic = f"{settings.deliveries.prefix}{subscriber}"
    found = []
    for record in records(settings.kafka.bootstrap_servers, topic, least):
        headers = dict(record.headers)
        assert ("sluice_replay" in headers) is not ("ce_matchversion" in headers)
        replay = headers.get("sluice_replay")
        found.append((json.loads(record.value)["n"], replay and replay.decode()))
    return found


def check_each_is_there_once(settings: Settings, subscriber: str, numbers: range) -> list[tuple[int, str | None]]:
    """Check that each event is there once, and that in each partition past events precede live ones."""
    found = delivered(settings, subscriber, len(numbers))
    assert Counter(n for n, _ in found) == Counter(numbers)
    for partition in range(PARTITIONS):
        past = [n for n, replay in found if replay is not None and n % PARTITIONS == partition]
        live = [n for n, replay in found if replay is None and n % PARTITIONS == partition]
        assert past == sorted(past)
        assert live == sorted(live)
        assert max(past, default=-1) < min(live, default=len(numbers) + numbers.start)
    return found


@contextmanager
def process(sluice: CommandLine, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that may be killed."""
    started = subprocess.Popen(
        sluice.command(*arguments),
        env=sluice.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.communicate()


def test_past_events_are_joined_to_live_ones_while_events_flow(sluice: CommandLine, settings: Settings) -> None:
    flow = Flow(settings)
    flow.burst(2_000)
    with job(sluice) as running:
        running.running()
        with flow.flowing():
            both = lines(*(subscription(id, id, x=[1]) for id in "ab"))
            said = sluice("subscribe", "--from", "oldest", "--json", stdin=both)
        answers = [json.loads(line) for line in said.splitlines()]
        assert [answer.get("status") for answer in answers] == ["accepted", "accepted", None, None]
        for subscriber, summary in zip("ab", answers[2:], strict=True):
            found = check_each_is_there_once(settings, subscriber, range(flow.count))
            assert Counter(replay for _, replay in found)[summary["name"]] == summary["delivered"] > 0
            assert summary["delivered"] < flow.count, "the others came live"

        again = sluice("subscribe", "--from", "1h", "--json", stdin=subscription("a", "a", x=[1]))
        assert [json.loads(line)["events"] for line in again.splitlines()] == [0]

        sluice("pause", "a", "--wait")
        with flow.flowing():
            flow.burst(500)
            said = sluice("resume", "a", "--catch-up", "--json")
        accepted, summary = map(json.loads, said.splitlines())
        assert accepted["status"] == "accepted"
        assert summary["delivered"] >= 500
        assert Counter(n for n, _ in delivered(settings, "a", flow.count)) == Counter(range(flow.count))

        assert json.loads(sluice("resume", "a", "--catch-up", "--json"))["events"] == 0
        sluice("pause", "b", "--wait")
        sluice("resume", "b", "--wait")
        assert "'b' has no start" in sluice("resume", "b", "--catch-up", code=1)
        assert len(delivered(settings, "a")) == flow.count


# What a command says just before a step; it is killed there, or a random moment later.
STEPS = ("written to", "in force from", "offsets of", "offsets of")
SLOWLY = ("--rate", "5")  # so that it is not done before it is killed
LATE_S = 60.0  # one that follows says nothing more once all is done


def killed(sluice: CommandLine, step: str, delay_s: float, *arguments: str) -> bool:
    """Kill a command when it says that. Returns whether it was still running."""
    with process(sluice, *arguments) as victim:
        assert victim.stderr is not None
        late = threading.Timer(LATE_S, victim.kill)
        late.start()
        for line in victim.stderr:
            if step in line:
                time.sleep(delay_s)
                break
        late.cancel()
        victim.kill()
        return victim.wait(PATIENCE_S) == -signal.SIGKILL


def test_a_command_that_is_killed_at_any_step_goes_on_and_each_event_is_there_once(
    sluice: CommandLine, settings: Settings
) -> None:
    flow = Flow(settings)
    flow.burst(3_000)
    with job(sluice) as running:
        running.running()
        with flow.flowing():
            for id in "st":
                flags = ("--id", id, "--subscriber", id, "--pattern", '{"x": [1]}')
                command = ("subscribe", "--from", "oldest", *flags)
                steps = random.sample(STEPS, 3)
                kills = [killed(sluice, step, random.random() / 5, *command, *SLOWLY) for step in steps]
                assert any(kills)
                sluice(*command)
                sluice(*command)
        for id in "st":
            check_each_is_there_once(settings, id, range(flow.count))

        for _ in range(2):
            sluice("pause", "s", "--wait")
            with flow.flowing():
                flow.burst(1_000)
                again = ("resume", "s", "--catch-up")
                steps = random.sample(STEPS, 2)
                kills = [killed(sluice, step, random.random() / 5, *again, *SLOWLY) for step in steps]
                assert any(kills)
                sluice(*again)
        found = delivered(settings, "s", flow.count)
        assert Counter(n for n, _ in found) == Counter(range(flow.count))


class Answers:
    """Statuses as a job would write them."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._cluster = settings, Cluster.of(settings)
        topic = settings.subscriptions.topic
        self._id = self._cluster.topics().ids([topic], PATIENCE_S)[topic]
        self._client = Client(settings)

    def __call__(self, state: str, id: str, offset: int, *in_force_from: int) -> None:
        """The change at an offset is in force from an offset of each partition of events."""
        change = Origin(self._settings.subscriptions.topic, 0, offset, 0)
        offsets = {str(p): at for p, at in enumerate(in_force_from)}
        since = InForceFrom(offset + 1, offsets, {"0": offset + 1}, self._settings.query.name, self._id)
        topic = self._settings.subscriptions.status_topic
        if state == "rejected":
            status = rejected_status(topic, id, change, since, "because", (0, offset - 1) if offset else None)
        else:
            status = accepted_status(topic, id, change, since, subscriber="alice", paused=state == "paused")
        clients.write(self._cluster, topic, [(status.key, status.value)])


def test_offsets_and_what_retention_left_bound_the_range(sluice: CommandLine, settings: Settings) -> None:
    Flow(settings).burst(40)  # 20 in each partition
    answer = Answers(settings)
    command = ("subscribe", "--id", "s", "--subscriber", "alice", "--pattern", "{}", "--from")
    said = sluice(*command, "1:15", "--timeout", "0", code=75)
    assert "a running job" in said
    assert "The same command goes on from here, once a job answers" in said
    topic = settings.events.topic
    for offsets in ("2:0", f"{topic}/2:0", f"{topic}.none/0:0"):
        assert f"known: {topic}/0 to {topic}/1" in sluice(*command, offsets, code=1)

    answer("accepted", "s", 0, 18, 19)  # the start in partition 0 is its end, 20: nothing
    summary = json.loads(sluice(*command, "oldest", "--json"))  # the first start counts
    assert (summary["events"], summary["delivered"]) == (4, 4)
    assert sorted(n for n, _ in delivered(settings, "alice")) == [31, 33, 35, 37]

    sluice("subscribe", "--from", "0:3,1:4", "--timeout", "0", stdin=subscription("t", "alice"), code=75)
    admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap_servers})
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 10)]).values()
    assert deleted.result(PATIENCE_S).low_watermark == 10
    answer("accepted", "t", 1, 12, 6)
    with Client(settings) as client, client.catch_up("t") as replay:
        assert str(replay).endswith("0 of 4 offsets of " + topic + " done; older events are deleted")
        assert replay.run().delivered == 4

    sluice("subscribe", "--from", "0:3,1:20", "--timeout", "0", stdin=subscription("u", "alice"), code=75)
    answer("accepted", "u", 2, 8, 20)
    for _ in range(2):
        with process(sluice, "catch-up", "u") as command_of_u:
            _, said = command_of_u.communicate(timeout=PATIENCE_S)
        assert command_of_u.returncode == 0
        assert "u: the past events that were not deleted are delivered" in said
        assert "0 events read, 0 matched, 0 delivered; skipped: 0 undecodable, 0 oversize; 5 offsets deleted" in said


def test_a_resumption_begins_with_the_first_of_its_pauses(sluice: CommandLine, settings: Settings) -> None:
    Flow(settings).burst(40)
    answer = Answers(settings)
    document = {"id": "s", "subscriber": "alice", "pattern": {}}
    for written in (document, document | {"paused": True}, document | {"paused": True, "pattern": {"x": [1]}}):
        sluice("subscribe", stdin=lines(written))
    for state, offset, at in (("accepted", 0, 0), ("paused", 1, 5), ("paused", 2, 9)):
        answer(state, "s", offset, at, at)
    rejected = sluice("subscribe", "--from", "oldest", stdin=lines(document | {"paused": True}), code=1)
    assert "'s': a paused subscription has no start; nothing was written" in rejected
    with Client(settings) as client:
        with (
            pytest.raises(JobError, match="the subscription 's' is paused; `resume s --catch-up` resumes it"),
            client.catch_up("s"),
        ):
            pass
        assert client.resume("s", catch_up=True).count == 1
        answer("accepted", "s", 3, 11, 5)
        with client.catch_up("s") as replay:
            assert (replay.size, replay.run().delivered) == (6, 6)

        # A rejected change took the place of the status of a pause.
        client.subscribe("t", "alice", {}, paused=True)
        answer("rejected", "t", 5)
        with pytest.raises(
            JobError, match=r"of 't' was replaced by that of a later, rejected change.*Nothing was written"
        ):
            client.resume("t", catch_up=True)
        assert client.subscription("t").document["paused"]

        # And that of a document with a start.
        client.subscribe("u", "alice", {}, start={(settings.events.topic, 0): 15})
        answer("rejected", "u", 6)
        gone = "the status with the first event of 'u' was replaced"
        with pytest.raises(JobError, match=gone), client.catch_up("u"):
            pass


def test_a_client_waits_for_the_job_and_tells_its_rejection(
    sluice: CommandLine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, ordinary = Answers(settings), change_acks.answers

    def answers(*waiting: Any) -> Iterator[change_acks.ChangeAck]:
        answer("rejected", "s", 0)
        return ordinary(*waiting)

    with Client(settings) as client:
        client.subscribe("s", "alice", {}, start="oldest")
        with pytest.raises(Unanswered, match="The same command goes on"), client.catch_up("s", timeout_s=0):
            pass
        monkeypatch.setattr(change_acks, "answers", answers)  # the job's comes once it is waited for
        with pytest.raises(ChangeRejected, match="s: because"), client.catch_up("s", timeout_s=PATIENCE_S):
            pass
