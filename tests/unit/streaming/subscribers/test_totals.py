"""The sums of subscribers and subscriptions: over restarts, at a limited rate, and without those who are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchers.index.texts import Texts
from streaming.documents.records import Record
from streaming.documents.subscriber_metrics import SubscriberMetrics, key_of, read_metrics
from streaming.kafka.clients import Cluster
from streaming.subscriber_counts import SubscriberCounts
from streaming.subscribers.metrics_topic import MetricsTopic, totals_of
from streaming.subscribers.totals import Totals
from tests.support.doubles.stage import apply, change, state

pytestmark = pytest.mark.kernels

TOPIC = MetricsTopic(Cluster("", {}), "metrics", "q")
EVERYTHING = 1_000

Given = Mapping[str, Mapping[str, int]]  # by subscriber: matches by subscription


def report(matches: Given, letters: Mapping[str, Mapping[str, int]] | None = None, at_ms: int = 7) -> SubscriberCounts:
    """Each match is a delivery of 10 bytes."""
    ids = [(owner, id, n) for owner, of in enumerate(matches.values()) for id, n in of.items()]
    total = np.array([sum(of.values()) for of in matches.values()], np.int64)
    return SubscriberCounts(
        names=Texts.of(matches),
        deliveries=total,
        size_bytes=10 * total,
        matches=total,
        last_event_ms=np.full(len(total), at_ms),
        dead_letters=letters or {},
        ids=Texts.of(id for _, id, _ in ids),
        owner=np.array([owner for owner, _, _ in ids], np.int64),
        id_matches=np.array([n for _, _, n in ids], np.int64),
        id_last_event_ms=np.full(len(ids), at_ms),
    )


class Message:
    """A record as a consumer returns it."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def key(self) -> bytes | None:
        return self._record.key

    def value(self) -> bytes | None:
        return self._record.value


def written(totals: Totals, most: int = EVERYTHING) -> list[Record]:
    return TOPIC.records(totals, totals.choose(most), 99)


def again(records: Iterable[Record], query: str = "q") -> Totals:
    """The sums that a new job begins with."""
    messages: Any = map(Message, records)
    totals = Totals(query)
    totals.take_in(totals_of(messages, query))
    return totals


def subscribers(totals: Totals) -> dict[str, SubscriberMetrics]:
    return {one.subscriber: one for one in totals.metrics_of(np.arange(len(totals._subscribers)))}


def of_subscriptions(totals: Totals) -> dict[tuple[str, str], int]:
    found = totals.subscription_metrics_of(np.arange(len(totals._subscriptions)))
    return {(one.subscriber, one.subscription): one.matches for one in found}


def test_reports_add_up_and_survive_a_restart() -> None:
    totals = Totals("q")
    totals.add(report({"ann": {"a": 2, "a2": 1}, "bob": {"b": 5}}, {"ann": {"oversize": 1}}), 100)
    totals.add(report({"ann": {"a": 1}}, {"ann": {"oversize": 2, "over_quota": 1}}, at_ms=6), 200)
    ann = SubscriberMetrics("q", "ann", 4, 40, 4, {"oversize": 3, "over_quota": 1}, 7, 100)
    assert subscribers(totals)["ann"] == ann
    later = again(written(totals))
    assert subscribers(later) == subscribers(totals)
    assert of_subscriptions(later) == {("ann", "a"): 3, ("ann", "a2"): 1, ("bob", "b"): 5}
    assert written(later) == []  # nothing has changed
    later.add(report({"ann": {"a": 1}}, at_ms=50), 300)
    assert subscribers(later)["ann"] == ann._replace(deliveries=5, size_bytes=50, matches=5, last_event_ms=50)
    assert [record.key for record in written(later)] == [b"ann", b"ann/a"]


def test_what_is_counted_before_the_topic_is_read_is_added_to_what_it_says() -> None:
    before, now = Totals("q"), Totals("q")
    before.add(report({"ann": {"a": 2}, "bob": {"b": 1}}, {"ann": {"oversize": 1}}), 100)
    now.add(report({"cid": {"c": 1}, "ann": {"a": 1}}, {"ann": {"oversize": 1}}), 200)
    messages: Any = map(Message, written(before))
    now.take_in(totals_of(messages, "q"))
    assert {name: (one.deliveries, one.since_ms) for name, one in subscribers(now).items()} == {
        "cid": (1, 200),
        "ann": (3, 100),
        "bob": (1, 100),
    }
    assert subscribers(now)["ann"].dead_letters == {"oversize": 2}
    assert of_subscriptions(now) == {("cid", "c"): 1, ("ann", "a"): 3, ("bob", "b"): 1}


def test_records_of_others_are_left_out() -> None:
    totals = Totals("other")
    totals.add(report({"ann": {"a": 2}}), 100)
    strange = [Record("metrics", b"bob", value, []) for value in (b"{", b"7", b'{"query":"q"}', b'{"query":"q","x":1}')]
    assert again([*written(totals), *strange]).size == (0, 0)
    assert read_metrics(b'{"query":"q","subscriber":"a","matches":1,"since_ms":1,"last_event_ms":null}') is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("subscriber", 5),
        ("query", None),
        ("matches", 1e30),
        ("matches", -1),
        ("bytes", 2**63),
        ("dead_letters", {"x": 1e30}),
    ],
)
def test_records_of_others_with_other_types_and_ranges_are_left_out(name: str, value: object) -> None:
    good: dict[str, object] = {
        "query": "q",
        "subscriber": "a",
        "matches": 1,
        "deliveries": 1,
        "bytes": 1,
        "dead_letters": {},
        "last_event_ms": 0,
        "since_ms": 1,
    }
    assert read_metrics(orjson.dumps(good)) is not None
    assert read_metrics(orjson.dumps(good | {name: value})) is None


def test_a_subscription_that_moves_to_another_subscriber_begins_anew() -> None:
    totals = Totals("q")
    totals.add(report({"ann": {"s": 2}}), 100)
    old = written(totals)
    totals.add(report({"bob": {"s": 5}}), 200)
    new = written(totals)
    assert (new[0].key, new[0].value) == (b"ann/s", None)
    assert of_subscriptions(again([*old, *new])) == {("bob", "s"): 5}
    killed = again([*old, *new[1:]])  # the tombstone was not written any more
    assert of_subscriptions(killed) == {("bob", "s"): 5}
    assert [(record.key, record.value) for record in written(killed)] == [(b"ann/s", None)]
    live = Totals("q")
    live.add(report({"cid": {"s": 1}}), 300)  # moved while nothing ran
    messages: Any = map(Message, [*old, *new])
    live.take_in(totals_of(messages, "q"))
    assert of_subscriptions(live) == {("cid", "s"): 1}
    assert written(live)[0].key == b"bob/s"


def test_who_has_no_subscription_any_more_is_forgotten() -> None:
    subscribed = state()
    documents = {"a": "ann", "a2": "ann", "b": "bob", "c": "cid"}
    rows = [change(i, id, {"subscriber": to, "pattern": {"x": [1]}}) for i, (id, to) in enumerate(documents.items())]
    apply(subscribed, rows[:2])
    apply(subscribed, rows[2:])
    totals = Totals("q")
    totals.add(report({"ann": {"a": 1, "a2": 2}, "bob": {"b": 3}, "cid": {"c": 4}}, {"cid": {"oversize": 1}}), 100)
    totals.sweep(subscribed.snapshot)
    assert totals.size == (3, 4)
    first = written(totals)
    apply(subscribed, [change(4, "b", None), change(5, "a", None)])
    totals.sweep(subscribed.snapshot)
    assert totals.size == (2, 2)
    gone = written(totals)
    assert [(record.key, record.value) for record in gone] == [(key, None) for key in (b"ann/a", b"bob/b", b"bob")]
    for left in (totals, again([*first, *gone])):
        assert of_subscriptions(left) == {("ann", "a2"): 2, ("cid", "c"): 4}
        assert {name: one.dead_letters for name, one in subscribers(left).items()} == {
            "ann": {},
            "cid": {"oversize": 1},
        }
    apply(subscribed, [change(6, "a2", {"subscriber": "cid", "pattern": {"x": [1]}})])  # it has moved
    totals.sweep(subscribed.snapshot)
    assert [(record.key, record.value) for record in written(totals)] == [(b"ann/a2", None), (b"ann", None)]
    totals.add(report({"bob": {"b": 1}}), 200)  # subscribed again
    assert {record.key: record.value is None for record in written(totals)} == {b"bob": False, b"bob/b": False}


def test_looking_up_names_without_metrics_changes_nothing() -> None:
    subscribed = state()
    apply(subscribed, [change(0, "a", {"subscriber": "ann", "pattern": {"x": [1]}})])
    totals = Totals("q")
    assert (totals.named(["ann", "bob"]), totals.subscriptions_named(["a", "b"])) == ([], [])
    totals.forget(key_of("bob", "b"))  # a tombstone in the topic leaves a name too
    totals.sweep(subscribed.snapshot)
    assert written(totals) == []
    totals.add(report({"ann": {"a": 1}}), 100)
    assert [one.subscription for one in totals.subscriptions_named(["a", "b"])] == ["a"]
    assert [one.subscriber for one in totals.named(["bob", "ann"])] == ["ann"]
    totals.sweep(subscribed.snapshot)
    assert {record.key: record.value is None for record in written(totals)} == {b"ann": False, b"ann/a": False}


def test_what_changed_is_written_in_turn_and_no_faster_than_the_limit() -> None:
    totals = Totals("q")
    names = [f"n{i}" for i in range(6)]
    everything = report({name: {f"s{name}": 1} for name in names})
    totals.add(everything, 100)
    keys = []
    for _ in range(4):
        keys.append([record.key for record in written(totals, 4)])
        totals.add(everything, 100)
    of_subscribers = [key for some in keys for key in some if b"/" not in (key or b"")]
    assert [len(some) for some in keys] == [4] * 4
    assert Counter(of_subscribers) == {**dict.fromkeys(map(key_of, names), 1), b"n0": 2, b"n1": 2}
    assert len({key for some in keys[:3] for key in some if b"/" in (key or b"")}) == 6


def test_a_failed_write_is_made_again() -> None:
    totals = Totals("q")
    totals.add(report({"ann": {"a": 1}}), 100)
    first = totals.choose(EVERYTHING)
    assert written(totals) == []
    totals.give_back(first)
    assert [record.key for record in written(totals)] == [b"ann", b"ann/a"]


def test_the_busiest_are_those_of_late() -> None:
    totals = Totals("q")
    totals.add(report({"ann": {"a": 6_000}, "bob": {"b": 1}}), 100)
    totals.fade(600)
    totals.add(report({"bob": {"b": 60}, "cid": {"c": 30}}), 100)
    busiest = [(one.subscriber, round(rate, 2)) for one, rate in totals.busiest(3)]
    assert busiest == [("bob", 1.0), ("cid", 0.5), ("ann", 0.0)]
    assert [one.subscriber for one, _ in totals.busiest(2)] == ["bob", "cid"]
    assert [one.subscriber for one in totals.named(["cid", "nobody"])] == ["cid"]
    assert totals.size[0] == len(totals.busiest(99)) == 3


names = st.sampled_from(["ann", "bob", "cid"])
ids = st.sampled_from(["s", "t", "u"])
reports = st.dictionaries(names, st.dictionaries(ids, st.integers(1, 5), max_size=2), min_size=1, max_size=3)


@given(st.lists(st.tuples(reports, st.integers(0, 4), st.booleans()), max_size=12))
def test_sums_are_those_of_all_reports_however_they_are_written_and_read(
    steps: list[tuple[dict[str, dict[str, int]], int, bool]],
) -> None:
    """After each report at most so many records are written; then the job may stop, which writes all, and start."""
    totals, topic = Totals("q"), list[Record]()
    naive: Counter[str] = Counter()
    for matches, most, stops in steps:
        own = {name: {f"{name}-{id}": n for id, n in of.items()} for name, of in matches.items()}
        totals.add(report(own), 100)
        naive.update({name: sum(of.values()) for name, of in own.items()})
        naive.update({f"{name}/{id}": n for name, of in own.items() for id, n in of.items()})
        topic += written(totals, most)
        if stops:
            topic += written(totals)
            totals = again(topic)
        found = {name: one.deliveries for name, one in subscribers(totals).items()}
        found |= {f"{name}/{id}": n for (name, id), n in of_subscriptions(totals).items()}
        assert {name: n for name, n in found.items() if n} == +naive
