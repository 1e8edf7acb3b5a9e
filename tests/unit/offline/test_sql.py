"""Conditions of SQL's WHERE select here the events that a database would select as rows."""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from matchers.language import naive
from matchers.language.parsing import parse
from offline.patterns import written
from offline.sql import translated
from offline.sql_grammar import TranslationError
from run_stream import app
from tests.support.documents import table


def selects(condition: str, event: dict[str, Any]) -> bool:
    pattern = translated(condition)
    return pattern is not None and naive.matches(parse(written(pattern)), event)


CASES: list[tuple[str, dict[str, Any], bool]] = [
    ("WHERE x = 1;", {"x": 1}, True),
    ("x = 1 -- one\n", {"x": 1.0}, True),
    ("x = 1", {"x": "1"}, False),
    ("x <> 1", {"x": 2}, True),
    ("x <> 1", {"x": "2"}, False),  # a text is no number, so unknown
    ("x <> 1", {}, False),
    ("x <> 1", {"x": None}, False),
    ("NOT x = 1", {}, False),
    ("NOT (x = 1)", {"x": 2}, True),
    ("NOT (x = 1 OR y = 'a')", {"x": 2}, False),  # y is NULL
    ("NOT (x = 1 AND y = 'a')", {"x": 2}, True),
    ("x = NULL", {"x": None}, False),
    ("x IS NULL", {"x": None}, True),
    ("x IS NULL", {}, True),
    ("x IS NOT NULL", {"x": 0}, True),
    ("NOT x IS NULL", {}, False),
    ("x IN (1, 2)", {"x": 2}, True),
    ("x NOT IN (1, 2)", {"x": 3}, True),
    ("x NOT IN (1, 2)", {}, False),
    ("x NOT IN (1, NULL)", {"x": 3}, False),
    ("x IN (y, 5)", {"x": 3, "y": 3}, True),
    ("x NOT IN (y, 5)", {"x": 3}, False),
    ("x BETWEEN 1 AND 2", {"x": 2}, True),
    ("x NOT BETWEEN 1 AND 2", {"x": 2.5}, True),
    ("x NOT BETWEEN 1 AND 2", {}, False),
    ("5 BETWEEN x AND y", {"x": 1, "y": 9}, True),
    ("x BETWEEN 2 AND 1", {"x": 1.5}, False),
    ("t LIKE 'a%'", {"t": "abc"}, True),
    ("t NOT LIKE 'a%'", {"t": "b"}, True),
    ("t NOT LIKE 'a%'", {"t": 5}, False),
    ("t NOT LIKE 'a%'", {}, False),
    ("t LIKE '%a%b%'", {"t": "xaxxb"}, True),
    ("t LIKE 'a%%b'", {"t": "ab"}, True),
    ("t LIKE '_'", {"t": "\n"}, True),
    ("t LIKE '_%_'", {"t": "a"}, False),
    ("t LIKE ''", {"t": ""}, True),
    ("t LIKE '10!%%' ESCAPE '!'", {"t": "10% off"}, True),
    ("t LIKE '10!%%' ESCAPE '!'", {"t": "100"}, False),
    ("t LIKE 'a!!b' ESCAPE '!'", {"t": "a!b"}, True),
    ("t LIKE 'a*b'", {"t": "a*b"}, True),
    ("t ILIKE 'AB%'", {"t": "abc"}, True),
    ("t ILIKE 'AB'", {"t": "Ab"}, True),
    ("t = 'it''s'", {"t": "it's"}, True),
    ('quote.price > 5 AND "quote"."a.b" = 1', {"quote": {"price": 6, "a.b": 1}}, True),
    ("`a.b` = 1", {"a.b": 1}, True),
    ("quote.prefix = 'a'", {"quote": {"prefix": "a"}}, True),
    ("NOT (quote.prefix = 'a' AND x = 1)", {"quote": {"prefix": "b"}}, True),
    ("active", {"active": True}, True),
    ("NOT active", {"active": False}, True),
    ("NOT active", {}, False),
    ("active IS NOT TRUE", {}, True),
    ("(x = 1) IS FALSE", {"x": 2}, True),
    ("(x = 1) IS FALSE", {}, False),
    ("(x = 1) IS NOT FALSE", {}, True),
    ("active <> TRUE", {"active": False}, True),
    ("x = y", {"x": 1, "y": 1.0}, True),
    ("x = y", {"x": None, "y": None}, False),
    ("x <> y", {"x": 1, "y": 2}, True),
    ("x <> y", {"x": 1}, False),
    ("x <> y", {"x": True, "y": False}, True),
    ("x <> y", {"x": True, "y": True}, False),
    ("NOT x < y", {"x": 2, "y": 2}, True),
    ("x >= quote.low AND x < quote.high", {"x": 2, "quote": {"low": 2, "high": 3}}, True),
    ("x <= x", {"x": 2}, True),
    ("x < x", {"x": 2}, False),
    ("1 < 2 AND 'a' <> 'b'", {}, True),
    ("1 = 'a' OR NOT 1 = 'a'", {}, False),
    ("TRUE OR NULL", {}, True),
    ("NULL OR x = 1", {"x": 2}, False),
    ("-1.5e0 < x", {"x": -1}, True),
    ("a = 1 OR b = 2 AND c = 3", {"a": 1}, True),
    ("(a = 1 OR b = 2) AND (a = 2 OR b = 3) AND (a = 3 OR c = 4)", {"a": 2, "b": 2, "c": 4}, True),
    ("(a = 1 OR b = 2) AND (a = 2 OR b = 3) AND (a = 3 OR c = 4)", {"a": 2, "b": 2, "c": 5}, False),
    ("a > 1 AND a < 5 AND a <> 3 AND a <> 4", {"a": 2}, True),
    ("a > 1 AND a < 5 AND a <> 3 AND a <> 4", {"a": 4}, False),
    ("price = 5 AND price BETWEEN 1 AND 100", {"price": 7}, False),
    ("price = 5 AND price BETWEEN 1 AND 100", {"price": 5}, True),
    ("price > 1 AND price < 9 AND price = 5", {"price": 7}, False),
    ("price > 1 AND price = 5 AND price < 9", {"price": 7}, False),
    ("price BETWEEN 1 AND 100 AND price BETWEEN 50 AND 60", {"price": 7}, False),
    ("qty < price AND qty BETWEEN 1 AND 100", {"qty": 7, "price": 6}, False),
    ("price >= 1 AND price <= 100 AND price < lim", {"price": 7, "lim": 6}, False),
    ("NOT (qty <= low) AND qty BETWEEN 1 AND 100", {"qty": 7, "low": 8}, False),
    ("name = 'x' AND name BETWEEN 1 AND 2", {"name": 1.5}, False),
    ("name LIKE 'x%' AND name BETWEEN 1 AND 2", {"name": 1.5}, False),
    ("flag = TRUE AND flag BETWEEN 1 AND 2", {"flag": 1.5}, False),
    ("x > 'abc'", {"x": "abd"}, True),
    ("x > 'abc'", {"x": "abc"}, False),
    ("NOT x > 'abc'", {"x": "abc"}, True),
    ("NOT x > 'abc'", {"x": 5}, False),
    ("x BETWEEN 'a' AND 'b' AND x <> 'ab'", {"x": "aa"}, True),
    ("x BETWEEN 'a' AND 'b' AND x <> 'ab'", {"x": "ab"}, False),
    ("x NOT BETWEEN 'a' AND 'b'", {"x": "ba"}, True),
    ("x NOT BETWEEN 'a' AND 'b'", {}, False),
    ("'a' < 'b' AND 'b' >= x", {"x": "b"}, True),
    ("at >= TIMESTAMP '2026-01-01 00:00:00 +01'", {"at": "2025-12-31T23:00:00Z"}, True),
    ("at < TIMESTAMP '2026-01-01T00:00:00Z'", {"at": "2025-12-31T23:59:59.9Z"}, True),
    ("NOT at < TIMESTAMP '2026-01-01T00:00:00Z'", {"at": "soon"}, False),
    ("at = TIMESTAMP '2026-01-01 00:00:00Z'", {"at": "2026-01-01T00:00:00.000Z"}, True),
    ("at <> TIMESTAMP '2026-01-01 00:00:00Z'", {"at": "2026-01-01T00:00:00.000Z"}, False),
    ("at <> TIMESTAMP '2026-01-01 00:00:00Z'", {"at": "2026-01-01"}, False),
    (
        "at BETWEEN TIMESTAMP '2026-01-01 00:00:00Z' AND TIMESTAMP '2026-01-02 00:00:00Z'",
        {"at": "2026-01-01T12:00:00Z"},
        True,
    ),
    ("TIMESTAMP '2026-01-01 00:00:00Z' < TIMESTAMP '2026-01-01 00:00:00.1Z'", {}, True),
    ("timestamp = 5", {"timestamp": 5}, True),
    ("(time > 5 AND time <> 7) AND (time < 100 AND time <> 8)", {"time": 9}, True),
    ("(time > 5 AND time <> 7) AND (time < 100 AND time <> 8)", {"time": 8}, False),
    ("NOT (time < 5 OR time = 7) AND NOT (time > 100 OR time = 8)", {"time": 7}, False),
    ("(time = 1 AND time IN (1, 2)) AND (time = 1 AND time IN (1, 3))", {"time": 1}, True),
]


@pytest.mark.parametrize(("condition", "event", "expected"), CASES)
def test_a_condition_selects_what_it_selects_as_rows(condition: str, event: dict[str, Any], expected: bool) -> None:
    assert selects(condition, event) is expected


@pytest.mark.parametrize(
    ("condition", "pattern"),
    [
        ("x = 1 OR x = 2 OR x > 5", {"x": [1, 2, {"numeric": [">", 5]}]}),
        ("x BETWEEN 1 AND 2", {"x": [{"numeric": [">=", 1, "<=", 2]}]}),
        ("x BETWEEN 'a' AND 'b'", {"x": [{"text": [">=", "a", "<=", "b"]}]}),
        ("x > 'a' AND x < 5", {"x": [{"$and": [{"text": [">", "a"]}, {"numeric": ["<", 5]}]}]}),
        ("a.b = 'x' AND a.c LIKE '%.png'", {"a": {"b": ["x"], "c": [{"suffix": ".png"}]}}),
        ("x = 1 OR TRUE", {}),
        ("x = 1 AND FALSE", None),
        ("x IN (TRUE, 1)", {"x": [True, 1]}),
    ],
)
def test_a_pattern_is_as_one_would_write_it(condition: str, pattern: Any) -> None:
    assert repr(translated(condition)) == repr(pattern)


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("price * 2 > 5", "position 7: arithmetic (*) is not supported"),
        ("UPPER(x) = 'A'", "the function UPPER is not supported"),
        ("x > TIMESTAMP '2026-01-01 00:00:00'", "position 15: a TIMESTAMP needs a date, a time and its zone, such as"),
        ("x < TRUE", "true and false have no order here (<)"),
        ("CASE WHEN x = 1 THEN TRUE END", "position 1: CASE is not supported"),
        ("x IN (SELECT y FROM z)", "SELECT is not supported"),
        ("EXISTS (SELECT 1)", "EXISTS queries a table; for a field write x IS NOT NULL"),
        ("d > DATE '2024-01-01'", "after DATE"),
        ("t LIKE 'a\\%'", "whether \\ in LIKE escapes depends on the database; write ESCAPE"),
        ("t LIKE 'a!b' ESCAPE '!'", '"!" in LIKE stands before %, _ or itself'),
        ("t LIKE 'a' ESCAPE ''", "ESCAPE takes a string of one character"),
        ("t LIKE t2", "LIKE takes a string"),
        ("t ILIKE 'a_'", "ILIKE with _ is not supported"),
        ("x IS UNKNOWN", 'IS "UNKNOWN" is not supported'),
        ("x == 1", "the operator (==) is not supported"),
        ("x::int = 1", "the operator (::) is not supported"),
        ("x = 1 y = 2", 'position 7: "y" where the condition could end'),
        ("x BETWEEN 1 OR 2", '"OR" where BETWEEN has its AND'),
        ("a = b.c.d AND a.b = a", "a.b = a: a field that has a value has no fields within it"),
        ('"$or" = 1', "no field is called $or in a pattern"),
        ("x = 'a", "an unterminated string"),
        ("x = §", 'position 5: "§" is not part of SQL'),
        ("", "position 1: the end where a value is expected"),
        ("5", "5 is neither true nor false"),
        ("9007199254740993 = 9007199254740993", "cannot be held exactly by a double"),
        ("(x = 1) = (y = 2)", "a condition compared as a value"),
        (".".join("a" * 33) + " = 1", "nested deeper than 32"),
    ],
)
def test_what_has_no_equal_is_rejected_with_the_reason(condition: str, reason: str) -> None:
    with pytest.raises(TranslationError) as error:
        translated(condition)
    assert reason in str(error.value)


# Columns of one type each, as a database has them: n and m are numbers, s and t texts.
numbers, texts = st.sampled_from(["n", "m"]), st.sampled_from(["s", "t"])
number_values, text_values = [-1, 0, 1, 1.5, 2], ["", "a", "ab", "b", "a%", "A"]
number_literals = st.sampled_from([*map(str, number_values), "NULL"])
text_literals = st.sampled_from([*(f"'{text}'" for text in text_values), "NULL"])
symbols = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
maybe_not = st.sampled_from(["", "NOT "])


def listed(literals: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(literals, min_size=1, max_size=3).map(lambda items: f"({', '.join(items)})")


def joined(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[str]:
    return st.tuples(*(part if not isinstance(part, str) else st.just(part) for part in parts)).map(" ".join)


tests = st.one_of(
    joined(numbers, symbols, number_literals | numbers),
    joined(number_literals, symbols, numbers),
    joined(numbers, maybe_not, "IN", listed(number_literals | numbers)),
    joined(numbers, maybe_not, "BETWEEN", number_literals | numbers, "AND", number_literals),
    joined(texts, st.sampled_from(["=", "<>"]), text_literals | texts),
    joined(texts, st.sampled_from(["<", ">="]), texts),
    joined(texts, maybe_not, "IN", listed(text_literals)),
    joined(texts, maybe_not, "LIKE", st.sampled_from(["'a%'", "'%b'", "'_'", "'a_'", "'%a%'", "'%'", "''"])),
    joined(texts, maybe_not, "LIKE 'a!%' ESCAPE '!'"),
    joined(numbers | texts, "IS", maybe_not, "NULL"),
)
conditions = st.recursive(
    tests,
    lambda inner: st.one_of(
        joined("NOT (", inner, ")"),
        joined("NOT", tests),
        joined("(", inner, ") IS", maybe_not, st.sampled_from(["TRUE", "FALSE"])),
        joined("(", inner, st.sampled_from([") AND (", ") OR ("]), inner, ")"),
        joined(tests, st.sampled_from(["AND", "OR"]), tests, st.sampled_from(["AND", "OR"]), tests),
    ),
    max_leaves=5,
)
columns: dict[str, list[Any]] = {"n": number_values, "m": number_values, "s": text_values, "t": text_values}
rows = st.fixed_dictionaries({}, optional={c: st.sampled_from([*of, None]) for c, of in columns.items()})
DATABASE = sqlite3.connect(":memory:", check_same_thread=False)
DATABASE.execute("PRAGMA case_sensitive_like = ON")


@given(condition=conditions, event=rows)
def test_a_condition_selects_what_a_database_selects(condition: str, event: dict[str, Any]) -> None:
    row = "SELECT :n AS n, :m AS m, :s AS s, :t AS t"
    values = {column: event.get(column) for column in columns}
    selected = DATABASE.execute(f"SELECT 1 FROM ({row}) WHERE {condition}", values).fetchall()
    try:
        found = selects(condition, event)
    except TranslationError as error:
        assume("XOR" not in str(error))
        raise
    assert found is bool(selected), condition


def of_one_field(
    field: str, ordered: list[str], other: str, literals: st.SearchStrategy[str], *more: st.SearchStrategy[str]
) -> st.SearchStrategy[str]:
    """Two or three tests of one field, joined by AND and OR, each with or without a NOT."""
    tests = st.one_of(
        joined(field, st.sampled_from(ordered), literals),
        joined(literals, st.sampled_from(["=", "<>"]), field),
        joined(field, symbols, other),
        joined(field, maybe_not, "IN", listed(literals | st.just(other))),
        joined(field, "IS", maybe_not, "NULL"),
        *more,
    )
    test = st.one_of(tests, joined("NOT (", tests, ")"))
    connective = st.sampled_from(["AND", "AND", "OR"])
    return st.one_of(
        joined(test, connective, test),
        joined(test, connective, test, connective, test),
        joined("NOT (", test, connective, test, ")", connective, test),
    )


conditions_on_one_field = st.one_of(
    of_one_field(
        "n",
        ["=", "<>", "<", "<=", ">", ">="],
        "m",
        number_literals,
        joined("n", maybe_not, "BETWEEN", number_literals, "AND", number_literals),
        joined("n", maybe_not, "BETWEEN", number_literals | st.just("m"), "AND", number_literals | st.just("m")),
        joined(number_literals, maybe_not, "BETWEEN", "n", "AND", number_literals | st.just("m")),
    ),
    of_one_field(
        "s",
        ["=", "<>"],
        "t",
        text_literals,
        joined("s", maybe_not, "LIKE", st.sampled_from(["'a%'", "'%b'", "'_'", "'a_'", "'%a%'", "'%'", "''", "'ab'"])),
    ),
)


@settings(max_examples=4 * settings().max_examples)
@given(condition=conditions_on_one_field)
def test_conditions_on_one_field_select_what_a_database_selects(condition: str) -> None:
    """All rows are asked: of the numbers n and m, or of the texts s and t."""
    column, other = ("n", "m") if re.search(r"\bn\b", condition) else ("s", "t")
    pattern = translated(condition)
    parsed = parse(written(pattern)) if pattern is not None else None
    absent = object()
    row = f"SELECT ? AS {column}, ? AS {other}"
    for pair in itertools.product([*columns[column], None, absent], repeat=2):
        event = {name: value for name, value in zip((column, other), pair, strict=True) if value is not absent}
        values = [event.get(column), event.get(other)]
        selected = DATABASE.execute(f"SELECT 1 FROM ({row}) WHERE {condition}", values).fetchall()
        assert (parsed is not None and naive.matches(parsed, event)) is bool(selected), (condition, event)


def test_the_command_translates_a_condition_a_line(tmp_path: Path) -> None:
    file = tmp_path / "where.sql"
    file.write_text("symbol IN ('IBM', 'MSFT') AND price > 100\nUPPER(symbol) = 'IBM'\n")
    result = CliRunner().invoke(app, ["translate", "sql", str(file), "--subscriber", "alice"])
    assert result.exit_code == 1
    pattern = {"symbol": ["IBM", "MSFT"], "price": [{"numeric": [">", 100]}]}
    assert json.loads(result.stdout) == {"id": "where-1", "subscriber": "alice", "pattern": pattern}
    assert "where.sql, line 2: id where-2: position 6: the function UPPER is not supported" in result.stderr


def test_the_table_of_the_document() -> None:
    rows = table("docs/translating.md", "## SQL")
    assert len(rows) > 10
    for condition, pattern in rows:
        found = translated(condition)
        assert found is not None
        assert written(found) == json.loads(pattern), condition
