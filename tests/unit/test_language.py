"""The language, case by case: the definition, every algorithm, and the reasons for what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from matchers import ALGORITHMS, Index, MatchingError, PatternError, naive
from matchers.language import parse
from matchers.lowering import MAX_ALTERNATIVES, lower
from tests.algorithms import EXACTLY
from tests.cases import CASES, REFUSED

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize(("pattern", "event", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_definition(pattern: dict[str, Any], event: dict[str, Any], expected: bool) -> None:
    assert naive.matches(parse(pattern), event) is expected


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_decides_every_case_alike(name: str) -> None:
    index = Index.build({case: pattern for case, pattern, _, _ in CASES}, algorithm=name, **EXACTLY[name])
    for case, _, event, expected in CASES:
        assert (case in index.match([event])[0]) is expected, case


@pytest.mark.parametrize(("pattern", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_what_is_refused_and_why(pattern: Any, reason: str) -> None:
    with pytest.raises(PatternError) as error:
        parse(pattern)
    assert reason in str(error.value)


def test_deep_nesting_is_refused() -> None:
    pattern: Any = [1]
    for _ in range(10_000):
        pattern = {"x": pattern}
    with pytest.raises(PatternError, match="nested deeper"):
        parse(pattern)


def test_too_many_alternatives_are_refused_before_they_are_made() -> None:
    mixed = [{"suffix": "a"}, "b"]
    assert len(lower(parse({str(i): mixed for i in range(9)}))) == 512 <= MAX_ALTERNATIVES
    hostile = [
        {str(i): mixed for i in range(1_000)},
        {"$or": [{"x": [i]} for i in range(10_000)]},
        {str(i): {"$or": [{"x": [1]}, {"y": [1]}]} for i in range(1_000)},
        {"$or": [{"x": mixed, "y": mixed, "z": mixed, "w": mixed}] * 100},
    ]
    for pattern in hostile:
        with pytest.raises(PatternError, match="more than 1000 alternatives"):
            lower(parse(pattern))
    many = {"x": list(range(10_000)), "$or": [{"y": [i]} for i in range(100)]}
    with pytest.raises(PatternError, match=r"field \$or: the pattern expands to more than 100000 values"):
        lower(parse(many))


def test_large_patterns_cost_what_they_weigh() -> None:
    stars = "*" + "a*" * 100_000
    long = "x" * 1_000_000
    index = Index.build(
        {
            "stars": {"x": [{"wildcard": stars}]},
            "long": {"x": [long]},
            "many": {"x": [f"{i}" for i in range(50_000)]},
            "fields": {f"{i}": [1] for i in range(5_000)},
            "ands": {"x": [{"$and": [{"anything-but": str(i)} for i in range(5_000)]}]},
        }
    )
    assert index.match([{"x": "a" * 100_000}, {"x": long}, {"x": "49999"}]) == [
        ["ands", "stars"],
        ["ands", "long"],
        ["ands", "many"],
    ]


def test_the_index_names_the_subscription_that_is_wrong() -> None:
    with pytest.raises(MatchingError, match="subscription 's2': field x: needs a list"):
        Index.build({"s1": {"x": [1]}, "s2": {"x": 1}})


def test_an_explanation_says_what_was_wanted_and_what_was_found() -> None:
    index = Index.build({"s1": {"price": [{"numeric": [">", 100, "<=", 200]}], "symbol": ["IBM", {"prefix": "MS"}]}})
    price, symbol = index.explain({"symbol": ["X", "MSFT"], "price": 99}, "s1")
    assert str(price) == "not held price: wanted > 100 and <= 200; found 99"
    assert str(symbol) == 'held     symbol: wanted "IBM" or prefix "MS"; found "MSFT" of "X", "MSFT"'
    (_, text) = index.explain({"symbol": 'a"\n\x1b'}, "s1")
    assert str(text).endswith('found "a\\"\\n\\u001b"')  # as JSON writes it: on one line
    (absent, _) = index.explain({}, "s1")
    assert str(absent).endswith("found nothing")
    with pytest.raises(MatchingError, match="no such subscription"):
        index.explain({}, "s2")


def test_a_removal_of_an_unknown_id_changes_nothing() -> None:
    index = Index.build({"s1": {}})
    with pytest.raises(MatchingError, match="cannot remove 's2'"):
        index.update(remove=["s2"])


def test_an_unknown_algorithm_names_the_nearest() -> None:
    with pytest.raises(MatchingError, match="did you mean 'scan'"):
        Index.build({}, algorithm="scam")


def test_an_explanation_does_not_try_all_ways_to_see_an_event() -> None:
    fields = [f"f{i}" for i in range(20)]
    event = {name: [{"x": i, "y": -i} for i in range(50)] for name in fields}  # 50^20 ways
    pattern = {name: {"x": [40], "y": [-40]} for name in fields}
    assert all(line.held for line in Index.build({"s": pattern}).explain(event, "s"))
    pattern["f7"] = {"x": [40], "y": [-41]}
    lines = Index.build({"s": pattern}).explain(event, "s")
    assert [str(line) for line in lines if not line.held] == [
        f"not held f7.y: wanted -41; found -40 of {', '.join(str(-i) for i in range(50))}"
    ]
