"""Replays for one subscription: selection, order, and exactly one delivery despite crashes."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from config.model import Settings
from run_stream import app
from streaming.admin import replay
from streaming.admin.replay import Replay, ReplaySummary
from streaming.errors import JobError, RegistryUnreachable
from streaming.kafka.topics import Topic, Topics
from streaming.publishing.producer import TransactionalProducer
from tests.integration.conftest import CommandLine, but, delete
from tests.integration.running import lines, records, subscription
from tests.integration.streaming.driver.test_deleted_records import delete_records
from tests.support.doubles.registry import schema_registry
from tests.support.doubles.schemas import POINT, avro
from tests.support.patience import PATIENCE_S

BEGIN_MS = int(time.time() - 3600) * 1_000  # of the first event; old enough to be past, not to be removed
PATTERNS: dict[str, dict[str, Any]] = {"json": {"x": [1]}, "cloudevents": {"data": {"x": [1]}}}


@pytest.fixture
def settings(sluice: CommandLine) -> Settings:
    """Create all topics, alice's too."""
    settings, kafka = sluice.settings(), sluice.environment["SLUICE_KAFKA__BOOTSTRAP_SERVERS"]
    topics = [Topic(settings.events.topic, 2), Topic(settings.subscriptions.topic, 2), Topic(f"{sluice.name}.to.alice")]
    assert Topics(kafka, {}).create(topics) == {}
    return settings


def produce(settings: Settings, *events: tuple[int, int, bytes | None, Any]) -> None:
    """(partition, seconds after BEGIN_MS, value, headers)."""
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers, "linger.ms": 5})
    for n, (partition, second, value, headers) in enumerate(events):
        at_ms = BEGIN_MS + 1_000 * second
        producer.produce(settings.events.topic, value, str(n), partition, timestamp=at_ms, headers=headers)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


def numbered(codec: str, n: int, x: int) -> tuple[bytes, list[tuple[str, bytes]]]:
    """An event that says which it is, in the kernel's JSON or as both kinds of CloudEvents."""
    data = {"x": x, "n": n}
    if codec == "json":
        return orjson.dumps(data), [("trace", b"t")]
    about = {"id": str(n), "source": "/s", "specversion": "1.0", "type": "t"}
    if n % 3:
        return orjson.dumps(data), [(f"ce_{k}", v.encode()) for k, v in about.items()]
    return orjson.dumps({**about, "data": data}), [("content-type", b"application/cloudevents+json")]


def number_of(value: bytes) -> int:
    document = orjson.loads(value)
    number: int = document.get("data", document)["n"]
    return number


def replayed(
    settings: Settings, id: str = "s", *, name: str | None = None, from_ms: int = 0, to_ms: int | None = None
) -> ReplaySummary:
    with replay.opened(settings, id, from_ms, to_ms, name) as opened:
        return opened.run(threading.Event(), None, lambda done: None)


def numbers(settings: Settings, topic: str) -> list[int]:
    return [number_of(r.value) for r in records(settings.kafka.bootstrap_servers, topic)]


@pytest.mark.parametrize("codec", PATTERNS)
def test_the_events_between_two_times_come_again_in_order_and_say_that_they_are_replayed(
    sluice: CommandLine, settings: Settings, codec: str
) -> None:
    settings = but(settings, events={"codec": codec})
    sluice("subscribe", stdin=lines(subscription("s", "alice", **PATTERNS[codec]), subscription("t", "alice")))
    x = [int(n % 4 != 3) for n in range(40)]
    produce(settings, *((n % 2, n, *numbered(codec, n, x[n])) for n in range(40)))
    produce(settings, (0, 40, b"{", [("ce_specversion", b"1.0")]), (0, 41, None, None))

    summary = replayed(settings, name="one", from_ms=BEGIN_MS + 10_000, to_ms=BEGIN_MS + 30_000)
    delivered = records(settings.kafka.bootstrap_servers, f"{sluice.name}.to.alice")
    found = [number_of(r.value) for r in delivered]
    assert sorted(found) == [n for n in range(10, 30) if x[n]]
    by_partition: list[list[int]] = [[n for n in found if n % 2 == p] for p in (0, 1)]
    assert all(part == sorted(part) for part in by_partition)
    assert summary.as_data() == {
        "name": "one",
        "events": 20,
        "matched": 15,
        "delivered": 15,
        "undecodable": 0,
        "oversize": 0,
        "deleted": 0,
        "finished": True,
    }

    for record in delivered:
        n = number_of(record.value)
        value, own = numbered(codec, n, 1)
        assert (record.key, json.loads(record.value)) == (str(n).encode(), json.loads(value))
        headers = dict(record.headers)
        assert len(headers) == len(record.headers)
        assert dict(own).items() <= headers.items()
        assert headers["sluice_replay"] == b"one"
        assert orjson.loads(headers["ce_subscriptionids"]) == ["s"]
        assert "ce_matchversion" not in headers
        assert headers["ce_specversion"] == b"1.0"
        if codec == "json":
            assert headers["ce_id"] == f"{sluice.name}.events-{n % 2}-{n // 2}".encode()

    to_now = replayed(settings)  # those that are no events too
    assert (to_now.events, to_now.delivered, to_now.undecodable) == (42, 30, 2)
    again = replayed(settings)  # of the same name, because nothing has changed
    assert again == ReplaySummary(to_now.name, finished=True)
    produce(settings, (1, 50, *numbered(codec, 50, 1)))
    assert replayed(settings).delivered == 31
    assert len(numbers(settings, f"{sluice.name}.to.alice")) == 15 + 30 + 31


def test_what_the_job_says_of_expiry_size_topic_and_headers_holds_for_a_replay(
    sluice: CommandLine, settings: Settings
) -> None:
    shared = but(settings, deliveries={"layout": "shared", "max_bytes": 400})
    assert Topics(settings.kafka.bootstrap_servers, {}).create([Topic(f"{sluice.name}.all")]) == {}
    end = datetime.fromtimestamp(BEGIN_MS / 1000 + 3, UTC).isoformat()
    sluice("subscribe", stdin=lines({"id": "s", "subscriber": "nobody", "pattern": {}, "expires_at": end}))
    forged = [("sluice_replay", b"x"), ("ce_matchversion", b"5"), ("ce_subscriptionids", b"[]"), ("own", b"kept")]
    events = [orjson.dumps({"n": n, "text": "." * 500 * (n == 1)}) for n in range(5)]
    produce(shared, *((0, n, value, forged) for n, value in enumerate(events)))

    summary = replayed(shared, name="r")
    assert (summary.events, summary.matched, summary.delivered, summary.oversize) == (5, 3, 2, 1)
    found = records(settings.kafka.bootstrap_servers, f"{sluice.name}.all")
    assert [(r.key, r.value) for r in found] == [(b"nobody", events[0]), (b"nobody", events[2])]
    headers = [(k, v) for k, v in found[0].headers if k in dict(forged)]
    assert headers == [("own", b"kept"), ("sluice_replay", b"r"), ("ce_subscriptionids", b'["s"]')]


def test_events_of_transactions_count_once_committed_and_their_markers_are_nothing_to_wait_for(
    sluice: CommandLine, settings: Settings
) -> None:
    sluice("subscribe", stdin=lines(subscription("s", "alice", x=[1])))
    kafka = settings.kafka.bootstrap_servers
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": f"{sluice.name}.events"})
    producer.init_transactions(PATIENCE_S)

    def transaction(n: int) -> None:
        producer.begin_transaction()
        producer.produce(settings.events.topic, numbered("json", n, 1)[0], partition=0)
        producer.flush(PATIENCE_S)

    for n, end in enumerate((producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)):
        transaction(n)
        end(PATIENCE_S)
    time.sleep(0.1)
    between_ms = int(time.time() * 1000)  # the last record before it is a marker, and an event comes after it
    transaction(3)
    producer.commit_transaction(PATIENCE_S)
    transaction(4)  # still open at the start

    to = f"{sluice.name}.to.alice"
    assert replayed(settings, to_ms=between_ms).finished
    assert numbers(settings, to) == [0, 2]
    assert replayed(settings).finished
    assert numbers(settings, to) == [0, 2, 0, 2, 3]
    producer.abort_transaction(PATIENCE_S)


def test_events_with_schemas_wait_for_their_registry_and_a_pattern_that_nothing_satisfies_gets_nothing(
    sluice: CommandLine, settings: Settings
) -> None:
    never = subscription("never", "alice", **{"$or": [{"x": [{"numeric": [">", 2, "<", 1]}]}]})
    sluice("subscribe", stdin=lines(subscription("s", "alice", x=[{"numeric": [">", 1]}]), never))
    with schema_registry() as registry:
        url = {"url": registry.url, "options": {"max.retries": "0"}}
        settings = but(settings, events={"codec": "avro"}, schema_registry=url)
        values = [avro(registry, POINT, {"x": x}) for x in (1, 2, 3)]
        produce(settings, *((0, n, value, None) for n, value in enumerate([*values, b"{}"])))
        registry.answer = 503, b""
        with pytest.raises(RegistryUnreachable):
            replayed(settings, name="waits")
        with replay.opened(settings, "s", 0, None, "same") as opened:
            with pytest.raises(RegistryUnreachable):
                opened.run()
            registry.answer = None
            with pytest.raises(ValueError, match="rate must be a positive number"):
                opened.run(rate=-5)
            assert opened.run().delivered == 2
        summary = replayed(settings, name="waits")
        assert (summary.events, summary.delivered, summary.undecodable) == (4, 2, 1)
        assert [r.value for r in records(settings.kafka.bootstrap_servers, f"{sluice.name}.to.alice")] == 2 * values[1:]
        assert replayed(settings, "never").matched == 0


class ReplayProcess:
    """`run_stream.py replay` as a process, and what it said."""

    def __init__(self, sluice: CommandLine, *flags: str) -> None:
        self.process = subprocess.Popen(
            sluice.command("replay", "s", *flags),
            env=sluice.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ended(self) -> tuple[int, str]:
        output, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, output


@contextmanager
def running(sluice: CommandLine, *flags: str) -> Iterator[ReplayProcess]:
    started = ReplayProcess(sluice, *flags)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.communicate()


def until_more_than(count: int, settings: Settings, topic: str, process: subprocess.Popen[str]) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while (found := len(numbers(settings, topic))) <= count:
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    return found


def test_a_replay_that_is_killed_goes_on_and_every_delivery_is_there_once(
    sluice: CommandLine, settings: Settings
) -> None:
    total, to = 5_000, f"{sluice.name}.to.alice"
    sluice("subscribe", stdin=lines(subscription("s", "alice", x=[1])))
    produce(settings, *((n % 2, n // 100, *numbered("json", n, 1)) for n in range(total)))
    seen = 0
    for flags in (("--from", "1d", "--rate", "5"), ("--rate", "8")):
        with running(sluice, "--name", "n", *flags) as victim:
            seen = until_more_than(seen, settings, to, victim.process)
            assert seen < total, "it was to be killed in the middle"
            time.sleep(random.random())
            victim.process.kill()
            assert victim.ended()[0] == -signal.SIGKILL
        seen = len(numbers(settings, to))
    # Not in its range; nor does another time to begin change it.
    produce(settings, (0, 70, *numbered("json", total, 1)))
    out = sluice("replay", "s", "--name", "n", "--from", "1s", "--json")
    summary = json.loads(out)
    assert (summary["name"], summary["finished"]) == ("n", True)
    assert 0 < summary["delivered"] < total

    found = numbers(settings, to)
    assert sorted(found) == list(range(total))
    assert all(part == sorted(part) for part in ([n for n in found if n % 2 == p] for p in (0, 1)))

    done = json.loads(sluice("replay", "s", "--name", "n", "--json"))
    assert done == {**ReplaySummary("n", finished=True).as_data()}
    assert len(numbers(settings, to)) == total


def test_a_signal_stops_it_after_the_transaction_in_hand_and_a_second_one_of_its_name_takes_over(
    sluice: CommandLine, settings: Settings
) -> None:
    total, to = 3_000, f"{sluice.name}.to.alice"
    sluice("subscribe", stdin=lines(subscription("s", "alice", x=[1])))
    produce(settings, *((n % 2, n // 100, *numbered("json", n, 1)) for n in range(total)))
    with running(sluice, "--from", "1d", "--rate", "5") as first:
        until_more_than(0, settings, to, first.process)
        first.process.send_signal(signal.SIGTERM)
        code, said = first.ended()
    assert code == 130
    seen = len(numbers(settings, to))
    (name,) = {line.split("--name ")[1].split("`")[0] for line in said.splitlines() if line.startswith("stopped")}
    with running(sluice, "--name", name, "--rate", "4") as older:
        until_more_than(seen, settings, to, older.process)
        newer = json.loads(sluice("replay", "s", "--name", name, "--json"))
        code, said = older.ended()
    assert newer["finished"]
    assert code == 1
    assert "was started elsewhere" in said
    assert sorted(numbers(settings, to)) == list(range(total))


def test_a_missing_topic_of_subscriptions_is_named(sluice: CommandLine) -> None:
    settings = sluice.settings()
    sluice("topics", "create")
    delete(Topics(settings.kafka.bootstrap_servers, {}), settings.subscriptions.topic)
    said = sluice("replay", "s", "--from", "1h", code=1)
    assert f"no topic {settings.subscriptions.topic} at " in said
    assert "`run_stream.py topics create` creates the topics of the job" in said


@pytest.mark.parametrize("late", [True, False])
def test_a_transaction_that_timed_out_is_not_a_takeover(
    sluice: CommandLine, settings: Settings, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    sluice("subscribe", stdin=lines(subscription("s", "alice", x=[1])))
    produce(settings, (0, 0, *numbered("json", 0, 1)))
    with replay.opened(settings, "s", 0, None, "n") as opened:
        with replay.opened(settings, "s", None, None, "n"):
            pass  # it fences the first one, as a timeout does
        monkeypatch.setattr(TransactionalProducer, "timeout_s", 0.0 if late else 300.0)
        with pytest.raises(JobError, match="timeout.ms" if late else "was started elsewhere") as ended:
            opened.run()
    assert ended.value.retry is late
    assert replayed(settings, name="n").delivered == 1


def test_a_replay_that_goes_on_says_what_retention_deleted_meanwhile(sluice: CommandLine, settings: Settings) -> None:
    sluice("subscribe", stdin=lines(subscription("s", "alice", x=[1])))
    produce(settings, *((0, n, *numbered("json", n, 1)) for n in range(20)))
    stop = threading.Event()
    with replay.opened(settings, "s", 0, None, "n") as opened:
        stopped = opened.run(stop, rate=5, progress=lambda done: stop.set() if done else None)
    assert (stopped.events, stopped.deleted, stopped.finished) == (5, 0, False)
    delete_records(settings.kafka.bootstrap_servers, settings.events.topic, 12)
    with replay.opened(settings, "s", None, None, "n") as opened:
        assert str(opened).endswith("5 of 20 offsets of " + settings.events.topic + " done; older events are deleted")
        summary = opened.run()
    assert (summary.events, summary.delivered, summary.deleted, summary.finished) == (8, 8, 7, True)
    assert str(summary).endswith("; 7 offsets deleted before they were read")
    assert numbers(settings, f"{sluice.name}.to.alice") == [*range(5), *range(12, 20)]


def test_what_cannot_be_replayed_is_rejected_before_any_event_is_read(sluice: CommandLine, settings: Settings) -> None:
    kafka = settings.kafka.bootstrap_servers
    sluice(
        "subscribe",
        stdin=lines(
            subscription("s", "alice", x=[1]),
            subscription("gone", "alice"),
            subscription("nowhere", "bob"),
            subscription("other", "alice"),
        ),
    )
    sluice("unsubscribe", "gone")
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(f"{sluice.name}.subscriptions", b'{"pattern": {"x": 5}, "subscriber": "alice"}', b"bad")
    producer.flush(PATIENCE_S)
    produce(settings, *((0, n, *numbered("json", n, 1)) for n in range(4)))

    for id, reason in {
        "unheard-of": "there is no subscription 'unheard-of'",
        "gone": "the subscription 'gone' is unsubscribed",
        "bad": "the job rejects the subscription 'bad': field x: needs a list",
        "nowhere": f"no topic {sluice.name}.to.bob",
    }.items():
        with pytest.raises(JobError, match=reason):
            replayed(settings, id)
    with (
        pytest.raises(JobError, match="replay 'n' not found; pass --from to start it"),
        replay.opened(settings, "s", None, None, "n"),
    ):
        pass

    def begun(name: str) -> Replay:
        with replay.opened(settings, "s", 0, None, name) as opened:
            return opened

    assert replayed(settings, name="finished").delivered == 4
    assert begun("open").done == 0
    with pytest.raises(JobError, match="'open' is for the subscription 's', not for 'other'"):
        replayed(settings, "other", name="open")
    sluice("subscribe", stdin=lines(subscription("s", "alice", x=[2])))
    with pytest.raises(JobError, match="'s' was changed since the replay 'open' began"):
        replayed(settings, name="open")
    assert replayed(settings, name="finished") == ReplaySummary("finished", finished=True)
    assert replayed(settings, name="anew").matched == 0

    assert "there is no subscription" in sluice("replay", "x", "--from", "1h", code=1)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ([], "pass --from to start a replay"),
        (["--from", "noon"], "--from: 'noon' is neither"),
        (["--from", "2h", "--to", "noon"], "--to: 'noon' is neither"),
        (["--from", "1h", "--to", "2h"], "--from must be before --to"),
        (["--from", "2999-01-01T00:00:00Z"], "--from must be before now"),
        (["--from", "2h", "--name", "a/b"], "--name must have 1 to 100 letters"),
        (["--from", "2h", "--rate", "0"], "Invalid value for '--rate'"),
    ],
)
def test_a_wrong_command_is_rejected_before_any_broker_is_asked(flags: list[str], reason: str) -> None:
    rejected = CliRunner().invoke(app, ["replay", "s", *flags], env={"COLUMNS": "200"})
    assert rejected.exit_code == 2
    assert reason in rejected.output
