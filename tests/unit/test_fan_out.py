"""The deliveries of an event that very many subscriptions match."""

from __future__ import annotations

from random import Random

import numpy as np
import orjson
import pytest

from matchers.index.segment import Segment
from matchers.index.snapshot import Part
from matchers.language.lowering import Conjunction
from streaming.documents.subscriptions import Subscription
from streaming.index.notes import notes
from streaming.worker import fan_out
from tests.stage import ALICE, ListSink, change, event, pipeline, places, step, work

pytestmark = pytest.mark.kernels


def part(owners: dict[str, str]) -> Part:
    subscriptions = [Subscription(id, subscriber) for id, subscriber in owners.items()]
    about = notes(subscriptions, *places(len(subscriptions)))
    segment = Segment.build([(s.id, [Conjunction({})]) for s in subscriptions], about)
    return Part.of(segment, "scan", {})


def test_matches_come_back_as_they_were_packed() -> None:
    matches = [(3, np.array([0, 2, 9], np.int32)), (0, np.array([1], np.int32))]
    again = fan_out.unpacked(fan_out.packed(matches) + fan_out.packed([(5, np.array([7], np.int32))]))
    assert [(n, p.tolist()) for n, p in again] == [(3, [0, 2, 9]), (0, [1]), (5, [7])]
    assert fan_out.size(fan_out.packed(matches)) == 4
    assert fan_out.unpacked(b"") == []


@pytest.mark.parametrize("seed", range(5))
def test_each_subscriber_comes_once_with_all_its_ids(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fan_out, "SLICE", 3)
    r = Random(seed)
    everybody = [f"s{i}" for i in range(r.choice([1, 3, 7, 20]))]
    parts, matches, expected = [], [], dict[str, list[str]]()
    for number in range(3):
        owners = {f"{number}-{i}": r.choice(everybody) for i in range(r.choice([0, 1, 30]))}
        parts.append(part(owners))
        chosen = sorted(r.sample(range(len(owners)), r.randint(0, len(owners))))
        if chosen:
            matches.append((number, np.array(chosen, np.int32)))
        for i, id in enumerate(parts[-1].segment.ids):
            if i in chosen:
                expected.setdefault(owners[id], []).append(id)
    more = {s: [f"more of {s}"] for s in ("nobody else", *r.sample(everybody, 1))}
    for subscriber, ids in more.items():
        expected.setdefault(subscriber, []).extend(ids)
    given = {subscriber: orjson.dumps(ids).decode() for subscriber, ids in more.items()}
    found = list(fan_out.deliveries(parts, fan_out.packed(matches), given))
    assert len(found) == len(expected)
    assert {s: orjson.loads(ids) for s, ids in found} == {s: sorted(ids) for s, ids in expected.items()}


@pytest.mark.parametrize("shards", [1, 3])
def test_what_many_match_is_delivered_as_what_few_match(shards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def written(many: int) -> list[object]:
        monkeypatch.setattr(fan_out, "FAN_OUT_FROM", many)
        p = pipeline(ListSink())
        p.state.snapshot = p.state.snapshot.__class__(shards=shards, most=2)
        for i in range(12):
            document = {"subscriber": f"s{i % 5}", "pattern": {"x": [{"exists": True}]}}
            step(p, change(i, f"id{i}", document | ({"expires_at": "1970-01-01T00:00:01Z"} if i == 3 else {})))
        step(p, change(12, "id4", None), change(13, "a", ALICE))
        found = step(p, event(0, {"x": 1}, timestamp=2_000), event(1, {"x": 2}), event(2, {}))
        return sorted(map(repr, found))

    few = written(1_000)
    assert written(1) == few
    assert written(4) == few


def test_an_event_that_too_many_match_is_a_dead_letter() -> None:
    p = pipeline(ListSink())
    p.max_matches = 2
    step(p, *(change(i, f"id{i}", {"subscriber": "alice", "pattern": {"x": [i, 9]}}) for i in range(3)))
    letter, delivery = sorted(step(p, event(0, {"x": 9}), event(1, {"x": 1})))
    assert (letter.topic, delivery.topic) == ("dead", "to.alice")
    assert dict(letter.headers)["sluice_reason"] == b"too_many_matches"
    assert dict(letter.headers)["sluice_detail"] == b"3 subscriptions match it; matching.max_per_event is 2"


def test_an_event_that_is_too_large_is_a_dead_letter_and_matches_nothing() -> None:
    p = pipeline(ListSink())
    p.state.max_event_bytes = 20
    step(p, change(0, "a", {"subscriber": "alice", "pattern": {}}))
    large = b'{"x": "' + b"x" * 20 + b'"}'
    letter, delivery = sorted(step(p, event(0, large), event(1, {"x": 1})))
    assert (letter.topic, letter.value, delivery.value) == ("dead", large, b'{"x": 1}')
    assert dict(letter.headers)["sluice_reason"] == b"oversize_event"
    assert dict(letter.headers)["sluice_detail"] == b"29 bytes; events.max_bytes is 20"


def test_much_to_deliver_is_several_transactions_in_the_order_of_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.driver.pipeline.DELIVERED_AT_ONCE", 3)
    sink = ListSink()
    p = pipeline(sink)
    step(p, *(change(i, f"id{i}", {"subscriber": f"s{i}", "pattern": {"x": [1]}}) for i in range(2)))
    sink.transactions.clear()
    rows = [event(i, {"x": i % 2}, partition=q) for q in (0, 1) for i in range(6)]
    p.take(work(p.state, [*rows, event(6, b"no event"), change(2, "id2", ALICE)]))
    reached = [offsets for _, offsets in sink.transactions]
    assert reached == [
        {("events", 0): 3},
        {("events", 0): 5},
        {("events", 0): 7, ("events", 1): 1},
        {("events", 0): 7, ("events", 1): 3},
        {("events", 0): 7, ("events", 1): 5},
        {("events", 0): 7, ("events", 1): 6, ("subs", 0): 3},
    ]
    topics = [sorted(r.topic for r in found) for found, _ in sink.transactions]
    both = ["to.s0", "to.s1"]
    assert topics == [both, both, ["dead", *both], both, both, ["status", *both]]
    assert p.state.positions == {("events", 0): 7} or p.state.positions[0, 0] == 7
