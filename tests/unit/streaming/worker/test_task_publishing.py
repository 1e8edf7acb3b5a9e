"""A task publishes deliveries and dead letters, and reports to the driver; without a broker."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import pytest

from streaming.driver.slots import Slots as DriversSlots
from streaming.errors import BrokerUnreachable, TopicMissing
from streaming.publishing.batch_limits import BatchLimits
from streaming.publishing.contract import LEAST_ATTEMPTS
from streaming.publishing.delivery import DeliveryRule
from streaming.publishing.encode import record_batches
from streaming.rows import Published, Row, SlotReport
from streaming.state.state import State
from streaming.worker import publishing, transaction
from streaming.worker.publication import UNLIMITED
from streaming.worker.settings import TaskSettings
from tests.support.doubles.stage import (
    ALICE,
    BOB,
    NAMES,
    PUBLICATION,
    SETTINGS,
    ListSink,
    Slots,
    Value,
    apply,
    change,
    event,
    headers_of,
    pipeline,
    published,
    state,
    step,
    work,
)

pytestmark = pytest.mark.kernels

SHARED = replace(SETTINGS, rule=DeliveryRule(shared="all"))


def subscribed() -> State:
    """Alice and bob have a subscription each."""
    subscribed = state()
    apply(subscribed, [change(0, "a", ALICE), change(1, "b", BOB)])
    return subscribed


def counts(rows: Sequence[Row]) -> list[tuple[int, Mapping[str, int]]]:
    """Deliveries and dead letters of each task."""
    return [(row.deliveries, row.dead_letters) for row in rows if isinstance(row, Published)]


def report(rows: Sequence[Row]) -> SlotReport:
    (report,) = (row for row in rows if isinstance(row, SlotReport))
    return report


def test_a_transaction_has_deliveries_dead_letters_and_the_offsets_of_their_events() -> None:
    sink = ListSink()
    rows = work(subscribed(), [event(3, {"x": 1}), event(4, b"{"), event(9, {"x": 2}, partition=1)], slots=Slots(sink))
    ((records, offsets),) = sink.transactions
    assert [record.topic for record in records] == ["dead", "to.alice", "to.bob", "to.bob"]
    assert offsets == {("events", 0): 5, ("events", 1): 10}
    assert counts(rows) == [(3, {"undecodable_event": 1})]
    assert report(rows) == SlotReport(0, 7, 1, [])


@pytest.mark.parametrize(
    ("settings", "unusual", "places"),
    [
        (SETTINGS, Value({"to.alice": 3}), {("to.alice", 2), ("to.bob", 0)}),
        (SHARED, None, {("all", 0)}),
    ],
    ids=["a topic each", "shared"],
)
def test_the_driver_tells_how_many_partitions_topics_have(
    settings: TaskSettings, unusual: Value | None, places: set[tuple[str, int]]
) -> None:
    """The broker has more by now, which other tasks may not know."""
    sink = ListSink()
    slots = Slots(sink, partitions_each=4, publication=replace(PUBLICATION, unusual=unusual))
    work(subscribed(), [event(0, {"x": 1}, partition=5)], settings=settings, slots=slots)
    assert {(record.topic, record.partition) for record in published(sink)} == places


def test_topics_with_fewer_partitions_than_the_driver_says_are_reported() -> None:
    sink = ListSink()
    slots = Slots(sink, partitions_each=2, publication=replace(PUBLICATION, unusual=Value({"to.alice": 3})))
    rows = work(subscribed(), [event(0, {"x": 1})], slots=slots)
    assert sink.transactions == []
    assert report(rows) == SlotReport(0, 7, 0, ["to.alice"])


def test_numbers_of_partitions_are_sent_when_they_change() -> None:
    sent: list[Value] = []

    def broadcast(value: Any) -> Value:
        sent.append(Value(value))
        return sent[-1]

    owner: Any = SimpleNamespace(note="", slots=1)
    slots = DriversSlots(owner, (), NAMES.sources)
    slots.open(1, broadcast)
    usual: Mapping[str, int] = {}
    some, other = {"to.alice": 3}, {"to.alice": 4}
    unusual = [
        slots.work(1, 0, 0.0, frozenset(), counts, UNLIMITED, exact=False).unusual
        for counts in (usual, some, some, other, usual)
    ]
    assert unusual == [None, sent[0], sent[0], sent[1], None]
    assert [value.value for value in sent] == [some, other]
    assert all(value.destroyed for value in sent)


def test_without_a_topic_nothing_is_published_and_nothing_later_overtakes() -> None:
    sink = ListSink()
    rows = work(subscribed(), [event(0, {"x": 1})], [event(1, {"x": 2})], slots=Slots(sink, absent={"to.alice"}))
    assert sink.transactions == []
    assert report(rows) == SlotReport(0, 7, 0, ["to.alice"])


@pytest.mark.parametrize(
    ("settings", "topic", "letters"),
    [(SETTINGS, "to.alice", 1), (SHARED, "all", 2)],
    ids=["a topic each", "shared"],
)
def test_deliveries_to_a_topic_that_is_absent_are_dead_letters(
    settings: TaskSettings, topic: str, letters: int
) -> None:
    slots = Slots(absent={topic}, publication=replace(PUBLICATION, absent=frozenset({topic})))
    rows = work(subscribed(), [event(0, {"x": 1})], settings=settings, slots=slots)
    assert counts(rows) == [(2 - letters, {"missing_topic": letters})]


def test_a_topic_that_the_broker_rejects_is_composed_again_with_dead_letters() -> None:
    sink = ListSink()
    rows = work(subscribed(), [event(0, {"x": 1})], [event(1, {"x": 1})], slots=Slots(sink, rejecting={"to.alice"}))
    assert [record.topic for record in published(sink)] == ["dead", "to.bob"] * 2
    assert counts(rows) == [(2, {"topic_rejected": 2})]
    assert [(row.aborted, len(row.transactions)) for row in rows if isinstance(row, Published)] == [(1, 2)]
    assert report(rows).epoch == 3


@pytest.fixture
def nothing_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process does not know the limits of any topic yet."""
    monkeypatch.setattr(publishing, "_limits", lru_cache(1)(BatchLimits))


@pytest.mark.usefixtures("nothing_learned")
def test_a_topic_that_rejects_large_batches_gets_smaller_ones_and_only_this_topic() -> None:
    sink = ListSink()
    slots = Slots(sink, batch_bytes={"to.alice": 5_000})
    some = [event(offset, {"x": 1}) for offset in range(100)]
    rows = work(subscribed(), some, slots=slots)
    assert Counter(record.topic for record in published(sink)) == {"to.alice": 100, "to.bob": 100}
    assert [row.aborted for row in rows if isinstance(row, Published)] == [4]
    later = work(subscribed(), [event(offset, {"x": 1}) for offset in range(100, 200)], slots=slots)
    assert Counter(record.topic for record in published(sink)) == {"to.alice": 200, "to.bob": 200}
    assert [row.aborted for row in later if isinstance(row, Published)] == [0]  # the process has learned it


@pytest.mark.usefixtures("nothing_learned")
def test_a_topic_that_rejects_a_single_record_is_not_tried_with_smaller_batches() -> None:
    sink = ListSink()
    rows = work(subscribed(), [event(0, {"x": 1})], slots=Slots(sink, batch_bytes={"to.alice": 100}))
    assert [record.topic for record in published(sink)] == ["dead", "to.bob"]
    assert counts(rows) == [(1, {"topic_rejected": 1})]
    assert [row.aborted for row in rows if isinstance(row, Published)] == [1]


@pytest.mark.usefixtures("nothing_learned")
def test_aborts_that_taught_something_do_not_count_towards_the_attempts_in_vain() -> None:
    sink = ListSink(aborts=LEAST_ATTEMPTS - 1)
    slots = Slots(sink, batch_bytes={"to.alice": 5_000})
    rows = work(subscribed(), [event(offset, {"x": 1}) for offset in range(100)], slots=slots)
    assert [row.aborted for row in rows if isinstance(row, Published)] == [4 + LEAST_ATTEMPTS - 1]


def test_record_batches_are_no_larger_than_delivery_topics_take(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def encode(*arguments: Any) -> Any:
        sizes.extend({*arguments[-1].batch_bytes.tolist()})
        return encoded(*arguments)

    encoded = record_batches.encode
    monkeypatch.setattr(record_batches, "encode", encode)
    for most in (SETTINGS.max_batch_bytes, 5_000):
        sink = ListSink()
        work(subscribed(), [event(0, {"x": 1})], settings=replace(SETTINGS, max_batch_bytes=most), slots=Slots(sink))
        assert len(published(sink)) == 2
    assert sizes == [1_000_000, 5_000]


def test_a_transaction_has_no_more_topics_than_its_coordinator_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    subscribed, sink = state(), ListSink()
    apply(subscribed, [change(n, f"s{n}", {"subscriber": f"r{n}", "pattern": {"x": [n]}}) for n in range(8)])
    three = 3 * (len("to.r0") + transaction.TOPIC_BYTES + transaction.PARTITION_BYTES)
    monkeypatch.setattr(transaction, "MOST_TOPIC_BYTES", three)
    rows = work(subscribed, [event(n, {"x": min(n, 7)}) for n in range(12)], slots=Slots(sink))
    assert [len(records) for records, _ in sink.transactions] == [3, 3, 6]
    assert [record.topic for record in published(sink)] == [f"to.r{min(n, 7)}" for n in range(12)]
    assert counts(rows) == [(12, {})]


def test_a_missing_topic_of_dead_letters_matters_once_there_is_one() -> None:
    slots = Slots(absent={"dead"})
    assert counts(work(subscribed(), [event(0, {"x": 1})], slots=slots)) == [(2, {})]
    with pytest.raises(BrokerUnreachable, match="dead-letter topic dead does not exist"):
        work(subscribed(), [event(1, b"{")], slots=slots)


def test_dead_letters_that_cannot_be_written_end_the_job() -> None:
    with pytest.raises(TopicMissing, match="dead letters cannot be written"):
        work(subscribed(), [event(0, b"{")], slots=Slots(rejecting={"dead"}))


def test_all_deliveries_may_share_a_topic_whose_keys_are_the_subscribers() -> None:
    sink = ListSink()
    work(subscribed(), [event(0, {"x": 1}, key=b"k")], settings=SHARED, slots=Slots(sink))
    assert {(record.topic, record.key) for record in published(sink)} == {("all", b"alice"), ("all", b"bob")}


def test_an_event_that_too_many_match_is_a_dead_letter() -> None:
    p = pipeline(ListSink(), max_matches=2)
    step(p, *(change(i, f"id{i}", {"subscriber": "alice", "pattern": {"x": [i, 9]}}) for i in range(3)))
    letter, delivery = step(p, event(0, {"x": 9}), event(1, {"x": 1}))
    assert (letter.topic, delivery.topic) == ("dead", "to.alice")
    assert dict(letter.headers)["sluice_reason"] == b"too_many_matches"
    assert dict(letter.headers)["sluice_detail"] == b"3 subscriptions match it; matching.max_per_event is 2"


def test_an_event_that_is_too_large_is_a_dead_letter_and_matches_nothing() -> None:
    p = pipeline(ListSink())
    p.settings = replace(p.settings, max_event_bytes=20)
    step(p, change(0, "a", {"subscriber": "alice", "pattern": {}}))
    large = b'{"x": "' + b"x" * 20 + b'"}'
    letter, delivery = step(p, event(0, large), event(1, {"x": 1}))
    assert (letter.topic, letter.value, delivery.value) == ("dead", large, b'{"x": 1}')
    assert dict(letter.headers)["sluice_reason"] == b"oversize_event"
    assert dict(letter.headers)["sluice_detail"] == b"29 bytes; events.max_bytes is 20"


def test_an_event_that_very_many_match_has_one_delivery_for_each_subscriber(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its deliveries are encoded in several pieces, which are one transaction."""
    monkeypatch.setattr(record_batches, "PIECE_BYTES", 2_000)
    sink = ListSink()
    p = pipeline(sink)
    subscribers = [f"s{i % 40}" for i in range(300)]
    step(p, *(change(i, f"id{i:03}", {"subscriber": s, "pattern": {"x": [1]}}) for i, s in enumerate(subscribers)))
    found = step(p, event(0, {"x": 1}))
    assert len(sink.transactions) == 2
    ids = {record.topic: json.loads(headers_of(record)["ce_subscriptionids"]) for record in found}
    assert len(found) == len(ids) == 40
    assert ids == {f"to.s{n}": [f"id{i:03}" for i in range(n, 300, 40)] for n in range(40)}


def test_much_to_deliver_is_several_transactions_in_the_order_of_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "MATCHES_AT_ONCE", 3)
    sink = ListSink()
    p = pipeline(sink)
    step(p, *(change(i, f"id{i}", {"subscriber": f"s{i}", "pattern": {"x": [1]}}) for i in range(2)))
    sink.transactions.clear()
    rows = [event(i, {"x": i % 2}, partition=q) for q in (0, 1) for i in range(6)]
    step(p, *rows[:6], event(6, b"no event"), *rows[6:], change(2, "id2", ALICE))
    both = ["to.s0", "to.s1"]
    assert [(Counter(record.topic for record in records), offsets) for records, offsets in sink.transactions] == [
        (Counter(both), {("events", 0): 3}),
        (Counter(both), {("events", 0): 5}),
        (Counter(["dead", *both]), {("events", 0): 7, ("events", 1): 1}),
        (Counter(both), {("events", 1): 3}),
        (Counter(both), {("events", 1): 5}),
        (Counter(both), {("events", 1): 6}),
        (Counter(["status"]), {("subs", 0): 3}),
    ]
