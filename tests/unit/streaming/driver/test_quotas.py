"""Quotas of subscribers, and the treatment of the excess."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from streaming.documents import records
from streaming.documents.records import Record
from streaming.driver.limits.quotas import SubscriptionQuota
from streaming.driver.pipeline import Pipeline
from streaming.rows import SUBSCRIPTIONS
from streaming.source_topics import SourceTopics
from streaming.state.compaction import Compactor
from streaming.state.state import registered
from streaming.state.store import Store
from streaming.tenants import OWN, Tenant
from tests.support.doubles.stage import ALICE, BOB, AtOnce, ListSink, change, delivered, event, pipeline, step

pytestmark = pytest.mark.kernels

PAUSED = ALICE | {"paused": True}
Changes = Sequence[tuple[str, Any]]

# (name, batches of changes, the statuses of the last batch, who has what then); two subscriptions each at most
BATCHES: list[tuple[str, list[Changes], list[str], dict[str, list[str]]]] = [
    ("as many as may be", [[("a", ALICE), ("b", ALICE)]], ["accepted"] * 2, {"alice": ["a", "b"]}),
    (
        "one more",
        [[("a", ALICE), ("b", ALICE), ("c", ALICE)]],
        ["accepted", "accepted", "rejected"],
        {"alice": ["a", "b"]},
    ),
    ("one more later", [[("a", ALICE), ("b", ALICE)], [("c", ALICE)]], ["rejected"], {"alice": ["a", "b"]}),
    (
        "each subscriber has its own",
        [[("a", ALICE), ("b", ALICE)], [("c", BOB), ("d", BOB)]],
        ["accepted"] * 2,
        {"alice": ["a", "b"], "bob": ["c", "d"]},
    ),
    (
        "replaced by its owner",
        [[("a", ALICE), ("b", ALICE)], [("a", ALICE), ("b", ALICE)]],
        ["accepted"] * 2,
        {"alice": ["a", "b"]},
    ),
    (
        "given to another who has room",
        [[("a", ALICE), ("b", ALICE)], [("a", BOB), ("c", ALICE)]],
        ["accepted"] * 2,
        {"alice": ["b", "c"], "bob": ["a"]},
    ),
    (
        "given to another who has no room",
        [[("a", ALICE), ("b", BOB), ("c", BOB)], [("a", BOB), ("d", ALICE), ("e", ALICE)]],
        ["rejected", "accepted", "rejected"],
        {"alice": ["a", "d"], "bob": ["b", "c"]},
    ),
    (
        "unsubscribed, then another",
        [[("a", ALICE), ("b", ALICE)], [("a", None), ("c", ALICE)]],
        ["unsubscribed", "accepted"],
        {"alice": ["b", "c"]},
    ),
    (
        "another, then unsubscribed",
        [[("a", ALICE), ("b", ALICE)], [("c", ALICE), ("a", None)]],
        ["rejected", "unsubscribed"],
        {"alice": ["b"]},
    ),
    (
        "another, unsubscribed, then the other again",
        [[("a", ALICE), ("b", ALICE)], [("c", ALICE), ("a", None), ("c", ALICE)]],
        ["accepted", "unsubscribed", "accepted"],
        {"alice": ["b", "c"]},
    ),
    (
        "unsubscribed and there again",
        [[("a", ALICE), ("b", ALICE)], [("a", None), ("a", ALICE), ("c", ALICE)]],
        ["unsubscribed", "accepted", "rejected"],
        {"alice": ["a", "b"]},
    ),
    (
        "come and gone in one batch",
        [[("a", ALICE), ("b", ALICE)], [("c", ALICE), ("c", None), ("b", None)], [("d", ALICE)]],
        ["accepted"],
        {"alice": ["a", "d"]},
    ),
    (
        "the last word is rejected, and with it those before",
        [[("a", ALICE), ("b", BOB), ("c", BOB)], [("a", None), ("a", ALICE), ("a", BOB)], [("d", ALICE), ("e", ALICE)]],
        ["accepted", "rejected"],
        {"alice": ["a", "d"], "bob": ["b", "c"]},
    ),
    (
        "unsubscribed that was not there",
        [[("a", ALICE), ("b", ALICE)], [("z", None)], [("c", ALICE)]],
        ["rejected"],
        {"alice": ["a", "b"]},
    ),
    (
        "rejected, then with room",
        [[("a", ALICE), ("b", ALICE)], [("c", ALICE)], [("a", None)], [("c", ALICE)]],
        ["accepted"],
        {"alice": ["b", "c"]},
    ),
    ("paused ones count", [[("a", PAUSED), ("b", PAUSED)], [("c", ALICE)]], ["rejected"], {}),
]


def batches(p: Pipeline, given: Sequence[Changes]) -> list[Record]:
    written: list[Record] = []
    offset = p.state.version
    for changes in given:
        written = step(p, *(change(offset + i, id, document) for i, (id, document) in enumerate(changes)))
        offset += len(changes)
    return written


def statuses(written: Sequence[Record]) -> list[str]:
    return [json.loads(record.value or b"")["status"] for record in written if record.topic == "status"]


@pytest.mark.parametrize(("given", "last", "there"), [case[1:] for case in BATCHES], ids=[case[0] for case in BATCHES])
def test_a_subscriber_has_as_many_subscriptions_as_it_may(
    given: list[Changes], last: list[str], there: dict[str, list[str]]
) -> None:
    p = pipeline(ListSink())
    p.subscription_quota = SubscriptionQuota(2)
    p.subscription_quota.begin(p.state.snapshot)
    written = batches(p, given)
    assert statuses(written) == last
    assert delivered(p.state, event(0, {"x": 1})).get(0, {}) == there
    again = SubscriptionQuota(2)  # what it counted is what is there
    again.begin(p.state.snapshot)
    assert +again._count == p.subscription_quota._count


def test_a_rejected_subscription_is_a_dead_letter_that_says_what_to_do() -> None:
    p = pipeline(ListSink())
    p.subscription_quota = SubscriptionQuota(1)
    *_, status, letter = batches(p, [[("a", ALICE), ("b", ALICE)]])
    reason = "a subscriber may have at most 1 subscriptions (quotas.subscriptions); unsubscribe another first"
    document = json.loads(status.value or b"")
    assert (document["id"], document["status"], document["reason"]) == ("b", "rejected", reason)
    headers = dict(letter.headers)
    assert headers["sluice_reason"] == records.REJECTED_SUBSCRIPTION.encode()
    assert headers["sluice_detail"] == reason.encode()
    assert json.loads(letter.value or b"")["id"] == "b"


def test_what_is_there_at_the_start_counts_even_if_it_is_more_than_may_be() -> None:
    p = pipeline(ListSink())
    batches(p, [[(f"s{i}", ALICE) for i in range(4)], [("s0", None)]])
    p.subscription_quota = SubscriptionQuota(2)
    p.subscription_quota.begin(p.state.snapshot)
    assert statuses(batches(p, [[("s1", None), ("new", ALICE)]])) == ["unsubscribed", "rejected"]
    assert statuses(batches(p, [[("s2", None), ("new", ALICE)]])) == ["unsubscribed", "accepted"]


def test_a_tenant_has_as_many_subscriptions_as_it_may_whoever_gets_them() -> None:
    acme = Tenant("acme.subs", "acme.status", "acme", prefix="a", subscribers=frozenset({"bob"}), max_subscriptions=2)
    known = {OWN: Tenant("subs"), acme.number: acme}
    p = pipeline(ListSink())
    sources = SourceTopics("subs", ["events"], tenants=known)
    p.names, p.settings = replace(p.names, sources=sources), replace(p.settings, tenants=known)
    p.subscription_quota = SubscriptionQuota(0, known)
    p.subscription_quota.begin(p.state.snapshot)

    def said(*changes: tuple[str, Any]) -> list[str]:
        rows = [
            change(next(offsets), id, document) | {"source": SUBSCRIPTIONS + acme.number} for id, document in changes
        ]
        return [json.loads(r.value or b"")["status"] for r in step(p, *rows) if r.topic == "acme.status"]

    offsets = count()
    assert (
        statuses(batches(p, [[(f"s{i}", ALICE) for i in range(4)]])) == ["accepted"] * 4
    )  # the job's own do not count
    assert said(("a", ALICE), ("b", BOB)) == ["accepted"] * 2
    assert said(("c", ALICE), ("b", ALICE)) == ["rejected", "accepted"]
    again = SubscriptionQuota(0, known)
    again.begin(p.state.snapshot)
    assert +again._of_tenant == +p.subscription_quota._of_tenant == {"": 4, "acme": 2}
    assert said(("b", None), ("c", ALICE)) == ["unsubscribed", "accepted"]
    assert registered(p.state.snapshot, ["a", "s0", "acme/a", "acme/b", "acme/c"]).keys() == {"s0", "acme/a", "acme/c"}


def test_without_a_quota_any_number_is_taken() -> None:
    p = pipeline(ListSink())
    p.subscription_quota.begin(p.state.snapshot)
    assert statuses(batches(p, [[(f"s{i}", ALICE) for i in range(9)]])) == ["accepted"] * 9


def test_subscriptions_that_are_there_are_found_with_their_subscribers_and_places() -> None:
    p = pipeline(ListSink())
    batches(p, [[("a", ALICE), ("b", BOB), ("c", BOB)], [("c", None)], [("b", ALICE)]])
    assert registered(p.state.snapshot, ["a", "b", "c", "nobody"]) == {"a": ("alice", (0, 0)), "b": ("alice", (0, 4))}
    assert registered(p.state.snapshot, []) == {}


def test_what_a_quota_rejected_is_rejected_again_after_a_crash(tmp_path: Path) -> None:
    store = Store(tmp_path)
    p = pipeline(ListSink())
    p.state.compactor = Compactor(store, AtOnce())
    p.subscription_quota = SubscriptionQuota(1)
    step(p, change(0, "a", ALICE), change(1, "b", ALICE), change(2, "c", BOB))
    assert store.rejected() == {(0, 1)}
    assert Store(tmp_path).rejected() == {(0, 1)}
    p.state.close()
    assert store.rejected() == set()
