"""Deliveries that the driver publishes: under a quota of deliveries, and of several shards."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from streaming.documents import records
from streaming.documents.records import Record
from streaming.driver import pipeline as pipeline_module
from streaming.driver.pipeline import Pipeline, united
from streaming.driver.quotas import REMEMBERED, DeliveryQuota
from streaming.rows import INPUT, PACKED, unpacked
from streaming.worker import fan_out
from tests.stage import ALICE, BOB, NAMES, ListSink, SomeTopics, change, event, state

pytestmark = pytest.mark.kernels


def driver_delivers() -> Pipeline:
    """Its tasks do not publish."""
    return Pipeline(state(), ListSink(), SomeTopics(set()), NAMES)


def step(p: Pipeline, *rows: dict[str, Any]) -> list[Record]:
    return counted_step(p, *rows)[0]


def counted_step(p: Pipeline, *rows: dict[str, Any]) -> tuple[list[Record], int]:
    """The records of the transactions of these rows, and how many deliveries were over the quota."""
    sink: Any = p.sink
    before = len(sink.transactions)
    given = [pa.RecordBatch.from_pylist(list(rows), schema=INPUT)]
    packed = [batch for shard in p.state.work() for batch in shard(given)]
    done = p.take(united(unpacked(pa.Table.from_batches(packed, PACKED))))
    return [r for some, _ in sink.transactions[before:] for r in some], sum(one.over_quota for one in done)


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_shards_together_deliver_what_one_would(shards: int) -> None:
    p = driver_delivers()
    p.state.snapshot = replace(p.state.snapshot, shards=shards, most=2)
    for i in range(12):
        step(p, change(i, f"s{i}", ALICE if i % 3 else BOB))
    found = step(p, event(0, {"x": 1}), event(1, b"no event"), event(2, {"x": 1}))
    assert sorted(r.topic for r in found) == ["dead", "to.alice", "to.alice", "to.bob", "to.bob"]
    ids = {r.topic: json.loads(dict(r.headers)["ce_subscriptionids"]) for r in found if r.topic != "dead"}
    assert ids == {
        "to.alice": sorted(f"s{i}" for i in range(12) if i % 3),
        "to.bob": sorted(f"s{i}" for i in range(0, 12, 3)),
    }
    offsets = [dict(r.headers)["ce_id"] for r in found if r.topic == "to.bob"]
    assert offsets == [b"events-0-0", b"events-0-2"]


@pytest.mark.parametrize("shards", [1, 3])
def test_what_many_match_is_delivered_as_what_few_match(shards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def written(many: int) -> list[object]:
        monkeypatch.setattr(fan_out, "FAN_OUT_FROM", many)
        p = driver_delivers()
        p.state.snapshot = replace(p.state.snapshot, shards=shards, most=2)
        for i in range(12):
            document = {"subscriber": f"s{i % 5}", "pattern": {"x": [{"exists": True}]}}
            step(p, change(i, f"id{i}", document | ({"expires_at": "1970-01-01T00:00:01Z"} if i == 3 else {})))
        step(p, change(12, "id4", None), change(13, "a", ALICE))
        found = step(p, event(0, {"x": 1}, timestamp=2_000), event(1, {"x": 2}), event(2, {}))
        return sorted(map(repr, found))

    few = written(1_000)
    assert written(1) == few
    assert written(4) == few


def deliveries(p: Pipeline, *times_ms: int) -> list[str]:
    """Of events of these times in one batch: the topics that got something, in order."""
    return counted(p, *times_ms)[0]


def counted(p: Pipeline, *times_ms: int) -> tuple[list[str], int]:
    """The same, and how many deliveries were over the quota."""
    begin = p.state.positions.get((0, 0), 0)
    found, over = counted_step(p, *(event(begin + i, {"x": 1}, time) for i, time in enumerate(times_ms)))
    return [r.topic for r in found], over


def limited(most: int, drop: bool = False) -> Pipeline:
    p = driver_delivers()
    p.delivery_quota = DeliveryQuota(most, drop)
    step(p, change(0, "a", ALICE))
    return p


def test_deliveries_are_counted_by_the_second_of_their_event_over_all_batches() -> None:
    p = limited(2)
    first = ["to.alice"] * 3 + ["dead", "to.alice", "dead"]
    assert counted(p, 1_000, 1_999, 2_000, 1_500, 2_999, 2_001) == (first, 2)
    assert counted(p, 2_500, 1_000, 3_000) == (["dead", "dead", "to.alice"], 2)
    assert counted(p, 3_000) == (["to.alice"], 0)


def test_all_transactions_of_a_batch_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_module, "DELIVERED_AT_ONCE", 1)
    p = limited(1)
    assert counted(p, 1_000, 1_000, 1_000, 2_000) == (["to.alice", "dead", "dead", "to.alice"], 2)
    assert len(p.sink.transactions) == 5  # type: ignore[attr-defined]


def test_each_subscriber_has_its_own_deliveries() -> None:
    p = limited(1)
    step(p, change(1, "b", BOB), change(2, "c", BOB))
    topics, over = counted(p, 1_000, 1_000)
    assert (sorted(topics), over) == (["dead", "dead", "to.alice", "to.bob"], 2)


def test_a_delivery_too_many_is_a_dead_letter_with_the_subscriber_and_its_subscriptions() -> None:
    p = limited(1)
    *_, letter = step(p, event(0, {"x": 1}), event(1, {"x": 1}))
    headers = dict(letter.headers)
    assert (letter.topic, letter.value) == ("dead", b'{"x": 1}')
    assert headers["sluice_reason"] == records.OVER_QUOTA.encode()
    assert headers["sluice_detail"] == b"more than 1 deliveries of a second (quotas.deliveries_per_second)"
    assert (headers["sluice_subscriber"], headers["sluice_subscriptionids"]) == (b"alice", b'["a"]')
    assert headers["sluice_origin_offset"] == b"1"
    assert headers["sluice_matchversion"] == b"1"


def test_with_drop_a_delivery_too_many_is_nothing_but_counted() -> None:
    p = limited(1, drop=True)
    assert counted(p, 1_000, 1_000, 1_000, 2_000) == (["to.alice", "to.alice"], 2)


def test_a_transaction_that_is_tried_again_is_counted_once() -> None:
    p = limited(2)
    p.sink.aborts = 3  # type: ignore[attr-defined]
    assert deliveries(p, 1_000) == ["to.alice"]
    assert deliveries(p, 1_000, 1_000) == ["to.alice", "dead"]


def test_late_events_count_with_their_second_for_a_while() -> None:
    p = limited(1)
    deliveries(p, 1_000, 10**15)
    assert deliveries(p, 1_000) == ["dead"]
    deliveries(p, *(1_000 * (2 + i) for i in range(REMEMBERED)))
    assert deliveries(p, 1_000) == ["to.alice"]
    assert len(p.delivery_quota._count) <= REMEMBERED


def test_without_a_quota_nothing_is_counted() -> None:
    p = limited(0)
    assert deliveries(p, *[1_000] * 9) == ["to.alice"] * 9
    assert p.delivery_quota._count == {}
