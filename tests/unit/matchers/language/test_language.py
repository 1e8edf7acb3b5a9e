"""The language, case by case: the definition, every algorithm, and the reasons for what is rejected."""

from __future__ import annotations

import pickle
import re
from random import Random
from typing import Any

import pytest

from matchers import ALGORITHMS, Index, MatchingError, PatternError
from matchers.language import facets, naive
from matchers.language.explanation import as_data
from matchers.language.facets import NUMBER, TOKEN, exactly, token
from matchers.language.lowering import FEW_RANGES, MAX_ALTERNATIVES, lower
from matchers.language.operators import Equals
from matchers.language.parsing import MAX_DEPTH, parse
from tests.support.generators.algorithms import EXACTLY
from tests.support.generators.cases import CASES, REJECTED

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize(("pattern", "event", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_definition(pattern: dict[str, Any], event: dict[str, Any], expected: bool) -> None:
    assert naive.matches(parse(pattern), event) is expected


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_decides_every_case_alike(name: str) -> None:
    index = Index.build({case: pattern for case, pattern, _, _ in CASES}, algorithm=name, **EXACTLY[name])
    found = index.match([event for _, _, event, _ in CASES])
    decided = {case: case in matched for (case, _, _, _), matched in zip(CASES, found, strict=True)}
    assert decided == {case: expected for case, _, _, expected in CASES}


def test_every_case_is_decided_for_an_event_alone_as_in_a_batch() -> None:
    index = Index.build({case: pattern for case, pattern, _, _ in CASES})
    for case, _, event, expected in CASES:
        assert (case in index.match([event])[0]) is expected, case


def test_every_case_is_explained_as_it_is_decided() -> None:
    index = Index.build({case: pattern for case, pattern, _, _ in CASES})
    for case, _, event, expected in CASES:
        assert all(line.held for line in index.explain(event, case)) is expected, case


@pytest.mark.parametrize(("pattern", "reason"), REJECTED, ids=[reason for _, reason in REJECTED])
def test_what_is_rejected_and_why(pattern: Any, reason: str) -> None:
    with pytest.raises(PatternError) as error:
        parse(pattern)
    assert reason in str(error.value)


def test_deep_nesting_is_rejected() -> None:
    pattern: Any = [1]
    for _ in range(10_000):
        pattern = {"x": pattern}
    with pytest.raises(PatternError, match="nested deeper"):
        parse(pattern)


ONE_OF_SEVERAL: dict[str, Any] = {"compare-field": ["=", "y"]}


@pytest.mark.parametrize("name", ["\x1b[2Jx", "a\nb", "\x9b2J"])
def test_messages_have_no_characters_that_a_terminal_obeys(name: str) -> None:
    with pytest.raises(PatternError) as rejected:
        parse({name: name})
    assert str(rejected.value).isprintable()
    assert name.isprintable() is False
    index = Index.build({"s": {name: [name]}})
    assert "\n".join(map(str, index.explain({name: name}, "s"))).isprintable()


def test_what_many_conditions_of_one_field_have_in_common_is_found_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, 20,000 exclusions took a minute."""
    work: list[int] = []
    intersect = facets.intersection

    def counted(a: Any, b: Any) -> Any:
        work.append(len(a) + len(b))
        return intersect(a, b)

    monkeypatch.setattr(facets, "intersection", counted)
    n = 4_096
    (conjunction,) = lower(parse({"$not": {"$or": [{"x": [i]} for i in range(n)]}}))
    assert sum(map(len, conjunction.regions.values())) == n + 1
    assert sum(work) < 4 * n * n.bit_length()


def test_as_many_levels_as_the_limit_says_are_accepted_and_one_more_is_not() -> None:
    objects: Any = [1]
    alternatives: Any = {"x": [1]}
    conditions: Any = "a"
    of_several: Any = ONE_OF_SEVERAL
    for _ in range(MAX_DEPTH):
        objects, conditions = {"x": objects}, {"$and": [conditions]}
        of_several = {"$and": [ONE_OF_SEVERAL, of_several]}
    for _ in range(MAX_DEPTH - 1):  # the pattern within is one level itself
        alternatives = {"$or": [alternatives]}
    for pattern in (objects, alternatives, {"x": [conditions]}, {"x": [of_several]}):
        parse(pattern)
    for pattern in (
        *({"x": objects}, {"$or": [alternatives]}, {"x": [{"$and": [conditions]}]}),
        *({"x": [{"$and": [of_several]}]}, {"x": [{"$and": ["a", of_several]}]}),
    ):
        with pytest.raises(PatternError, match="nested deeper than 32"):
            parse(pattern)


@pytest.mark.parametrize("others", [[ONE_OF_SEVERAL], ["a"], [{"contains-none": ["b"]}, "a"]])
def test_deep_nesting_of_and_is_rejected_whatever_it_holds(others: list[Any]) -> None:
    condition: Any = ONE_OF_SEVERAL
    for _ in range(1_000):
        condition = {"$and": [*others, condition]}
    with pytest.raises(PatternError, match=r"field x: \$and is nested deeper than 32"):
        parse({"x": [condition]})


def test_too_many_alternatives_are_rejected_before_they_are_made() -> None:
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


ALTERNATIVES = [{"x": [i]} for i in range(1_001)]
FIELDS = {f"f{i}": [1] for i in range(1_001)}
CHOICE = {"$or": ALTERNATIVES[:30]}
TOO_LARGE: list[tuple[str, dict[str, Any]]] = [
    ("$or", {"$or": ALTERNATIVES}),
    ("a.$or", {"a": {"$or": ALTERNATIVES}}),
    ("x", {"x": [{"contains-all": ["a", i]} for i in range(1_001)]}),
    ("a.x", {"a": {"x": ["a", *({"compare-field": ["=", f"f{i}"]} for i in range(1_000))]}}),
    ("$not", {"$not": FIELDS}),
    ("a.$not", {"a": {"$not": FIELDS}}),
    ("$not", {"$not": {"$or": [{"y": [1]}, FIELDS]}}),
    ("b.$or", {"a": CHOICE, **dict(list(FIELDS.items())[:20]), "b": CHOICE}),
]


@pytest.mark.parametrize(("field", "pattern"), TOO_LARGE)
def test_a_limit_of_expansion_names_the_field_or_operator_that_exceeds_it(field: str, pattern: dict[str, Any]) -> None:
    with pytest.raises(PatternError, match=rf"^field {re.escape(field)}: the pattern expands to more than"):
        lower(parse(pattern))


NEVER: list[Any] = [{"numeric": [">", 5, "<", 3]}]
WILD: list[Any] = [{"$and": [{"wildcard": f"a*{i}*c"} for i in range(1_000)]}]


@pytest.mark.parametrize(
    "field",
    [
        {f"f{i}": NEVER for i in range(1_000)},
        {f"f{i}": [{"$and": ["a", "b"]}] for i in range(1_000)},
        {"f": WILD},
        {"x": WILD},
    ],
    ids=["empty ranges", "empty intersections", "residuals of one field", "residuals of a field of the $or too"],
)
def test_what_alternatives_repeat_counts_even_where_no_value_lies_in_it(field: dict[str, Any]) -> None:
    """36,000 bytes were 655,200 intervals, and 900,000 bytes took more than a minute."""
    pattern = {**field, "$or": [{"x": [i]} for i in range(900)]}
    with pytest.raises(PatternError, match="expands to more than 100000 values"):
        lower(parse(pattern))


MANY = [{"wildcard": "a*b*c"}, *range(200)]


@pytest.mark.parametrize(
    "field",
    [
        {"f": [{"anything-but": [{"anything-but": MANY}]}]},
        {"$not": {"f": [{"anything-but": MANY}]}},
        {"f": [{"contains-none": [{"$and": [{"anything-but": MANY[1:]}, "a"]}]}]},
    ],
    ids=["anything-but", "$not", "contains-none"],
)
def test_values_within_what_is_checked_one_by_one_count_in_each_alternative(field: dict[str, Any]) -> None:
    """They counted as one: with 450,000 values and 900 alternatives a pattern took more than an hour."""
    assert len(lower(parse({**field, "$or": [{"x": [i]} for i in range(9)]}))) == 9
    with pytest.raises(PatternError, match="expands to more than 100000 values"):
        lower(parse({**field, "$or": [{"x": [i]} for i in range(900)]}))


def test_levels_of_or_do_not_multiply_the_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    constraint = Equals.constraint

    def counted(operator: Equals) -> Any:
        nonlocal made
        made += 1
        return constraint(operator)

    monkeypatch.setattr(Equals, "constraint", counted)
    pattern: dict[str, Any] = {"f": [{"contains-none": list(range(100))}]}
    counts = []
    for levels in (1, MAX_DEPTH - 1):
        nested = pattern
        for _ in range(levels):
            nested = {"$or": [nested]}
        made = 0
        lower(parse(nested))
        counts.append(made)
    assert counts[0] == counts[1] > 0


def test_few_bytes_do_not_expand_to_many_ranges() -> None:
    choice = [{"x": [i]} for i in range(30)]
    others: dict[str, Any] = {f"f{i}": [1] for i in range(20)}
    pattern = {"a": {"$or": choice}, "b": {"$or": choice}, **others}
    assert FEW_RANGES < 900 * 22
    with pytest.raises(
        PatternError, match="more than 10000 values and ranges, and to more than 10 times those that it"
    ):
        lower(parse(pattern))
    with pytest.raises(PatternError, match="more than 10 times those"):
        lower(parse({"$or": [pattern, {"y": list(range(20_000))}]}))  # each pattern of an $or too
    assert len(lower(parse({"x": list(range(10_000)), "$or": choice[:9]}))) == 9  # 90,009 of 10,009
    few = dict(list(others.items())[:9])
    assert len(lower(parse({"a": {"$or": choice}, "b": {"$or": choice}, **few}))) == 900  # 9,900


def test_the_order_of_fields_does_not_decide_whether_a_pattern_expands_too_far() -> None:
    r = Random(1)
    for _ in range(100):
        parts: dict[str, Any] = {f"f{i}": [1] * r.randint(1, 30) for i in range(r.randint(1, 4))}
        for i in range(r.randint(1, 3)):
            parts[f"o{i}"] = {"$or": [{"x": [1] * r.randint(1, 20)}] * r.randint(1, 12)}
        assert len({_rejected(dict(r.sample(list(parts.items()), len(parts)))) for _ in range(5)}) == 1


def _rejected(pattern: dict[str, Any]) -> bool:
    try:
        lower(parse(pattern))
    except PatternError:
        return True
    return False


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


@pytest.mark.parametrize("levels", [4, 5, 31, 32])
def test_an_error_within_many_alternatives_names_a_few(levels: int) -> None:
    pattern: Any = {"x": 1}
    for level in range(levels):
        pattern = {"$not": pattern} if level % 2 else {"$or": [pattern]}
    with pytest.raises(PatternError) as error:
        parse(pattern)
    message = str(error.value)
    assert message.count("$or: ") + message.count("$not: ") <= 4
    assert message.endswith("field x: needs a list of what it may be, such as [1]" if levels < 32 else "32 objects")
    assert ("...: pattern 1 of $or: " in message) is (levels > 4)
    assert str(pickle.loads(pickle.dumps(error.value))) == message


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


def test_an_explanation_shows_what_a_field_was_compared_with() -> None:
    index = Index.build({"s1": {"x": [{"compare-field": [">", ["y", "z"]]}]}})
    (line,) = index.explain({"x": [1, 2], "y": [{"z": 2}, {"z": "a"}, {}]}, "s1")
    assert str(line) == 'not held x: wanted > field y.z; found 1 of 1, 2, and 2, "a", nothing in y.z'
    assert as_data(line) == {
        "field": ["x"],
        "held": False,
        "wanted": ["> field y.z"],
        "found": 1,
        "all_found": [1, 2],
        "other_found": [2, "a"],
    }
    (line,) = index.explain({"x": [1, 3], "y": {"z": 2}}, "s1")
    assert str(line) == "held     x: wanted > field y.z; found 3 of 1, 3, and 2 in y.z"


def test_an_explanation_names_the_elements_that_are_missing_apart_from_those_that_are_there() -> None:
    index = Index.build({"s1": {"x": [{"contains-all": ["a", {"prefix": "b"}, 3, {"numeric": [">", 8]}]}]}})
    there, missing = index.explain({"x": [3, "bc", "d"]}, "s1")
    assert str(there) == 'held     x: wanted an element prefix "b" and an element 3; found 3 of 3, "bc", "d"'
    assert str(missing) == 'not held x: wanted an element "a" and an element > 8; found 3 of 3, "bc", "d"'
    (line,) = index.explain({"x": [9, 3, "b", "a"]}, "s1")
    assert line.held
    index = Index.build({"s1": {"$not": {"x": [{"contains-all": ["a", "b"]}]}}})
    (line,) = index.explain({"x": ["a", "b"]}, "s1")
    assert str(line) == 'not held x: wanted not an element "a" and an element "b"; found "a" of "a", "b"'


def test_one_of_the_elements_that_an_array_must_have_is_a_range_of_a_column() -> None:
    (lowered,) = lower(parse({"x": [{"contains-all": [{"wildcard": "a*b*c"}, 7, "z"]}]}))
    assert lowered.regions.keys() == {(("x",), NUMBER)}
    (lowered,) = lower(parse({"x": [{"contains-exactly": ["a", "b"]}]}))
    assert [*lowered.regions[("x",), TOKEN]] == [exactly(token("a"))]


def test_a_comparison_of_two_fields_leaves_what_lacks_one_to_the_columns() -> None:
    segment = Index.build({"s1": {"x": [{"compare-field": [">", "y"]}]}}).snapshot.parts[0].segment
    assert segment.vocabulary.columns == ((("x",), TOKEN), (("y",), TOKEN))
    (with_another,) = lower(parse({"x": [{"compare-field": [">", "y"]}], "y": [None]}))
    assert with_another.regions.keys() == {(("x",), TOKEN), (("y",), TOKEN)}
    assert [*with_another.regions[("y",), TOKEN]] == [exactly(token(None))]


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
