"""Many operators are looked up at once, with the answers that asking each of them gives."""

from __future__ import annotations

import json
import pickle
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchers import Index, MatchingError
from matchers.language import operators
from matchers.language.explanation import explain
from matchers.language.lookup import array_test, closed_test, count_single, met, value_test
from matchers.language.model import ABSENT, Constraint, Contains, Operator
from matchers.language.parsing import parse
from tests.support.generators.strategies import conditions, scalars

NASTY: list[Any] = [nan, -0.0, 0, 0.0, 2**53 + 1, 2.0**53, 10**400, -(10**400), inf, -inf, 5e-324, True, False, None]
NASTY += ["", "a", "A", "ß", "ss", "SS", "é", "e\u0301", "İ", "😀", "\U0010ffff", "\x00", "1", "01", "1e999", "5.0"]
VALUES = scalars | st.sampled_from(NASTY)
RANGES = st.builds(lambda a, b: {"between": [min(a, b), max(a, b)]}, st.integers(0, 12), st.integers(0, 12))
ENTRIES = (
    st.lists(conditions, min_size=1, max_size=6)
    | st.lists(RANGES | st.integers(0, 12), min_size=1, max_size=12)
    | st.lists(st.sampled_from([v for v in NASTY if type(v) in (str, bool) or v is None]), min_size=1, max_size=12)
)
ARRAYS = st.lists(VALUES, max_size=8) | st.lists(st.integers(0, 12), max_size=8)


def parts(name: str, entries: list[Any]) -> list[Contains]:
    found = [part for part in parse({"x": [{name: entries}]}).parts if isinstance(part, Contains)]
    assert found
    return found


@settings(max_examples=4 * settings().max_examples)
@given(name=st.sampled_from(["contains-all", "contains-none", "contains-exactly"]), entries=ENTRIES, values=ARRAYS)
def test_arrays_are_tested_as_they_are_defined(name: str, entries: list[Any], values: list[Any]) -> None:
    for part in parts(name, entries):
        opposite = Contains(part.path, part.operators, not part.is_wanted, part.each)
        for asked in (part, opposite):
            assert array_test(asked)(values) is asked.accepts(values)
        assert met(part.operators, values) == [any(map(operator.holds, values)) for operator in part.operators]


@given(entries=ENTRIES, values=st.lists(VALUES | st.just(ABSENT), max_size=8))
def test_values_are_tested_as_they_are_defined(entries: list[Any], values: list[Any]) -> None:
    (part,) = parts("contains-none", entries)
    test = value_test(part.operators)
    for value in values:
        assert test(value) is any(operator.holds(value) for operator in part.operators), value


def test_the_conditions_of_an_operator_are_counted_with_one_constraint(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Operator] = []
    constraint = operators.Wildcard.constraint

    def counted(operator: operators.Wildcard) -> Constraint:
        made.append(operator)
        return constraint(operator)

    monkeypatch.setattr(operators.Wildcard, "constraint", counted)
    assert count_single([operators.Wildcard(("a", "b", "c"))]) == len(made) == 1


@given(
    intervals=st.lists(st.tuples(st.floats(-3, 3) | st.just(-inf), st.floats(-3, 3) | st.just(inf)), max_size=8),
    number=st.floats(-4, 4),
)
def test_intervals_are_tested_as_they_are_defined(intervals: list[tuple[float, float]], number: float) -> None:
    assert closed_test(intervals)(number) is any(low <= number <= high for low, high in intervals)


MANY = 3_000
LISTS: dict[str, list[Any]] = {
    "numbers": list(range(MANY)),
    "texts": [f"t{i}" for i in range(MANY)],
    "ranges": [{"numeric": [">", i, "<", i + 2]} for i in range(MANY)],
    "nested ranges": [{"numeric": [">", -i]} for i in range(MANY)],
    "prefixes": [{"prefix": f"t{i}"} for i in range(MANY)],
    "suffixes": [{"suffix": f"{i}t"} for i in range(MANY)],
    "cases": [{"equals-ignore-case": f"T{i}"} for i in range(MANY)],
}


@pytest.mark.parametrize("name", ["contains-all", "contains-none", "contains-exactly"])
@pytest.mark.parametrize("entries", LISTS.values(), ids=list(LISTS))
@pytest.mark.parametrize("shape", ["array", "objects", "a value"])
def test_no_operator_is_asked_about_each_value(
    name: str, entries: list[Any], shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost of an event is that of its values and of the list, not of their product."""
    pattern = {"x": {"y": [{name: entries}]}, "$or": [{"x": {"z": [*range(MANY)]}}, {"x": {"z": [{"exists": False}]}}]}
    values = [i if isinstance(entries[0], int) or "numeric" in entries[0] else f"t{i}t" for i in range(MANY)]
    event = {"x": {"y": values} if shape == "array" else {"y": 5} if shape == "a value" else [{"y": v} for v in values]}

    def asked(operator: object, value: object) -> bool:
        raise AssertionError(f"{operator} was asked about {value}")

    for kind in (operators.Equals, operators.Numeric, operators.Prefix, operators.Suffix, operators.EqualsIgnoreCase):
        monkeypatch.setattr(kind, "holds", asked)
    index = Index.build({"s": pattern})
    index.match([json.dumps(event).encode()])
    index.match([json.dumps(event).encode()] * 20)
    explain(parse(pattern), event)


@pytest.mark.parametrize(
    "entries",
    [
        [{"contains-all": [{"wildcard": f"a*{i}*b"} for i in range(100)]}],
        [{"contains-none": [{"wildcard": f"a*{i}*b"} for i in range(100)]}],
        [{"contains-exactly": [{"anything-but": {"wildcard": f"a*{i}*b"}} for i in range(100)]}],
        [{"contains-all": [{"anything-but": i} for i in range(100)]}],
        [{"anything-but": {"wildcard": [f"a*{i}*b" for i in range(101)]}}],
        [{"anything-but": [{"anything-but": {"regex": f"a.*{i}.*b"}} for i in range(101)]}],
        [{"$and": [{"contains-all": ["a"]} for _ in range(101)]}],
        [{"$and": [{"wildcard": f"a*{i}*b"} for i in range(101)]}],
        [{"$and": [{"compare-field": [">", "y"]} for _ in range(101)]}],
    ],
    ids=lambda entries: json.dumps(entries)[:40],
)
def test_conditions_that_are_checked_one_by_one_are_limited(entries: list[Any]) -> None:
    """Each asks about each value of an array, so the cost is their number times that of the values."""
    with pytest.raises(MatchingError, match="field x: has more than 100 conditions that are checked one by one"):
        Index.build({"s": {"x": entries}})
    ((name, listed),) = entries[0].items()
    some = {"wildcard": listed["wildcard"][:49]} if isinstance(listed, dict) else listed[:49]
    assert len(Index.build({"s": {"x": [{name: some}]}})) == 1


def test_an_index_whose_tests_are_kept_can_be_sent_elsewhere() -> None:
    index = Index.build({"s": {"x": [{"contains-all": [1, {"wildcard": "a*b*c"}]}]}})
    event = {"x": ["abc", 1]}
    assert index.match([event]) == [["s"]]
    assert pickle.loads(pickle.dumps(index)).match([event]) == [["s"]]
