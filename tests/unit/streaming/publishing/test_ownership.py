"""Owners of a query, replaced processes, and topics deleted while the job runs; without a broker."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from streaming.documents.records import Record
from streaming.driver import pipeline as module
from streaming.driver.slots import Slots
from streaming.errors import ClaimFailed, Fenced, JobError
from streaming.kafka.outputs import OutputTopics
from streaming.kafka.topics import Topic
from streaming.publishing.connection.client import Client
from streaming.publishing.contract import Aborted, Offsets, ProducerEpoch
from streaming.publishing.ownership import TAKEOVER_S, Owner
from streaming.publishing.slot import Committed
from tests.support.doubles.brokers import Brokers
from tests.support.doubles.spark_double import Frame, WithoutSpark
from tests.support.doubles.stage import NAMES, SETTINGS, ListSink, SlotsOn, change, event, pipeline, state

pytestmark = pytest.mark.kernels

PUBLISHED = Committed(ProducerEpoch(0, 0), 0.0, 0.0, 0, 0, {})
PLACES = [("events", 0), ("events", 1), ("subs", 0)]


@pytest.fixture(params=[2, 1], ids=lambda version: f"transactions of version {version}")
def broker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Brokers:
    broker = Brokers(request.param)
    broker.install(monkeypatch)
    return broker


def owner(name: str, *, again: bool = False, claims: bool = True) -> Owner:
    """The owner of that name; with `claims`, it will claim what is committed of PLACES."""
    return Owner(Client("", {}), "q", name, PLACES if claims else (), again=again)


@pytest.mark.parametrize("taken", [PLACES, PLACES[:1], PLACES[2:]], ids=["all", "the first", "the last"])
def test_a_process_that_was_replaced_opens_nothing_if_another_committed_any_offset_it_had_claimed(
    broker: Brokers, taken: list[tuple[str, int]]
) -> None:
    owner("a", claims=False).publish([], dict.fromkeys(PLACES, 5))
    again = owner("a", again=True)
    assert again.committed(PLACES) == dict.fromkeys(PLACES, 5)
    other = owner("b", claims=False)
    other.publish([], dict.fromkeys(taken, 6))
    with pytest.raises(Fenced, match="has taken over"):
        owner("a", again=True)
    other.publish([], dict.fromkeys(taken, 7))  # it was not fenced by who was replaced


@pytest.mark.parametrize(("claims", "error"), [(False, ClaimFailed), (True, Fenced)])
def test_a_process_that_is_fenced_in_its_claim_may_try_again_unless_another_has_claimed(
    broker: Brokers, claims: bool, error: type[JobError]
) -> None:
    owner("a", claims=False).publish([], dict.fromkeys(PLACES, 5))
    one = owner("b")
    other = owner("c" if claims else "a", claims=False)
    if claims:
        other.committed(PLACES)
    with pytest.raises(error):
        one.committed(PLACES)
    assert error.retry == (not claims)
    other.publish([], dict.fromkeys(PLACES, 6))
    assert owner("b", claims=False).committed(PLACES) == dict.fromkeys(PLACES, 6)


def test_whoever_takes_over_claims_what_is_committed_at_once(broker: Brokers) -> None:
    owner("a", claims=False).publish([], dict.fromkeys(PLACES, 5))
    Slots(owner("b"), PLACES, NAMES.sources).take_over()
    with pytest.raises(Fenced, match="has taken over"):
        owner("a", again=True)


def test_an_owner_is_the_last_one_until_another_has_claimed(broker: Brokers) -> None:
    one = owner("a")
    assert one.is_last(Client("", {}))
    one.publish([], dict.fromkeys(PLACES, 5))
    assert one.is_last(Client("", {}))
    other = owner("b")
    assert not other.is_last(Client("", {}))
    other.committed(PLACES[:1])
    assert not one.is_last(Client("", {}))


def test_what_an_older_owner_committed_for_a_topic_that_was_left_out_since_replaces_nobody(broker: Brokers) -> None:
    owner("a", claims=False).publish([], dict.fromkeys(PLACES, 5))
    kept = PLACES[1:]
    assert owner("b").committed(kept) == dict.fromkeys(kept, 5)
    again = Owner(Client("", {}), "q", "b", PLACES[2:], again=True)
    assert again.committed(PLACES) == dict.fromkeys(PLACES, 5)
    again.publish([], dict.fromkeys(PLACES, 6))


def test_a_first_start_that_did_not_end_counts_for_none_of_its_topics(broker: Brokers) -> None:
    """The first start has one more topic than the second, which ends. The third has that topic again."""
    owner("a", claims=False).publish([], dict.fromkeys(PLACES, 5), starting=True)
    kept = PLACES[1:]
    second = owner("b", claims=False)
    assert second.committed(kept) == {}
    second.publish([], dict.fromkeys(kept, 7))
    third = owner("c", claims=False)
    assert third.committed(PLACES) == dict.fromkeys(kept, 7)
    third.publish([], {PLACES[0]: 0})
    assert owner("d", claims=False).committed(PLACES) == dict.fromkeys(kept, 7) | {PLACES[0]: 0}


def test_what_a_first_start_left_unfinished_beside_offsets_that_count_is_not_claimed(broker: Brokers) -> None:
    """The topic of subscriptions was made again: only its offsets are those of a first start."""
    first = owner("a", claims=False)
    first.publish([], dict.fromkeys(PLACES[:2], 5))
    first.publish([], {PLACES[2]: 9}, starting=True)
    second = owner("b", claims=False)
    assert second.committed(PLACES) == dict.fromkeys(PLACES[:2], 5)
    second.claim(PLACES)
    assert owner("c", claims=False).committed(PLACES) == dict.fromkeys(PLACES[:2], 5)


def test_offsets_of_quiet_partitions_are_committed_again(broker: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers forget each partition's offset by itself, however often others are committed."""
    one = owner("a")
    one.publish([], dict.fromkeys(PLACES, 5))
    p = pipeline(ListSink())
    p.owner = one
    commits: list[Offsets] = []

    def publish(records: Any, offsets: Offsets, notes: Any) -> Committed:
        commits.append(offsets)
        return PUBLISHED

    monkeypatch.setattr(one._producer, "publish", publish)
    p.rest()
    assert commits == []
    monkeypatch.setattr(module, "KEEP_EVERY_S", -1.0)
    p.rest()
    assert commits == [dict.fromkeys(PLACES, 5)]


def fenced() -> tuple[Owner, Owner]:
    """An owner that has committed, and one that has fenced it and not claimed the offsets yet."""
    old = owner("a")
    old.publish([], dict.fromkeys(PLACES, 5))
    return old, owner("b")


def test_who_was_fenced_lets_the_other_claim_before_it_opens_anything(
    broker: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = fenced()
    sleep = broker.sleep

    def claimed(s: float) -> None:
        monkeypatch.setattr(broker, "sleep", sleep)
        new.committed(PLACES)

    monkeypatch.setattr(broker, "sleep", claimed)
    with pytest.raises(Fenced, match="has taken over"):
        old.publish([], dict.fromkeys(PLACES, 6))
    new.publish([], dict.fromkeys(PLACES, 7))
    assert new.committed(PLACES) == dict.fromkeys(PLACES, 7)


def test_who_was_fenced_goes_on_if_nobody_claims(broker: Brokers) -> None:
    old, _ = fenced()
    with pytest.raises(Aborted):
        old.publish([], dict.fromkeys(PLACES, 6))
    old.publish([], dict.fromkeys(PLACES, 6))
    assert old.committed(PLACES) == dict.fromkeys(PLACES, 6)


@pytest.mark.parametrize(
    ("found", "error", "reason"),
    [
        ((4, "a 0"), ClaimFailed, "the committed offset of events-0 is 4 instead of 6, although no other job"),
        (None, ClaimFailed, "the committed offset of events-0 is none instead of 6"),
        ((4, "c 0"), Fenced, "has taken over"),
    ],
    ids=["gone back", "gone", "of another"],
)
def test_other_offsets_are_a_takeover_only_if_another_has_committed_them(
    broker: Brokers, found: tuple[int, str] | None, error: type[JobError], reason: str
) -> None:
    """Without a takeover the supervisor starts the job again; after one, it does not."""
    old, _ = fenced()
    committed = broker.offsets["q"]
    del committed[PLACES[0]]
    if found is not None:
        committed[PLACES[0]] = found
    with pytest.raises(error, match=reason):
        old.publish([], dict.fromkeys(PLACES, 6))


@pytest.mark.parametrize("jump_s", [3_600.0, -3_600.0], ids=["ahead", "back"])
def test_a_clock_that_jumps_leaves_the_other_its_time_to_claim(
    broker: Brokers, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    old, _ = fenced()
    times = itertools.count(broker.time(), jump_s)
    monkeypatch.setattr(broker, "time", lambda: next(times))
    before = broker.monotonic()
    with pytest.raises(Aborted):
        old.publish([], dict.fromkeys(PLACES, 6))
    assert broker.monotonic() - before >= TAKEOVER_S


def test_a_topic_that_does_not_exist_aborts_and_one_that_comes_late_is_waited_for(
    broker: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = owner("a")
    record = Record("status", b"k", b"v", [])
    with pytest.raises(Aborted, match="topic status does not exist") as aborted:
        one.publish([record], {PLACES[0]: 5})
    assert aborted.value.gone == {"status"}
    sleep = broker.sleep

    def made(s: float) -> None:
        broker.create([Topic("status")])
        sleep(s)

    monkeypatch.setattr(broker, "sleep", made)
    one.publish([record], {PLACES[0]: 6})
    assert [(r.key, r.value) for r in broker.read()] == [(b"k", b"v")]
    assert one.committed(PLACES) == {PLACES[0]: 6}


@pytest.mark.parametrize("create", [True, False])
def test_a_hundred_topics_that_are_deleted_at_once_do_not_end_the_job(broker: Brokers, create: bool) -> None:
    subscribers = [f"s{n}" for n in range(100)]
    broker.create(Topic(name) for name in ("status", "dead", *map(NAMES.delivery_topic, subscribers)))
    one, topics = owner("a"), OutputTopics(broker, 1, 1, create)  # type: ignore[arg-type]  # a double
    slots: Any = SlotsOn(one, broker=broker)
    p = WithoutSpark(state(), SETTINGS, one, slots, topics, NAMES, careful=False)
    documents = [{"subscriber": subscriber, "pattern": {"x": [1]}} for subscriber in subscribers]
    for rows in ([change(n, f"id{n}", document) for n, document in enumerate(documents)], [event(0, {"x": 1})]):
        p(Frame.of(rows, 1_000, slots.stage), 0)
    broker.delete([NAMES.delivery_topic(subscriber) for subscriber in subscribers])
    broker.deleted.clear()
    p(Frame.of([event(1, {"x": 1})], 1, slots.stage), 0)
    made = sorted(record.topic for record in broker.read() if record.topic != "status")
    assert made == (sorted(map(NAMES.delivery_topic, subscribers)) if create else ["dead"] * 100)
