"""Expressions of CESQL match here what they are true for, or are rejected with the reason."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from matchers.language import naive
from matchers.language.parsing import parse
from offline.cesql import LEAST, MOST, TEXTS, translated
from offline.patterns import written
from offline.sql_grammar import TranslationError
from run_stream import app
from tests.support.documents import table

REQUIRED = {"specversion": "1.0", "id": "myId", "source": "http://localhost/source", "type": "myType"}


def holds(expression: str, event: dict[str, Any]) -> bool:
    pattern = translated(expression)
    return pattern is not None and naive.matches(parse(written(pattern)), event)


# Expressions of the conformance suite of CESQL, and others; attributes beside the required ones; whether it is true.
CASES: list[tuple[str, dict[str, Any], bool]] = [
    ("TRUE", {}, True),
    ("fAlSe", {}, False),
    ("TRUE = FALSE", {}, False),
    ("FALSE != FALSE", {}, False),
    ("1 <> 2", {}, True),
    ("'abc' = '123'", {}, False),
    ("true = 'TRUE'", {}, False),
    ("'TRUE' = true", {}, True),
    ("2 <= 2", {}, True),
    ("3 <= 2", {}, False),
    ("missing = 2", {}, False),
    ("missing != 2", {}, False),
    ("missing <> 'a'", {}, False),
    ("missing <= 2", {}, False),
    ("missing LIKE 'missing'", {}, False),
    ("missing NOT LIKE 'a%'", {}, False),
    ("missing NOT IN ('a')", {}, False),
    ("NOT missing", {}, False),
    ("NOT (missing = 2)", {}, True),
    ('true AND (missing = "")', {}, False),
    ("NOT 'FALSE'", {}, True),
    ("TRUE XOR TRUE", {}, False),
    ("FALSE XOR TRUE", {}, True),
    ("FALSE OR TRUE", {}, True),
    ("(id = 'a') XOR (type = 'myType')", {}, True),
    ("(id = 'myId') XOR (type = 'myType') XOR (missing = 1)", {}, False),
    ("EXISTS specversion AND EXISTS id AND EXISTS type AND EXISTS SOURCE", {}, True),
    ("EXISTS time", {}, False),
    ("NOT EXISTS time", {}, True),
    ("EXISTS myext", {"myext": "my value"}, True),
    ("EXISTS myext", {"myext": None}, False),
    ("123 IN (1, 2, 123)", {}, True),
    ("123 NOT IN (1, 2, 123)", {}, False),
    ("'abc' IN ('abc', \"bcd\")", {}, True),
    ("source IN (source)", {}, True),
    ("source IN (id, 'xyz')", {}, False),
    ('source IN (id, "http://localhost/source")', {}, True),
    ("subject NOT IN (id, 'xyz')", {"subject": "a"}, True),
    ("subject NOT IN (id, 'xyz')", {"subject": "myId"}, False),
    ("id IN (subject, 'myId')", {}, False),  # subject is missing
    ("'true' IN (TRUE, 'false')", {}, True),
    ("'true' IN ('TRUE', 'false')", {}, False),
    ("TRUE IN ('true', 'false')", {}, True),
    ("'TRUE' IN (TRUE, 'false')", {}, False),
    ("1 IN ('1', '2')", {}, True),
    ("'abc' IN (myext)", {"myext": "abc"}, True),
    ("5 IN (myext)", {"myext": "05"}, True),
    ("'ab\\c' LIKE 'ab\\c'", {}, True),
    ("'abc' NOT LIKE 'abc'", {}, False),
    ("'azzzbzzzc' LIKE 'a%b%c'", {}, True),
    ("'ab.cde' LIKE '.%.%.'", {}, False),
    ("'azbzc' LIKE 'a_b_c'", {}, True),
    ("'abzc' LIKE 'a_b_c'", {}, False),
    ("'a\nb' LIKE 'a_b'", {}, True),
    ("'a_b_c' LIKE 'a\\_b\\_c'", {}, True),
    ("'azbzc' LIKE 'a\\_b\\_c'", {}, False),
    ("'a%b%c' LIKE 'a\\%b\\%c'", {}, True),
    ("'a\\%' LIKE 'a\\\\%'", {}, True),
    ("'a\\\\b' LIKE 'a\\\\%'", {}, False),
    ("'a*b' LIKE 'a*%'", {}, True),
    ("'axb' LIKE 'a*%'", {}, False),
    ("'a(b' LIKE '_(_'", {}, True),
    ("myext LIKE 'abc%123\\%456\\_d_f'", {"myext": "abc123123%456_dzf"}, True),
    ("myext NOT LIKE 'abc%123\\%456\\_d_f'", {"myext": "abc123123%456_dzf"}, False),
    ("234 LIKE '23_'", {}, True),
    ("2344 LIKE '23_'", {}, False),
    ("TRUE LIKE '%ue'", {}, True),
    ("mybool LIKE 'tr%'", {"mybool": True}, True),
    ("mybool LIKE 'tr%'", {"mybool": False}, False),
    ("myext LIKE '%'", {"myext": 5}, True),
    ("myext LIKE '5'", {"myext": 5}, True),
    ("source LIKE 'https://%'", {"source": "https://example.com"}, True),
    ("source LIKE 'https://%'", {"source": "http://example.com"}, False),
    ("type like '%.error'", {"type": "com.github.error"}, True),
    ("time LIKE '2018-%'", {"time": "2018-04-26T14:48:09+02:00"}, True),
    ("sequence = 5", {"sequence": "5"}, True),
    ("sequence = 5", {"sequence": "+005"}, True),
    ("sequence = 5", {"sequence": "5.0"}, False),
    ("sequence = 5", {"sequence": "6"}, False),
    ("sequence = 0", {"sequence": "-0"}, True),
    ("sequence = 0", {"sequence": "abc"}, False),
    ("sequence != 0", {"sequence": "abc"}, False),
    ("sequence != 0", {"sequence": "7"}, True),
    ("sequence = '5'", {"sequence": 5}, True),
    ("sequence = '05'", {"sequence": 5}, False),
    ("'05' = sequence", {"sequence": 5}, True),
    ("5 = sequence", {"sequence": "05"}, False),
    ("5 != sequence", {"sequence": "05"}, True),
    ("sequence = TRUE", {"sequence": -7}, True),
    ("TRUE = sequence", {"sequence": -7}, False),
    ("id = 5", {"id": "5"}, True),
    ("sequence > 99999", {"sequence": "2147483647"}, True),
    ("sequence > 99999", {"sequence": "2147483648"}, False),  # no whole number of 32 bits
    ("sequence < 3", {"sequence": "-2147483649"}, False),
    ("sequence < 10", {"sequence": "9"}, True),
    ("10 > sequence", {"sequence": "9"}, True),
    ("mybool < 1", {"mybool": False}, True),
    ("mybool", {"mybool": True}, True),
    ("mybool AND id = 'myId'", {"mybool": "True"}, True),
    ("NOT mybool", {"mybool": "FALSE"}, True),
    ("NOT mybool", {"mybool": "no"}, False),
    ("NOT (NOT mybool)", {}, True),
    ("NOT (mybool AND id = 'a')", {}, True),
    ("subject", {}, False),
    ("id = subject", {"subject": "myId"}, True),
    ("id != subject", {"subject": "myId"}, False),
    ("id != subject", {}, False),
    (
        "(id = 'myId' OR type LIKE '%.success') AND (id = 'notmyId' OR source LIKE 'https://%' OR type LIKE '%.bad')",
        {"id": "notmyId", "type": "example.event.success"},
        True,
    ),
    (
        "(id = 'myId' OR type LIKE '%.success') AND (id = 'notmyId' OR source LIKE 'https://%' OR type LIKE '%.bad')",
        {"type": "example.event.success"},
        False,
    ),
]


@pytest.mark.parametrize(("expression", "attributes", "expected"), CASES)
def test_an_expression_is_true_here_for_what_it_is_true_for_there(
    expression: str, attributes: dict[str, Any], expected: bool
) -> None:
    assert holds(expression, {**REQUIRED, **attributes}) is expected


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("4 * (2 + 3) = 20", "position 3: arithmetic (*) is not supported"),
        ("-missing = 1", "position 2: arithmetic (-) is not supported"),
        ("x = 5 + 1", "arithmetic (+)"),
        ("LENGTH(subject) < 5", "position 7: the function LENGTH is not supported"),
        ("ABC(", "the function ABC is not supported"),
        ("hop < ttl", "hop < ttl: compares the attributes as whole numbers, strings too"),
        ("source IN (myext, 'abc')", "source = myext: one attribute may be a string and the other a number"),
        ("myext LIKE '23%'", "myext may be a number, and no pattern matches the digits of a number"),
        ("x LIKE 123", 'LIKE takes a string, not "123"'),
        ("a = 1 AND b = 2 OR c = 3", "AND and OR are of one precedence in CESQL"),
        ("NOT x = 5", "NOT binds tighter than = in CESQL; write NOT (...)"),
        ("NOT x LIKE 'a'", "NOT binds tighter than LIKE"),
        ("x OR y = 5", "OR gives false where x is missing; write x = TRUE"),
        ("NOT 10", "10 is neither true nor false"),
        ("'abc'", "'abc' is neither true nor false"),
        ("(a = 1) = (b = 2)", "a condition compared as a value"),
        ("x = 2147483648", "2147483648 is no whole number of 32 bits"),
        ("x < 'abc'", "'abc' is no whole number of 32 bits"),
        ("data = 'a'", "CESQL reads the attributes of an event, not its data"),
        ("x = 'it''s'", "a quote within a string is written \\'"),
        ("x = 'a", "position 5: an unterminated string is not part of CESQL"),
        ("x = 1 = 2", "a comparison compares two values"),
        ("x.y = 1", 'position 2: "." is not part of CESQL'),
        ("x = ", "position 5: the end where a value is expected"),
        ("x NOT 5", 'position 7: "5" after NOT'),
        ("(x = 1", "the end where ) is expected"),
        ("x = 1)", 'position 6: ")" where the condition could end'),
        ("x IN ()", "where a value is expected"),
        ("(" * 40 + "x = 1" + ")" * 40, "nested deeper than 32 levels"),
        (" XOR ".join(f"(x = '{i}')" for i in range(30)), "more XOR than a pattern can spell"),
    ],
)
def test_what_has_no_equal_is_rejected_with_the_reason(expression: str, reason: str) -> None:
    with pytest.raises(TranslationError) as error:
        translated(expression)
    assert reason in str(error.value)


class Missing(Exception):
    """An attribute is missing, or a value has no such cast: the comparison is false."""


def cast(value: Any, kind: type) -> Any:
    """Casts as the specification has them."""
    if type(value) is kind:
        return value
    if kind is str:
        return str(value).lower() if isinstance(value, bool) else str(value)
    if kind is bool:
        if isinstance(value, int):
            return value != 0
        if value.lower() in ("true", "false"):
            return value.lower() == "true"
    elif isinstance(value, bool) or (re.fullmatch(r"[+-]?[0-9]+", value) and LEAST <= int(value) <= MOST):
        return int(value)
    raise Missing


def evaluated(tree: Any, event: dict[str, Any]) -> bool:
    """The value of an expression that `trees` drew."""
    kind, *rest = tree
    if kind == "NOT":
        if rest[0][0] == "ATTRIBUTE":
            return cast_or_none(event.get(rest[0][1], ""), bool) is False
        return not evaluated(rest[0], event)
    if kind == "ATTRIBUTE":
        return cast_or_none(event.get(rest[0], ""), bool) is True
    if kind in ("AND", "OR", "XOR"):
        a, b = (evaluated(part, event) for part in rest)
        return {"AND": a and b, "OR": a or b, "XOR": a is not b}[kind]
    if kind == "EXISTS":
        return rest[0] in event
    name, *rest = rest
    try:
        if name not in event:
            raise Missing
        value = event[name]
        if kind == "LIKE":
            expression = "".join({"%": ".*", "_": "."}.get(c) or re.escape(c) for c in rest[0])
            return (re.fullmatch(expression, cast(value, str), re.DOTALL) is not None) is not rest[1]
        if kind == "IN":
            return any(cast_or_none(item, type(value)) == value for item in rest[0]) is not rest[1]
        symbol, other, swapped = rest
        left, right = (other, value) if swapped else (value, other)
        if symbol in ("=", "!="):
            return (cast(left, type(right)) == right) is (symbol == "=")
        a, b = cast(left, int), cast(right, int)
        holds: bool = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[symbol]
        return holds
    except Missing:
        return False


def cast_or_none(value: Any, kind: type) -> Any:
    try:
        return cast(value, kind)
    except Missing:
        return None


def spelled(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value).upper()


def expression_of(tree: Any) -> str:
    kind, *rest = tree
    if kind == "NOT":
        return f"NOT ({expression_of(rest[0])})"
    if kind in ("AND", "OR", "XOR"):
        return f"({expression_of(rest[0])}) {kind} ({expression_of(rest[1])})"
    if kind == "ATTRIBUTE":
        return str(rest[0])
    if kind == "EXISTS":
        return f"exists {rest[0]}"
    name, argument, *others = rest
    if kind == "LIKE":
        return f"{name} {'NOT ' * others[0]}LIKE '{argument}'"
    if kind == "IN":
        return f"{name} {'NOT ' * others[0]}IN ({', '.join(map(spelled, argument))})"
    value, swapped = others
    return f"{spelled(value)} {argument} {name}" if swapped else f"{name} {argument} {spelled(value)}"


attributes = st.sampled_from(["id", "subject", "x", "y"])
literals = st.sampled_from(
    ["", "a", "ab", "5", "05", "-5", "+5", "true", "FALSE", "1", "0", 0, 1, 5, -5, 7, True, False]
)
leaves = st.one_of(
    st.tuples(st.just("EXISTS"), attributes),
    st.tuples(st.just("ATTRIBUTE"), attributes),
    st.tuples(*(st.just("="), attributes, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), literals, st.booleans())),
    st.tuples(st.just("IN"), attributes, st.lists(literals, min_size=1, max_size=3), st.booleans()),
    st.tuples(st.just("LIKE"), attributes, st.sampled_from(["a%", "%", "_", "a_", "true", "5", "t%e"]), st.booleans()),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.just("NOT"), inner), st.tuples(st.sampled_from(["AND", "OR", "XOR"]), inner, inner)
    ),
    max_leaves=4,
)
events = st.dictionaries(st.sampled_from(["x", "y"]), literals.filter(lambda v: v != "+5")).flatmap(
    lambda extensions: st.dictionaries(
        st.sampled_from(["id", "subject"]), literals.filter(lambda v: type(v) is str and v != "+5")
    ).map(lambda texts: extensions | texts)
)


@given(tree=trees, event=events)
def test_an_expression_has_the_value_that_the_specification_gives_it(tree: Any, event: dict[str, Any]) -> None:
    expression = expression_of(tree)
    try:
        found = holds(expression, event)
    except TranslationError as error:
        assume(not re.search("may be a number|is no whole number|more XOR|gives false where", str(error)))
        raise
    assert found is evaluated(tree, event), expression


def test_the_attributes_of_cloudevents_are_texts() -> None:
    assert translated("subject = '5'") == {"subject": ["5"]}
    assert translated("other = '5'") == {"other": ["5", 5]}
    assert {"id", "source", "type", "time"} < TEXTS


def test_the_command_prints_subscriptions_and_names_what_it_cannot_translate(tmp_path: Path) -> None:
    file = tmp_path / "filters.txt"
    file.write_text("type = 'a' AND subject LIKE 'b%'\n\nLENGTH(id) > 3\nFALSE\nTRUE\n")
    result = CliRunner().invoke(app, ["translate", "cesql", str(file), "--subscriber", "alice"])
    assert result.exit_code == 1
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"id": "filters-1", "subscriber": "alice", "pattern": {"type": ["a"], "subject": [{"prefix": "b"}]}},
        {"id": "filters-5", "subscriber": "alice", "pattern": {}},
    ]
    assert "line 3: id filters-3: position 7: the function LENGTH is not supported" in result.stderr
    assert "line 4: id filters-4: is true for no event" in result.stderr
    result = CliRunner().invoke(
        app, ["translate", "cesql", "-", "--subscriber", "alice"], input=b"id = '\xff'\nEXISTS x"
    )
    assert result.exit_code == 1
    assert json.loads(result.stdout)["id"] == "line-2"
    assert "is not UTF-8" in result.stderr


def test_the_table_of_the_document() -> None:
    rows = table("docs/translating.md", "## CESQL")
    assert len(rows) > 10
    for condition, pattern in rows:
        found = translated(condition)
        assert found is not None
        assert written(found) == json.loads(pattern), condition
