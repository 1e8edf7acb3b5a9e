"""Dead letters on a real broker: the list, the target of a redrive, and exactly one redrive despite crashes."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, TypedDict

import pytest
from confluent_kafka import Producer

from config.model import Settings
from streaming.admin import redrive
from streaming.admin.dead_letters import DeadLetterFilter, DeadLetterPosition, marker
from streaming.documents import records as made
from streaming.documents.messages import headers_of, partition_of
from streaming.documents.records import Headers, Origin, Record, dead_letter
from streaming.errors import JobError
from streaming.kafka import layout
from streaming.kafka.clients import Cluster, read
from streaming.kafka.topics import Topic, Topics
from streaming.publishing.contract import Aborted, ProducerEpoch
from streaming.publishing.producer import TransactionalProducer
from streaming.rows import ConsumerRecord
from tests.integration.conftest import HOME, CommandLine, but
from tests.integration.running import job, lines, records, subscription
from tests.support.patience import PATIENCE_S

VALUE = b'{"x": 1}'
ALL = DeadLetterFilter()


class Subscribed(TypedDict):
    """Facts in a dead letter of a delivery."""

    subscriber: str
    subscriptionids: str
    matchversion: str


DELIVERY: Subscribed = {"subscriber": "alice", "subscriptionids": '["a","b"]', "matchversion": "7"}


@pytest.fixture
def settings(sluice: CommandLine) -> Settings:
    """Create all topics but those of subscribers."""
    settings, kafka = sluice.settings(), sluice.environment["SLUICE_KAFKA__BOOTSTRAP_SERVERS"]
    assert Topics(kafka, {}).create([*layout.topics(settings, 2, 1), Topic(settings.deliveries.topic)]) == {}
    return settings


def write(settings: Settings, written: Sequence[Record]) -> list[tuple[int, int]]:
    """Write records and return their positions."""
    places: dict[int, tuple[int, int]] = {}
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers, "message.max.bytes": 20_000_000})

    def at(n: int) -> Any:
        def delivered(error: Any, message: Any) -> None:
            assert error is None, error
            places[n] = (message.partition(), message.offset())

        return delivered

    for n, (topic, key, value, headers, partition) in enumerate(written):
        producer.produce(topic, value, key, partition, headers=[*headers], on_delivery=at(n))
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    return [places[n] for n in range(len(written))]


def letter(
    settings: Settings,
    reason: str,
    value: bytes | None = VALUE,
    key: bytes | None = b"k",
    headers: Headers | None = None,
    origin: Origin | None = None,
    **about: str,
) -> Record:
    """Return a dead letter as the job writes it."""
    subscribing = reason == made.REJECTED_SUBSCRIPTION
    topic = settings.subscriptions.topic if subscribing else settings.events.topic
    origin = origin or Origin(topic, 1, 17, 1_000)
    record = ConsumerRecord(*origin[1:], key, value, headers or ())
    return dead_letter(settings.dead_letters.topic, record, origin, reason, f"why {reason}", **about)


def found(settings: Settings, topic: str) -> list[Record]:
    """Return the records of a topic."""
    cluster = Cluster(settings.kafka.bootstrap_servers, {})
    return [
        Record(topic, m.key(), m.value(), headers_of(m), partition_of(m))
        for m in read(cluster, [topic], follow=False, settled=True)
        if m is not None
    ]


def redrives(settings: Settings, wanted: DeadLetterFilter = ALL, dry: bool = False) -> list[tuple[str, str]]:
    """(place, what became of it)."""
    with redrive.opened(settings, dry) as opened:
        return [(str(outcome.place), outcome.what) for outcome in opened.run(wanted)]


@pytest.mark.parametrize("reason", made.OF_EVENTS)
def test_an_event_goes_to_its_partition_again_as_it_was(settings: Settings, reason: str) -> None:
    own: Headers = [("trace", b"\xff"), ("n", None), ("sluice_reason", b"forged"), ("trace", b"")]
    events = [
        letter(settings, reason, b"{not json", None, own),
        letter(settings, reason, None, b""),
        letter(settings, reason, b"", b"k", [*own, ("sluice_attempts", b"1")]),
        letter(settings, reason, origin=Origin("events-of-old", 99, 1, 1_000)),
    ]
    write(settings, events)
    assert redrives(settings, dry=True) == [(f"0:{n}", "redriven") for n in range(4)]
    assert found(settings, settings.events.topic) == []
    assert redrives(settings) == [(f"0:{n}", "redriven") for n in range(4)]
    sent = found(settings, settings.events.topic)
    again = [record for record in sent if record.key != b"k" or record.value == b""]
    attempts = [("sluice_attempts", b"1"), ("sluice_attempts", b"1"), ("sluice_attempts", b"2")]
    assert [(r.key, r.value, r.partition) for r in again] == [(None, b"{not json", 1), (b"", None, 1), (b"k", b"", 1)]
    assert [r.headers for r in again] == [[*own, attempts[0]], [attempts[1]], [*own, attempts[2]]]
    assert [r.value for r in sent if r not in again] == [VALUE]  # its partition does not exist

    assert redrives(settings) == [(f"0:{n}", "redriven already") for n in range(4)]
    assert len(found(settings, settings.events.topic)) == 4


@pytest.mark.parametrize("reason", [made.OVERSIZE, made.MISSING_TOPIC, made.OVER_QUOTA])
@pytest.mark.parametrize("of", ["topic_per_subscriber", "shared"])
def test_a_delivery_goes_to_its_subscriber_alone_as_the_job_would_have_made_it(
    settings: Settings, reason: str, of: str
) -> None:
    settings = but(settings, deliveries={"layout": of})
    own: Headers = [("trace", b"t"), ("sluice_attempts", b"3"), ("ce_matchversion", b"99"), ("n", None)]
    write(settings, [letter(settings, reason, headers=own, **DELIVERY)])
    assert redrives(settings) == [("0:0", "redriven")]
    assert redrives(settings) == [("0:0", "redriven already")]
    topic = f"{settings.query.name}.{'all' if of == 'shared' else 'to.alice'}"
    (delivery,) = found(settings, topic)
    assert (delivery.key, delivery.value) == (b"alice" if of == "shared" else b"k", VALUE)
    assert delivery.headers == [
        ("trace", b"t"),
        ("n", None),
        ("ce_specversion", b"1.0"),
        ("ce_id", f"{settings.events.topic}-1-17".encode()),
        ("ce_source", f"kafka:{settings.events.topic}".encode()),
        ("ce_type", b"sluice.event"),
        ("ce_time", b"1970-01-01T00:00:01.000Z"),
        ("ce_matchversion", b"7"),
        ("ce_subscriptionids", b'["a","b"]'),
    ]
    assert found(settings, settings.events.topic) == []


def test_a_rejected_subscription_is_written_again_unless_there_is_a_later_word_on_it(settings: Settings) -> None:
    topic = settings.subscriptions.topic
    document = b'{"id": "%s", "subscriber": "?"}'

    def change(id: bytes, value: bytes | None, partition: int) -> Record:
        return Record(topic, id, value, [("h", b"1")], partition)

    changes = [
        *(change(id, document % id, partition) for id, partition in ((b"a", 0), (b"b", 0), (b"c", 1), (b"d", 1))),
        change(b"b", None, 0),  # unsubscribed since
        change(b"d", document % b"d", 1),  # rejected twice: the second is the last word
        change(b"c", document % b"c", 0),  # in another partition, but later
    ]
    places = write(settings, changes)
    now_ms = int(time.time() * 1000)
    times = [now_ms - 60_000] * 5 + [now_ms + 60_000] * 2
    rejected = [
        letter(
            settings,
            made.REJECTED_SUBSCRIPTION,
            changes[n].value,
            changes[n].key,
            changes[n].headers,
            Origin(topic, *places[n], times[n]),
        )
        for n in (0, 1, 2, 3, 5, 6)
    ]
    write(settings, rejected)
    assert redrives(settings) == [
        *((f"0:{n}", "superseded") for n in (1, 2, 3)),
        *((f"0:{n}", "redriven") for n in (0, 4, 5)),
    ]
    written = [record for record in found(settings, topic) if len(record.headers) > 1]
    assert sorted(written) == sorted(
        change(id, document % id, partition)._replace(headers=[("h", b"1"), ("sluice_attempts", b"1")])
        for id, partition in ((b"a", 0), (b"d", 1), (b"c", 0))
    )
    assert redrives(settings, DeadLetterFilter(places=frozenset({DeadLetterPosition(0, 1)}))) == [("0:1", "superseded")]


def test_a_subscription_that_was_rejected_by_a_clock_that_is_fast_stays_superseded(settings: Settings) -> None:
    topic = settings.subscriptions.topic
    (at,) = write(settings, [Record(topic, b"a", b"{}", [], 0)])
    write(settings, [Record(topic, b"a", None, [], 0)])
    time.sleep(0.01)
    fast = Origin(topic, *at, int(time.time() * 1000))
    write(settings, [Record(topic, b"b", None, [], 0)])
    write(settings, [letter(settings, made.REJECTED_SUBSCRIPTION, b"{}", b"a", origin=fast)])
    assert redrives(settings) == [("0:0", "superseded")]


def test_a_rejected_subscription_stays_superseded_though_compaction_has_removed_the_later_change(
    settings: Settings,
) -> None:
    topic, statuses = settings.subscriptions.topic, settings.subscriptions.status_topic
    topic_id = Topics(settings.kafka.bootstrap_servers, {}).ids([topic], PATIENCE_S)[topic]
    places = write(settings, [Record(topic, id, b"{}", [], 0) for id in (b"a", b"b", b"c", b"d")])

    def status(id: bytes, kind: str, offset: int, query: str = settings.query.name) -> Record:
        document = {
            "id": id.decode(),
            "status": kind,
            "change": {"partition": 0, "offset": offset},
            "in_force": None,
            "version": 9,
            "read_up_to": {"0": 9},
            "query": query,
            "topic_id": topic_id,
        }
        return Record(statuses, id, json.dumps(document).encode(), [], 0)

    write(
        settings,
        [
            status(b"a", "unsubscribed", 7),
            status(b"b", "rejected", 1),  # the letter's own
            status(b"c", "accepted", 8),
            status(b"d", "unsubscribed", 8, "another query"),
        ],
    )
    letters = [
        letter(settings, made.REJECTED_SUBSCRIPTION, b"{}", id, origin=Origin(topic, *place, int(time.time() * 1000)))
        for id, place in zip((b"a", b"b", b"c", b"d"), places, strict=True)
    ]
    write(settings, letters)
    assert redrives(settings) == [
        *(("0:0", "superseded"), ("0:2", "superseded")),
        *(("0:1", "redriven"), ("0:3", "redriven")),
    ]


def test_what_cannot_be_sent_is_skipped_and_said(sluice: CommandLine, settings: Settings) -> None:
    settings = but(settings, deliveries={"max_bytes": 2_000, "create_topics": False})
    sluice.environment["SLUICE_DELIVERIES__MAX_BYTES"] = "2000"
    sluice.environment["SLUICE_DELIVERIES__CREATE_TOPICS"] = "false"
    dead = settings.dead_letters.topic
    ids = json.dumps([f"{i:08}" for i in range(20_000)])
    sluice.environment["SLUICE_EVENTS__TOPIC"] = f"{sluice.name}.small"
    small = Topic(f"{sluice.name}.small", 2, config={"max.message.bytes": "2000"})
    topics = [Topic(f"{sluice.name}.to.alice"), small]
    assert Topics(settings.kafka.bootstrap_servers, {}).create(topics) == {}
    write(
        settings,
        [
            letter(settings, made.UNDECODABLE_EVENT, b"v" * made.MAX_LETTER_BYTES),
            letter(settings, made.OVERSIZE, b"v" * 2_000, **DELIVERY),
            letter(settings, made.OVERSIZE, **(DELIVERY | {"subscriptionids": ids})),
            letter(settings, made.MISSING_TOPIC, **(DELIVERY | {"subscriber": "bob"})),
            letter(settings, made.OVER_QUOTA, subscriber="alice", subscriptionids='["a"]'),
            Record(dead, None, b"not a letter", [("sluice_reason", b"oversize")]),
            Record(dead, None, None, [("sluice_redriven", b"rubbish")]),
            letter(settings, made.POISON_EVENT, random.randbytes(5_000)),  # more than the events topic takes
            letter(settings, made.POISON_EVENT),
            letter(settings, made.OVER_QUOTA, **DELIVERY),
        ],
    )
    skipped = {
        "0:0": ("value left out", "it was too large for a dead letter (10000000 bytes); the original is at "),
        "0:1": ("oversize", "bytes with headers; deliveries.max_bytes is 2000"),
        "0:2": ("ids left out", "they were too many for a dead letter (20000)"),
        "0:3": ("missing topic", f"topic {sluice.name}.to.bob of subscriber bob does not exist"),
        "0:4": ("incomplete", "it does not name its subscriber, subscriptions and version"),
        "0:5": ("no dead letter", "the job did not write it: the header sluice_headers is missing"),
        "0:6": ("no dead letter", "the job did not write it: the header sluice_headers is missing"),
        "0:99": ("no dead letter", "no such dead letter, or the filters exclude it"),
    }
    oversize = {"0:7": ("rejected by Kafka", "message size too large")}
    places = [*skipped, *oversize, "0:8", "0:9"]

    def said(flags: list[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        done = subprocess.run(
            sluice.command("dlq", "redrive", *places, "--json", *flags),
            env=sluice.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        *outcomes, summary = map(json.loads, done.stdout.splitlines())
        return outcomes, summary

    for flags, why, others in (
        (["--dry-run"], skipped, ["0:7", "0:8", "0:9"]),
        ([], skipped | oversize, ["0:8", "0:9"]),
        ([], skipped | oversize, []),
    ):
        outcomes, summary = said(flags)
        assert {o["position"]: o["why"] for o in outcomes if o["outcome"] == "skipped"} == {
            p: w[0] for p, w in why.items()
        }
        assert all(why[o["position"]][1] in o["detail"] for o in outcomes if o["outcome"] == "skipped")
        assert sorted(o["position"] for o in outcomes if o["outcome"] == "redriven") == others
        assert (summary["redriven"], summary["already"]) == (len(others), 0 if others else 2)
        assert summary["skipped"]["no dead letter"] == 3
    assert [r.value for r in found(settings, small.name)] == [VALUE]
    assert len(found(settings, f"{sluice.name}.to.alice")) == 1

    error = sluice("dlq", "redrive", "--all-letters", code=1)
    assert "0:3: skipped, missing topic: topic " in error
    assert sluice("dlq", "redrive", "0:8") == "0 redriven\n1 redriven already\n"
    assert sluice("dlq", "redrive", "--reason", "rejected_subscription", "--dry-run") == "0 would be redriven\n"


def test_letters_are_listed_and_shown(sluice: CommandLine, settings: Settings) -> None:
    none = sluice("dlq", "list", "--json")
    assert none == ""
    own: Headers = [("trace", b"t"), ("raw", b"\xff")]
    write(
        settings,
        [
            letter(settings, made.UNDECODABLE_EVENT, b"\xff\xfe", headers=own),
            letter(settings, made.OVERSIZE, **DELIVERY),
            letter(settings, made.OVER_QUOTA, **(DELIVERY | {"subscriber": "bob"})),
            Record(settings.dead_letters.topic, b"k", b"not a letter", []),
        ],
    )
    listed = sluice("dlq", "list")
    assert listed.splitlines()[0].split() == ["POSITION", "TIME", "(UTC)", "REASON", "ATTEMPTS", "ORIGIN"]
    assert max(map(len, listed.splitlines())) <= 80
    assert [line.split()[0] for line in listed.splitlines()[1::2]] == ["0:0", "0:1", "0:2", "0:3"]
    assert "  for alice: why oversize\n" in listed

    def places(*flags: str) -> list[str]:
        return [json.loads(line)["position"] for line in sluice("dlq", "list", "--json", *flags).splitlines()]

    assert places("--reason", "oversize", "--reason", "unknown") == ["0:1", "0:3"]
    assert places("--subscriber", "bob") == ["0:2"]
    assert places("--origin-topic", settings.events.topic, "--limit", "2") == ["0:0", "0:1"]
    assert places("--since", "1h") == ["0:0", "0:1", "0:2", "0:3"]
    assert places("--until", "1h") == []
    assert sluice("dlq", "redrive", "--subscriber", "bob") == "1 redriven\n"
    assert places() == ["0:0", "0:1", "0:3"]
    assert places("--all") == ["0:0", "0:1", "0:2", "0:3"]

    shown = sluice("dlq", "show", "0:0")
    assert "detail    why undecodable_event\n" in shown
    assert "2 headers:\n  trace: t\n  raw: 0xff\n" in shown
    assert shown.endswith(f"the value, 2 bytes:\n00000000  ff fe{' ' * 42}  ..\n")
    data = json.loads(sluice("dlq", "show", "0:0", "--json"))
    assert (data["key"], data["value_base64"], data["redriven"]) == ("k", "//4=", False)
    assert data["headers"] == [{"name": "trace", "value": "t"}, {"name": "raw", "value_base64": "/w=="}]
    assert json.loads(sluice("dlq", "show", "0:2", "--json"))["redriven"] is True
    error = sluice("dlq", "show", "0:4", code=1)  # it is a marker
    assert f"the topic {settings.dead_letters.topic} has no dead letter at 0:4" in error
    error = sluice("dlq", "list", "-s", "dead_letters.topic=nowhere", code=1)
    assert "no topic nowhere" in error


def test_an_event_that_is_a_letter_again_says_that_it_was_one(
    sluice: CommandLine, settings: Settings, kafka: str
) -> None:
    name = sluice.name
    sluice("subscribe", stdin=lines(subscription("s", "alice", x=[1])))
    with job(sluice) as running:
        running.running()
        sluice("produce", stdin=lines("{not json", {"x": 1}))
        running.until("done with the events", lambda: running.total("event_count") == 2)
        (first,) = map(json.loads, sluice("dlq", "list", "--json").splitlines())
        assert (first["reason"], first["attempts"], first["value"]) == ("undecodable_event", 1, "{not json")
        assert sluice("dlq", "redrive", "--reason", "undecodable_event") == "1 redriven\n"
        running.until("done with it again", lambda: running.total("event_count") == 3)
        (second,) = map(json.loads, sluice("dlq", "list", "--json").splitlines())
        assert (second["attempts"], second["headers"]) == (2, [{"name": "sluice_attempts", "value": "1"}])
        assert second["origin"]["partition"] == first["origin"]["partition"]
        sluice("dlq", "redrive", second["position"])
        running.until("done with it once more", lambda: running.total("event_count") == 4)
        (third,) = map(json.loads, sluice("dlq", "list", "--json").splitlines())
        assert (third["attempts"], third["headers"]) == (3, [{"name": "sluice_attempts", "value": "2"}])
        assert len(records(kafka, f"{name}.to.alice")) == 1

        rejected = b'{"id": "t", "subscriber": "alice", "pattern": {"x": 5}}'
        write(settings, [Record(settings.subscriptions.topic, b"t", rejected, [])])
        running.until("done with the change", lambda: running.total("rejected_change_count") == 1)
        assert sluice("dlq", "redrive", "--reason", "rejected_subscription") == "1 redriven\n"
        running.until("done with it again", lambda: running.total("rejected_change_count") == 2)
        found = map(json.loads, sluice("dlq", "list", "--reason", "rejected_subscription", "--json").splitlines())
        assert [one["attempts"] for one in found] == [2]


def numbered(settings: Settings, total: int) -> None:
    kinds = (made.UNDECODABLE_EVENT, made.OVERSIZE)
    write(settings, [letter(settings, kinds[n % 2], b"%d" % n, **DELIVERY) for n in range(total)])


def numbers(settings: Settings) -> list[int]:
    """Return the numbers of the dead letters that were redriven."""
    there = Topics(settings.kafka.bootstrap_servers, {}).partitions()
    topics = [t for t in (settings.events.topic, f"{settings.query.name}.to.alice") if t in there]
    return sorted(int(record.value or b"") for topic in topics for record in found(settings, topic))


# The command with small transactions; at one of them it says so and waits for a line: before the commit, or after it.
HOLDS = """
import sys

import run_stream
from streaming.admin import redrive
from streaming.publishing.slot import _Transaction

*sys.argv, after, at = sys.argv
redrive.BATCH = 100
commits = 0
end = _Transaction._end

def hold():
    if commits == int(at):
        print("held", flush=True)
        sys.stdin.readline()

async def holding(self, *, commit):
    global commits
    commits += 1
    if after == "before":
        hold()
    producer = await end(self, commit=commit)
    if after == "after":
        hold()
    return producer

_Transaction._end = holding
run_stream.main()
"""


def held(sluice: CommandLine, when: str, at: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, "dlq", "redrive", "--all-letters", when, str(at)],
        cwd=HOME,
        env=sluice.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    if (said := process.stdout.readline()) != "held\n":
        process.kill()
        pytest.fail(said + process.communicate()[0])
    return process


@pytest.mark.parametrize(("when", "at", "seen"), [("before", 1, 0), ("before", 3, 200), ("after", 2, 200)])
def test_a_redrive_that_is_killed_and_run_again_sends_each_once(
    sluice: CommandLine, settings: Settings, when: str, at: int, seen: int
) -> None:
    total = 450
    numbered(settings, total)
    victim = held(sluice, when, at)
    victim.kill()
    victim.communicate()
    assert victim.returncode == -signal.SIGKILL
    summary = json.loads(sluice("dlq", "redrive", "--all-letters", "--json").splitlines()[-1])
    assert (summary["redriven"], summary["already"], summary["skipped"]) == (total - seen, seen, {})
    assert numbers(settings) == list(range(total))
    assert sluice("dlq", "redrive", "--all-letters") == f"0 redriven\n{total} redriven already\n"


def test_of_two_at_once_the_older_stops_and_each_letter_is_sent_once(sluice: CommandLine, settings: Settings) -> None:
    total = 450
    numbered(settings, total)
    older = held(sluice, "before", 3)
    try:
        assert sluice("dlq", "redrive", "--all-letters") == f"{total - 200} redriven\n200 redriven already\n"
    finally:
        said, _ = older.communicate("\n", timeout=PATIENCE_S)
    assert older.returncode == 1
    assert f"another redrive with query.name = '{sluice.name}' was started, so this one stops" in said
    assert numbers(settings) == list(range(total))


@pytest.mark.parametrize("late", [True, False])
def test_a_transaction_that_timed_out_is_not_a_takeover(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    write(settings, [letter(settings, made.POISON_EVENT)])
    with redrive.opened(settings) as older, redrive.opened(settings):  # it fences the older, as a timeout does
        monkeypatch.setattr(TransactionalProducer, "timeout_s", 0.0 if late else 300.0)
        with pytest.raises(JobError, match="timeout.ms" if late else "was started, so this one stops") as ended:
            list(older.run(ALL))
    assert ended.value.retry is late
    assert redrives(settings) == [("0:0", "redriven")]


@pytest.mark.parametrize(("rejected", "tries", "outcome"), [({}, 3, "redriven"), ({"t": "no"}, 1, "rejected by Kafka")])
def test_a_passing_abort_is_not_a_rejection(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, rejected: dict[str, str], tries: int, outcome: str
) -> None:
    monkeypatch.setattr(redrive, "PAUSE_S", 0)
    write(settings, [letter(settings, made.POISON_EVENT)])
    sent = []
    with redrive.opened(settings) as opened:
        ordinary = opened.publish

        def publish(wanted: Sequence[Record]) -> None:
            sent.append(wanted)
            if len(sent) < 3:
                raise Aborted("the transaction was aborted: unknown server error", ProducerEpoch(0, 0), rejected)
            ordinary(wanted)

        opened.publish = publish
        assert [(str(o.place), o.what) for o in opened.run(ALL)] == [("0:0", outcome)]
    assert len(sent) == tries


def test_aborts_without_end_end_the_redrive_and_leave_the_letter(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrive, "PAUSE_S", 0)
    write(settings, [letter(settings, made.POISON_EVENT)])

    def publish(wanted: Sequence[Record]) -> None:
        raise Aborted("the transaction was aborted: unknown server error", ProducerEpoch(0, 0))

    with redrive.opened(settings) as opened:
        opened.publish = publish
        with pytest.raises(Aborted):
            list(opened.run(ALL))
    assert redrives(settings) == [("0:0", "redriven")]


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_behind_a_transaction_that_is_open_is_waited_for(settings: Settings, committed: bool) -> None:
    """The job may be in the middle of one, and until its end nobody sees what others committed after its beginning."""
    first, second = letter(settings, made.POISON_EVENT), letter(settings, made.POISON_EVENT, b"later")
    write(settings, [first])
    job = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers, "transactional.id": settings.query.name})
    job.init_transactions(PATIENCE_S)
    job.begin_transaction()
    job.produce(second.topic, second.value, second.key, headers=[*second.headers])
    assert job.flush(PATIENCE_S) == 0
    write(settings, [marker(settings.dead_letters.topic, DeadLetterPosition(0, 0))])
    end = threading.Timer(1.0, job.commit_transaction if committed else job.abort_transaction)
    end.start()
    done = redrives(settings)
    end.join()
    assert done == [("0:0", "redriven already"), *([("0:1", "redriven")] if committed else [])]


def test_letters_that_come_meanwhile_are_left_to_the_next_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an event that is a letter again at once would go round for ever."""
    monkeypatch.setattr(redrive, "BATCH", 1)
    write(settings, [letter(settings, made.UNDECODABLE_EVENT)] * 3)
    done = []
    with redrive.opened(settings) as opened:
        for outcome in opened.run(ALL):
            write(settings, [letter(settings, made.UNDECODABLE_EVENT)])
            done.append(str(outcome.place))
            if len(done) > 5:
                break
    assert done == ["0:0", "0:1", "0:2"]
    assert [what for _, what in redrives(settings)].count("redriven") == 3


def test_a_redrive_without_its_topics_says_which(sluice: CommandLine, kafka: str) -> None:
    error = sluice("dlq", "redrive", "--all-letters", code=1)
    assert f"no topic {sluice.name}.events, {sluice.name}.subscriptions, {sluice.name}.dead at {kafka}" in error
