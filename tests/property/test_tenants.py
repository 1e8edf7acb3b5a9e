"""Whatever a tenant writes, its subscriptions deliver to its own subscribers, events that its pattern matches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import orjson
import pytest

from matchers.index.snapshot import Snapshot
from matchers.language import naive
from matchers.language.model import Pattern
from matchers.language.parsing import parse
from streaming.documents.subscriptions import MAX_ID_LENGTH, Rejected, Subscription
from streaming.index import notes
from streaming.tenants import Tenant, Tenants, change_partition
from streaming.worker.compiling import ChangeRecords, Paused, Unsubscribed, compile_changes
from tests.support.doubles.stage import changes

pytestmark = pytest.mark.kernels

DOCUMENTS = 10_000
ACME = Tenant(
    "acme.subs", "acme.status", "acme", prefix="acme-", pattern={"country": ["CH", "DE"], "x": [{"exists": True}]}
)
LIST = Tenant("list.subs", "list.status", "list", subscribers=frozenset({"bob", "acme"}))
OWNER = Tenant("subs", "status", others=frozenset({"acme", "list"}))
TENANTS: Tenants = {tenant.number: tenant for tenant in (OWNER, ACME, LIST)}
ALLOWED: dict[str, Callable[[str], bool]] = {
    "": lambda subscriber: True,
    "acme": lambda subscriber: subscriber.startswith("acme-"),
    "list": lambda subscriber: subscriber in ("bob", "acme"),
}
SUBSCRIBERS = ["acme-1", "acme-", "acme", "acme_1", "Acme-1", "bob", "bob-1", "alice", "b", "-acme-1", "list"]
IDS = ["s1", "s2", "acme/s1", "list/s1", "acme", "/", "acme/", "ä/ö", "other/s1", "x" * MAX_ID_LENGTH]
PATTERNS: list[Any] = [
    {},
    {"country": ["FR"]},
    {"country": ["CH", "FR"]},
    {"country": [{"anything-but": ["CH"]}]},
    {"country": [None], "x": [1]},
    {"x": [{"exists": False}]},
    {"x": [{"numeric": [">", 0]}]},
    {"x": [1]},
    {"$or": [{"country": ["FR"]}, {"y": [1]}]},
    {"$not": {"country": ["CH"]}},
    {"x": 5},  # rejected
]
EVENTS = [
    {field: value for field, value in (("country", country), ("x", x), ("y", y)) if value != "absent"}
    for country in ("CH", "DE", "FR", None, "absent", ["CH", "FR"], "ch")
    for x in (1, -1, "absent", None)
    for y in (1, "absent")
]


def records(r: Random) -> ChangeRecords:
    keys, values, numbers = [], [], []
    for i in range(DOCUMENTS):
        id = r.choice(IDS) if r.random() < 0.3 else f"s{i}"
        absent = {f"z{j}": [{"exists": False}] for j in range(6) if r.random() < 0.5} if r.random() < 0.5 else {}
        document = {"id": id, "subscriber": r.choice(SUBSCRIBERS), "pattern": r.choice(PATTERNS) | absent}
        if r.random() < 0.1:
            document["paused"] = True
        kind = r.random()
        value = None if kind < 0.1 else b"rubbish" if kind < 0.15 else orjson.dumps(document)
        keys.append(id.encode())
        values.append(value)
        numbers.append(change_partition(r.choice(list(TENANTS)), r.randrange(3)))
    made = changes(list(zip(keys, values, strict=True)))
    return replace(made, partition=np.array(numbers, np.int32), tenants=TENANTS)


@cache
def matched(tenant: str, pattern: bytes) -> frozenset[int]:
    """The events that a pattern matches with that of the tenant in it, by the definition."""
    (narrow,) = (parse(t.pattern or {}) for t in TENANTS.values() if t.name == tenant)
    both = Pattern((*parse(orjson.loads(pattern)).parts, *narrow.parts))
    found = [set(ids) for ids in naive.match({"both": both, "the tenant's": narrow}, EVENTS)]
    assert not [ids for ids in found if ids == {"both"}]
    return frozenset(i for i, ids in enumerate(found) if "both" in ids)


def expected(tenant: Tenant, id: str, value: bytes | None) -> tuple[str, str, frozenset[int]] | None:
    """The id, the subscriber and the events of the subscription that a change makes; None if it is to be rejected. A
    deletion has no subscriber."""
    if not tenant.name and id.startswith(("acme/", "list/")):
        return None
    qualified = f"{tenant.name}/{id}" if tenant.name else id
    if value is None:
        return qualified, "", frozenset()
    if value == b"rubbish":
        return None
    document = orjson.loads(value)
    pattern, subscriber = document["pattern"], document["subscriber"]
    if pattern.get("x") == 5 or not ALLOWED[tenant.name](subscriber):
        return None
    events = frozenset[int]() if document.get("paused") else matched(tenant.name, orjson.dumps(pattern))
    return qualified, subscriber, events


@pytest.mark.large
@pytest.mark.parametrize("seed", [1, 2])
def test_of_10_000_documents_each_is_rejected_or_stays_within_its_tenant(seed: int) -> None:
    given = records(Random(seed))
    compiled = compile_changes(given)
    current: dict[str, tuple[str, frozenset[int]]] = {}
    rejected = 0
    for row, outcome in enumerate(compiled.outcomes):
        wanted = expected(given.tenant(row), (given.keys[row] or b"").decode(), given.values[row].as_py())
        if wanted is None:
            assert isinstance(outcome, Rejected), (row, outcome)
            rejected += 1
            continue
        id, subscriber, events = wanted
        if not subscriber:
            assert outcome == Unsubscribed(id)
            current.pop(id, None)
        else:
            assert isinstance(outcome, Subscription | Paused)
            assert (outcome.id, outcome.subscriber) == (id, subscriber)
            current[id] = subscriber, events
    segment = compiled.segment
    assert dict(zip(segment.ids, notes.subscribers(segment), strict=True)) == {id: s for id, (s, _) in current.items()}
    found = Snapshot(algorithm="scan").update(segment).match(EVENTS)
    for number, ids in enumerate(found):
        assert set(ids) == {id for id, (_, events) in current.items() if number in events}, EVENTS[number]
    assert rejected > DOCUMENTS // 4
    assert {id.split("/")[0] for id in current} >= {"acme", "list"}


def test_without_tenants_a_topic_takes_all_ids() -> None:
    (outcome,) = compile_changes(changes([(b"acme/s1", b'{"subscriber": "alice", "pattern": {}}')])).outcomes
    assert outcome == Subscription("acme/s1", "alice")
