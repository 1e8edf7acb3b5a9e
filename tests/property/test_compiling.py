"""Subscriptions compiled together, by shape or by member, equal those compiled one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchers import Index, MatchingError, PatternError
from matchers.index import compiling
from matchers.index.compiling import pattern_of
from matchers.index.segment import Segment
from matchers.index.snapshot import Snapshot
from matchers.index.templates import FEWEST_DOCUMENTS
from matchers.language import naive
from matchers.language.lowering import MAX_RANGES, lower
from matchers.language.model import Pattern
from matchers.language.parsing import parse
from streaming.documents.subscriptions import Change, Rejected, Subscription, read_change
from streaming.index.notes import NEVER
from streaming.worker.compiling import Paused, Unsubscribed, compile_changes
from tests.support.doubles.stage import changes
from tests.support.generators import workloads
from tests.support.generators.strategies import SYMBOLS, choice, events_near, fields, numbers, scalars, texts

pytestmark = pytest.mark.kernels


Record = tuple[bytes | None, bytes | None]  # key and value


ids = st.sampled_from([f"s{i}" for i in range(16)])
subscribers = st.sampled_from(["alice", "bob", "no such name"])
other_text, other_number = choice(*[texts] * 20, scalars), choice(*[numbers] * 20, scalars)
HARD_TO_READ: dict[str, Any] = {'a"\\b{': [1, 2], "{,}:": ["x"], "\\": [{"prefix": "y,"}]}
seldom = st.sampled_from([*[False] * 4, True])
oddities = st.sampled_from(
    [
        *[None] * 60,
        *["deleted", "cut short", "without id", "without subscriber", "without pattern"],
        *[{"expires_at": "2030-01-01T00:00:00Z"}, {"paused": True}, {"paused": False}],
    ]
)


def varied(draw: st.DrawFn, node: Any) -> Any:
    """Return the same shape, mostly with other values."""
    if isinstance(node, dict):
        return {k: varied(draw, v) for k, v in node.items()}
    if isinstance(node, list):
        return [varied(draw, v) for v in node]
    if isinstance(node, bool | None) or node in SYMBOLS:
        return node
    return draw(other_text if isinstance(node, str) else other_number)


@st.composite
def records(draw: st.DrawFn, shape: dict[str, Any]) -> Record:
    """A change, mostly one that adds a pattern of this shape."""
    id, odd = draw(ids), draw(oddities)
    document = {"id": id, "subscriber": draw(subscribers), "pattern": varied(draw, shape)}
    if isinstance(odd, dict):
        document |= odd
    elif isinstance(odd, str):
        document.pop(odd.removeprefix("without "), None)
    value = json.dumps(document, ensure_ascii=draw(seldom)).encode("utf-8", "surrogatepass")
    key = draw(st.sampled_from([None, id.encode(), id.encode(), b"other", b"\xff"]))
    return key, None if odd == "deleted" else value[: draw(st.integers(0, 60))] if odd == "cut short" else value


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Record], list[dict[str, Any]]]:
    """Changes of up to three shapes, of each a few or as many as are compiled as columns, and of patterns that choose
    some of a few members; and events."""
    shapes = draw(st.lists(choice(fields(0), fields(0), fields(2)), min_size=1, max_size=3))
    found: list[Record] = []
    for shape in shapes:
        one = records(shape)
        many = st.lists(one, min_size=2 * FEWEST_DOCUMENTS, max_size=2 * FEWEST_DOCUMENTS + 4)
        found += draw(st.lists(one, max_size=3) | many)
    if draw(st.booleans()):
        pool = {**shapes[0], **draw(fields(0)), **HARD_TO_READ}
        some = st.lists(st.sampled_from(sorted(pool)), unique=True, max_size=4)
        chosen = draw(st.lists(some, min_size=2 * FEWEST_DOCUMENTS, max_size=4 * FEWEST_DOCUMENTS))
        found += [draw(records({name: pool[name] for name in names})) for names in chosen]
        shapes.append(pool)
    return found, draw(st.lists(events_near(shapes), min_size=1, max_size=5))


def one_by_one(key: bytes | None, value: bytes | None) -> Change | Rejected:
    try:
        return read_change(key, value)
    except Rejected as rejected:
        return rejected


@given(history=histories())
def test_compiled_together_or_one_by_one(history: tuple[list[Record], list[dict[str, Any]]]) -> None:
    given, events = history
    compiled = compile_changes(changes(given))
    expected: dict[str, tuple[Subscription, Any]] = {}
    for (key, value), outcome in zip(given, compiled.outcomes, strict=True):
        change = one_by_one(key, value)
        if isinstance(change, Rejected):
            assert isinstance(outcome, Rejected)
            assert (outcome.id, str(outcome)) == (change.id, str(change))
            continue
        expected.pop(change.subscription.id, None)
        if change.conjunctions is None:
            assert outcome == Unsubscribed(change.subscription.id)
        elif change.paused:
            assert outcome == Paused(change.subscription.id, change.subscription.subscriber)
            expected[change.subscription.id] = (change.subscription, None)
        else:
            assert isinstance(outcome, Subscription)
            assert tuple(outcome) == tuple(change.subscription)
            assert value is not None
            expected[change.subscription.id] = (change.subscription, orjson.loads(value)["pattern"])
    segment = compiled.segment
    ends = [None if end == NEVER else end for end in segment.notes["expires_at_ms"]]
    found_subscriptions = zip(segment.ids, segment.notes["subscriber"], ends, strict=True)
    assert sorted(found_subscriptions) == sorted(tuple(s) for s, _ in expected.values())

    found = Snapshot().update(compiled.segment).match(events)
    patterns = {id: parse(pattern) for id, (_, pattern) in expected.items() if pattern is not None}
    assert [sorted(ids) for ids in found] == [sorted(ids) for ids in naive.match(patterns, events)]


@st.composite
def libraries(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Patterns of up to three shapes, of each a few or as many as are compiled as columns; and events."""
    shapes = draw(st.lists(choice(fields(0), fields(0), fields(2)), min_size=1, max_size=3))
    drawn: list[Any] = []
    for shape in shapes:
        one = st.builds(lambda: varied(draw, shape))  # noqa: B023 - it is drawn at once
        drawn += draw(
            st.lists(one, max_size=3) | st.lists(one, min_size=2 * FEWEST_DOCUMENTS, max_size=2 * FEWEST_DOCUMENTS + 4)
        )
    patterns = {f"s{i}": pattern for i, pattern in enumerate(drawn) if usable(pattern)}
    return patterns, draw(st.lists(events_near(shapes), min_size=1, max_size=5))


@st.composite
def mixtures(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Patterns that each choose some of a few members, whose names may be hard to read; and events."""
    pool = {**draw(choice(fields(0), fields(0), fields(2))), **draw(fields(0)), **HARD_TO_READ}
    members = st.lists(st.sampled_from(sorted(pool)), unique=True, max_size=5)
    chosen = draw(st.lists(members, min_size=2 * FEWEST_DOCUMENTS, max_size=5 * FEWEST_DOCUMENTS))
    drawn = [varied(draw, {name: pool[name] for name in names}) for names in chosen]
    patterns = {f"s{i}": pattern for i, pattern in enumerate(drawn) if usable(pattern)}
    return patterns, draw(st.lists(events_near([pool, *drawn[:2]]), min_size=1, max_size=5))


def usable(pattern: Any) -> bool:
    try:
        lower(parse(pattern))
    except PatternError:
        return False
    return True


@given(library=libraries() | mixtures())
def test_an_index_is_built_of_many_patterns_as_of_one_after_the_other(
    library: tuple[dict[str, Any], list[dict[str, Any]]],
) -> None:
    patterns, events = library
    index = Index.build(patterns)
    parsed = {id: parse(pattern) for id, pattern in patterns.items()}
    assert index.match(events) == [sorted(ids) for ids in naive.match(parsed, events)]
    for part in index.snapshot.parts:
        assert {id: pattern_of(part.segment, i) for i, id in enumerate(part.ids)} == parsed


def test_patterns_of_many_shapes_are_compiled_by_their_members(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"f{i}" for i in range(8)]
    members = {n: [f"x{b}", "y"] if b % 2 else [b, {"numeric": [">", 7]}] for b, n in enumerate(names)}
    of_shape = {f"s{i}": {n: members[n] for b, n in enumerate(names) if i >> b & 1} for i in range(1, 200)}
    others = {"none": {}, "or": {"$or": [{"f0": [1]}, {"f1": [1]}]}, "rare": {"f0": [1], "g": ["x"]}}
    left: list[Any] = []

    def parsed(pattern: Any) -> Pattern:
        left.append(pattern)
        return parse(pattern)

    monkeypatch.setattr(compiling, "parse", parsed)
    segment = compiling.compiled(of_shape | others)
    assert [pattern for pattern in left if pattern in others.values()] == list(others.values())
    assert len(left) < 3 + 2 * len(names), "the rest are shapes of members"
    assert sorted(segment.ids) == sorted(of_shape | others)


def test_a_value_that_compares_is_a_value_like_others() -> None:
    """`<` stays in the shape of a document, since it may be an operator."""
    patterns = {f"s{i}": {"op": ["<", {"prefix": ">="}], "x": [i]} for i in range(2 * FEWEST_DOCUMENTS)}
    assert Index.build(patterns).match([{"op": "<", "x": 3}, {"op": ">=1", "x": 3}, {"op": "=", "x": 3}]) == [
        *(["s3"], ["s3"], [])
    ]
    values = [json.dumps({"id": "<", "subscriber": "alice", "pattern": {"x": [i]}}).encode() for i in range(20)]
    assert {type(o) for o in compile_changes(changes([(None, value) for value in values])).outcomes} == {Subscription}


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
    """Many documents of a shape, by seed, are compiled as columns, and many events hit the edges of their ranges."""
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


def test_one_of_many_of_a_shape_is_rejected_alone() -> None:
    numbers = [*range(12), 2**53 + 1, 2**53]
    values = [json.dumps({"id": f"s{n}", "subscriber": "alice", "pattern": {"x": [n]}}).encode() for n in numbers]
    outcomes = compile_changes(changes([(None, value) for value in values])).outcomes
    assert [type(outcome) for outcome in outcomes] == [*([Subscription] * 12), Rejected, Subscription]


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


@pytest.mark.large
def test_many_of_one_shape_that_are_too_large_are_rejected_as_each_alone_is() -> None:
    numbers = [*range(10)] * (MAX_RANGES // 10 + 1)
    values = [json.dumps({"id": f"s{i}", "subscriber": "a", "pattern": {"x": numbers}}).encode() for i in range(8)]
    outcomes = compile_changes(changes([(None, value) for value in values])).outcomes
    assert [type(outcome) for outcome in outcomes] == [Rejected] * 8


@pytest.mark.large
def test_members_that_are_too_large_together_are_rejected() -> None:
    """No two patterns have one shape, and each member is small enough by itself."""
    half = [*range(10)] * (MAX_RANGES // 20 + 1)
    patterns = {f"s{i}": {"x": half, "y": half} | {f"z{j}": [1] for j in range(4) if i >> j & 1} for i in range(16)}
    with pytest.raises(MatchingError, match="more than 100000 values and ranges"):
        Index.build(patterns)


@pytest.mark.parametrize("number", ["9" * 500, "-" + "9" * 500, "1e999", str(2**64), str(2**64 + 1), str(2**53 + 1)])
def test_numbers_that_no_double_is_are_rejected_in_patterns_of_many_shapes(number: str) -> None:
    """A writer of JSON may write infinity as null."""
    values = [
        f'{{"id": "s{i}", "subscriber": "a", "pattern": {{"x": [{number}], {others}"y": [1]}}}}'.encode()
        for i in range(16)
        for others in ["".join(f'"z{j}": [1], ' for j in range(4) if i >> j & 1)]
    ]
    outcomes = compile_changes(changes([(None, value) for value in values])).outcomes
    whole = number == str(2**64)  # a double is exactly that
    assert [type(outcome) for outcome in outcomes] == [Subscription if whole else Rejected] * 16
