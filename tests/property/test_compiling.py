"""Subscriptions compiled together by shape equal those compiled one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchers.index.segment import Segment
from matchers.index.snapshot import Snapshot
from matchers.language import naive
from matchers.language.lowering import MAX_RANGES, lower
from matchers.language.parsing import parse
from streaming.documents.subscriptions import Change, Refused, Subscription, read_change
from streaming.index.notes import NEVER
from streaming.worker.compiling import Paused, Withdrawn, compile_changes
from tests import workloads
from tests.stage import changes

pytestmark = pytest.mark.kernels
seeds = st.integers(0, 2**32)


def varied(r: Random, node: Any) -> Any:
    """The same shape with other values, mostly."""
    if isinstance(node, dict):
        return {k: varied(r, v) for k, v in node.items()}
    if isinstance(node, list):
        return [varied(r, v) for v in node]
    if isinstance(node, bool | None) or node in ("<", "<=", ">", ">=", "="):
        return node
    if isinstance(node, str):
        return workloads.text(r) if r.random() < 0.9 else workloads.literal(r)
    return workloads.number(r) if r.random() < 0.9 else workloads.literal(r)


def records(r: Random) -> list[tuple[bytes | None, bytes | None]]:
    found: list[tuple[bytes | None, bytes | None]] = []
    for _ in range(r.randint(1, 3)):
        pattern = workloads.fields(r, r.choice([0, 0, 2]))
        for _ in range(r.choice([2, 12])):
            id = f"s{r.randint(0, 15)}"
            document: dict[str, Any] = {"id": id, "subscriber": r.choice(["alice", "bob", "no such name"])}
            document["pattern"] = varied(r, pattern)
            if r.random() < 0.1:
                del document[r.choice(list(document))]
            if r.random() < 0.05:
                document["expires_at"] = "2030-01-01T00:00:00Z"
            if r.random() < 0.05:
                document["paused"] = r.random() < 0.8
            value = json.dumps(document, ensure_ascii=r.random() < 0.2).encode("utf-8", "surrogatepass")
            if r.random() < 0.05:
                value = value[: r.randrange(len(value))]
            key = r.choice([None, id.encode(), id.encode(), b"other", b"\xff"])
            found.append((key, None if r.random() < 0.1 else value))
    return found


def one_by_one(key: bytes | None, value: bytes | None) -> Change | Refused:
    try:
        return read_change(key, value)
    except Refused as refused:
        return refused


@given(seed=seeds)
def test_compiled_together_or_one_by_one(seed: int) -> None:
    given = records(Random(seed))
    compiled = compile_changes(changes(given))
    expected: dict[str, tuple[Subscription, Any]] = {}
    for (key, value), outcome in zip(given, compiled.outcomes, strict=True):
        change = one_by_one(key, value)
        if isinstance(change, Refused):
            assert isinstance(outcome, Refused)
            assert (outcome.id, str(outcome)) == (change.id, str(change))
            continue
        expected.pop(change.subscription.id, None)
        if change.conjunctions is None:
            assert outcome == Withdrawn(change.subscription.id)
        elif change.paused:
            assert outcome == Paused(change.subscription.id, change.subscription.subscriber)
            expected[change.subscription.id] = (change.subscription, None)
        else:
            assert tuple(outcome) == tuple(change.subscription)  # type: ignore[arg-type]
            assert value is not None
            expected[change.subscription.id] = (change.subscription, orjson.loads(value)["pattern"])
    segment = compiled.segment
    ends = [None if end == NEVER else end for end in segment.notes["expires_at_ms"].tolist()]  # type: ignore[union-attr]
    found_subscriptions = zip(segment.ids, segment.notes["subscriber"], ends, strict=True)
    assert sorted(found_subscriptions) == sorted(tuple(s) for s, _ in expected.values())

    r = Random(seed)
    events = [workloads.event(r) for _ in range(5)]
    found = Snapshot().update(compiled.segment).match(events)
    patterns = {id: parse(pattern) for id, (_, pattern) in expected.items() if pattern is not None}
    assert [sorted(ids) for ids in found] == [sorted(ids) for ids in naive.match(patterns, events)]


SHAPES: list[Callable[[Random], Any]] = [
    lambda r: [workloads.text(r)],
    lambda r: [workloads.number(r), workloads.number(r)],
    lambda r: [{"prefix": workloads.text(r)}],
    lambda r: [{"prefix": workloads.text(r)}, workloads.text(r), None, {"exists": False}],
    lambda r: [{"prefix": {"equals-ignore-case": workloads.text(r)}}],
    lambda r: [{"suffix": workloads.text(r)}],
    lambda r: [{"numeric": [">", workloads.number(r), "<", workloads.number(r)]}],
    lambda r: [{"numeric": ["<=", workloads.number(r), ">=", workloads.number(r)]}, workloads.number(r)],
    lambda r: [{"between": [workloads.number(r), workloads.number(r)]}, workloads.text(r)],
    lambda r: [True, {"exists": True}],
    lambda r: [{"anything-but": [workloads.text(r), workloads.number(r)]}],
    lambda r: [{"$and": [{"prefix": workloads.text(r)}]}],
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_means_what_its_documents_mean(shape: Callable[[Random], Any]) -> None:
    r = Random(7)
    patterns = {f"s{i}": {"x": shape(r), "y": {"z": shape(r)}} for i in range(60)}
    documents = [{"subscriber": "alice", "pattern": p} for p in patterns.values()]
    values = [json.dumps(d).encode() for d in documents]
    segment = compile_changes(changes([(id.encode(), v) for id, v in zip(patterns, values, strict=True)])).segment
    events = [
        {"x": r.choice([workloads.text, workloads.number])(r), "y": {"z": workloads.literal(r)}} for _ in range(300)
    ]
    found = Snapshot().update(segment).match(events)
    parsed = {id: parse(pattern) for id, pattern in patterns.items()}
    assert [sorted(ids) for ids in found] == [sorted(ids) for ids in naive.match(parsed, events)]


def test_one_of_many_of_a_shape_is_refused_alone() -> None:
    numbers = [*range(12), 2**53 + 1, 2**53]
    values = [json.dumps({"id": f"s{n}", "subscriber": "alice", "pattern": {"x": [n]}}).encode() for n in numbers]
    outcomes = compile_changes(changes([(None, value) for value in values])).outcomes
    assert [type(outcome) for outcome in outcomes] == [*([Subscription] * 12), Refused, Subscription]


def test_many_of_one_shape_are_compiled_as_columns() -> None:
    documents = [
        {"id": f"s{i}", "subscriber": "alice", "pattern": {"symbol": [f"S{i % 3}"], "price": [{"numeric": [">", i]}]}}
        for i in range(20)
    ]
    values = [json.dumps(d).encode() for d in documents]
    segment = compile_changes(changes([(None, value) for value in values])).segment
    expected = Segment.build((str(d["id"]), lower(parse(d["pattern"]))) for d in documents)
    for name in ("subscription", "column", "low", "high"):
        assert getattr(segment.table, name).tolist() == getattr(expected.table, name).tolist()
    assert segment.vocabulary.columns == expected.vocabulary.columns
    assert segment.vocabulary.cuts == expected.vocabulary.cuts


def test_many_of_one_shape_that_are_too_large_are_refused_as_each_alone_is() -> None:
    numbers = [*range(10)] * (MAX_RANGES // 10 + 1)
    values = [json.dumps({"id": f"s{i}", "subscriber": "a", "pattern": {"x": numbers}}).encode() for i in range(8)]
    outcomes = compile_changes(changes([(None, value) for value in values])).outcomes
    assert [type(outcome) for outcome in outcomes] == [Refused] * 8
