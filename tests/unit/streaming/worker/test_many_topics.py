"""Tasks read events of several topics: each has its codec, its places and its names, whatever is beside it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from streaming.driver.limits.quotas import DeliveryQuota
from streaming.driver.pipeline import Pipeline
from streaming.rows import EVENTS, SUBSCRIPTIONS
from streaming.source_topics import SourceTopics
from streaming.worker.epoch import Epoch
from tests.support.doubles.stage import (
    ALICE,
    BOB,
    NAMES,
    ListSink,
    change,
    event,
    headers_of,
    pipeline,
    sink_of,
    step,
)

pytestmark = pytest.mark.kernels

ORDERS, TRADES = EVENTS, EVENTS + 1
SOURCES = SourceTopics(
    "subs", ["orders", "trades"], by_topic=True, codec_of=lambda topic: "json" if topic == "orders" else "cloudevents"
)


def order(offset: int, value: Any) -> dict[str, Any]:
    return event(offset, value) | {"source": ORDERS}


def trade(offset: int, value: Any) -> dict[str, Any]:
    return event(offset, value) | {"source": TRADES}


def in_cloud(row: dict[str, Any]) -> dict[str, Any]:
    """Return the event as a CloudEvent in binary mode."""
    attributes = {"specversion": b"1.0", "id": b"%d" % row["offset"], "source": b"here", "type": b"trade"}
    return row | {"headers": [{"key": f"ce_{name}", "value": value} for name, value in attributes.items()]}


def reading_both() -> Pipeline:
    p = pipeline(ListSink())
    p.names = replace(NAMES, sources=SOURCES)
    p.settings = replace(p.settings, topics=SOURCES.events)
    p.state.positions = {(ORDERS, 0): 0, (TRADES, 0): 0}
    return p


def test_each_topic_has_its_codec_and_its_names_and_all_share_a_transaction() -> None:
    p = reading_both()
    of_trades = {"subscriber": "carol", "pattern": {"$topic": ["trades"], "data": {"x": [1]}}}
    step(p, change(0, "a", ALICE), change(1, "c", of_trades))
    before = len(sink_of(p).transactions)
    written = [(5, {"x": 1}), (6, b"{"), (7, {"x": 1})]
    rows = [row for offset, value in written for row in (order(offset, value), in_cloud(trade(offset, value)))]
    found = step(p, *rows)
    (transaction,) = sink_of(p).transactions[before:]
    assert dict(transaction[1]) == {("orders", 0): 8, ("trades", 0): 8}
    assert p.state.positions == {(ORDERS, 0): 8, (TRADES, 0): 8, (SUBSCRIPTIONS, 0): 2}
    letters = [headers_of(record) for record in found if record.topic == "dead"]
    assert Counter((h["sluice_origin_topic"], h["sluice_origin_offset"]) for h in letters) == {
        (b"orders", b"6"): 1,
        (b"trades", b"6"): 1,
    }
    alice, carol = ([headers_of(r) for r in found if r.topic == topic] for topic in ("to.alice", "to.carol"))
    assert [(h["ce_source"], h["ce_id"]) for h in alice] == [
        (b"kafka:orders", b"orders-0-5"),
        (b"kafka:orders", b"orders-0-7"),
    ]
    assert [(h["ce_source"], h["ce_id"]) for h in carol] == [(b"here", b"5"), (b"here", b"7")]


def test_places_of_two_topics_are_not_confused() -> None:
    p = reading_both()
    p.settings = p.settings.as_json()
    step(p, change(0, "b", BOB))
    rows = [row(n, {"x": n}) for n in range(4) for row in (order, trade)]
    found = step(p, *rows, most=3)
    ids = [headers_of(record)["ce_id"].decode() for record in found]
    assert Counter(ids) == Counter(f"{topic}-0-{n}" for topic in ("orders", "trades") for n in range(4))
    for topic in ("orders", "trades"):
        assert [id for id in ids if id.startswith(topic)] == [f"{topic}-0-{n}" for n in range(4)]
    assert step(p, *rows) == [], "all of it was committed"
    assert [headers_of(r)["ce_id"] for r in step(p, order(3, {"x": 1}), trade(4, {"x": 1}))] == [b"trades-0-4"]


def test_a_status_names_topics_only_where_there_may_be_several() -> None:
    p = reading_both()
    step(p, order(4, {"x": 1}))
    (status,) = step(p, change(0, "b", BOB))
    assert b'"in_force_from":{"orders":{"0":5},"trades":{"0":0}}' in (status.value or b"")
    p = pipeline(ListSink())
    step(p, event(4, {"x": 1}))
    (status,) = step(p, change(0, "b", BOB))
    assert b'"in_force_from":{"0":5}' in (status.value or b"")


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_quota_counts_the_events_of_all_topics_and_lets_each_have_its_share(most: int) -> None:
    """Two topics have the same partition and second, and each has a share of its own."""
    p = reading_both()
    p.settings = p.settings.as_json()
    p.delivery_quota = DeliveryQuota(most)
    step(p, change(0, "a", ALICE))
    found = step(p, order(0, {"x": 1}), order(1, {"x": 1}), trade(0, {"x": 1}), trade(1, {"x": 1}))
    assert Counter(record.topic for record in found) == {"to.alice": most, "dead": 4 - most}
    ids = [headers_of(record)["ce_id"] for record in found if record.topic == "to.alice"]
    assert ids == [b"orders-0-0", b"orders-0-1", b"trades-0-0"][:most]


def test_partitions_of_all_topics_are_dealt_out_to_tasks_one_by_one() -> None:
    positions = dict.fromkeys([(ORDERS, 0), (TRADES, 0), (TRADES, 1), (SUBSCRIPTIONS, 0)], 0)
    epoch = Epoch(2, SOURCES.names, ends={})
    first, second = (epoch._of_task(number, positions) for number in (0, 1))
    assert first.keys() == {(ORDERS, 0), (TRADES, 1), (SUBSCRIPTIONS, 0)}
    assert second.keys() == {(TRADES, 0)}
