"""Regular expressions accept what Python's accept, and take time in proportion to the text."""

from __future__ import annotations

import re
import tracemalloc
from random import Random

import pytest

from matchers.language.regex import automaton as regex
from matchers.language.regex import expressions
from matchers.language.regex.automaton import Automaton, automaton
from matchers.language.regex.expressions import ExpressionError, literal, parse
from tests.support.generators.workloads import TEXTS

ALPHABET = "ab1_\n é"
OF_THOUSAND = "".join(chr(0x4E00 + n) for n in range(1_000))
RANGES = "".join(f"{chr(0x4E00 + 3 * n)}-{chr(0x4E01 + 3 * n)}" for n in range(1_000))
TOO_MANY = "a [] has more than 1000 different characters, ranges and classes"


def expression(r: Random, depth: int = 3) -> str:
    """An expression that Python's `re` reads alike."""
    kind = r.random()
    if not depth or kind < 0.35:
        return r.choice(
            [
                *(
                    "a",
                    "b",
                    "é",
                    r"\.",
                    "1",
                    ".",
                    r"\d",
                    r"\w",
                    r"\s",
                    r"\D",
                    r"\W",
                    r"\S",
                    r"\x61",
                    r"\n",
                    "-",
                    "]",
                    ",",
                ),
                *("[ab]", "[^a]", "[a-c1]", "[]a]", "[^]a]", "[-a]", "[a-]", r"[\d_]", r"[^\w]", r"[\]\\]", "[.*]"),
            ]
        )
    if kind < 0.55:
        return "".join(expression(r, depth - 1) for _ in range(r.randint(0, 3)))
    if kind < 0.75:
        return f"({r.choice(['', '?:'])}{'|'.join(expression(r, depth - 1) for _ in range(r.randint(1, 3)))})"
    times = r.choice(["*", "+", "?", "{2}", "{0}", "{1,}", "{0,2}", "{1,3}"]) + r.choice(["", "", "?"])
    return f"({expression(r, depth - 1)}){times}"


def test_random_expressions_accept_what_pythons_do() -> None:
    r = Random(1)
    accepted = 0
    for _ in range(3_000):
        text = expression(r)
        node = parse(text)
        ours, theirs = Automaton(node), re.compile(text, re.ASCII)
        (first, whole), (last, _) = literal(node), literal(node, forward=False)
        for _ in range(8):
            given = "".join(r.choice(ALPHABET) for _ in range(r.choice([0, 1, 1, 2, 3, 5])))
            expected = theirs.fullmatch(given) is not None
            assert ours.matches(given) is expected, (text, given)
            accepted += expected
            if expected:
                assert given.startswith(first), (text, given)
                assert given.endswith(last), (text, given)
            if whole:
                assert expected is (given == first), (text, given)
    assert accepted > 3_000


@pytest.mark.parametrize(
    ("text", "first", "last", "whole"),
    [
        ("abc", "abc", "abc", True),
        ("ab.*cd", "ab", "cd", False),
        ("(ab){2}c*", "abab", "", False),
        ("ab+", "ab", "b", False),
        ("(x|x)y", "xy", "xy", True),
        ("(ab|ac)d", "", "d", False),
        ("a?b", "", "b", False),
        (r"a\.b", "a.b", "a.b", True),
        ("a{0}b", "b", "b", True),
        ("", "", "", True),
    ],
)
def test_the_literal_ends_of_an_expression(text: str, first: str, last: str, whole: bool) -> None:
    assert literal(parse(text)) == (first, whole)
    assert literal(parse(text), forward=False) == (last, whole)


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        (r"\p{Lu}\p{Ll}+", "Éa", "éa"),
        (r"\pL*", "aé漢", "a1"),
        (r"\PL", "1", "a"),
        (r"\p{^L}", "1", "a"),
        (r"[\p{Nd}x]+", "1x٣", "1y"),
        ("[[:alpha:]_]+", "a_", "a1"),
        ("[[:^digit:]]", "a", "1"),
        ("[[:ascii:]]", "\x7f", "\x80"),
        ("[[:blank:]]+", " \t", "\n"),
        ("[[:cntrl:]]+", "\0\x7f", " "),
        ("[[:graph:]]+", "!~", " "),
        ("[[:print:]]+", " ~", "\x7f"),
        (r"\x{1F600}.", "\U0001f600x", "x"),
        (r"\d", "1", "٣"),
        ("a.c", "a\U0001f600c", "a\nc"),
        pytest.param(f"[{OF_THOUSAND}]+", OF_THOUSAND, "a", id="a thousand characters"),
        pytest.param(f"[^{OF_THOUSAND}]+", "ab", OF_THOUSAND[-1], id="all but a thousand characters"),
        pytest.param("[" + "a" * 990_000 + "]*", "aaa", "b", id="one character, 990,000 times"),
        pytest.param(f"[{RANGES}]+", "\u4e00\u4e01\u59b5\u59b6", "\u4e02", id="a thousand ranges"),
        pytest.param("[" + r"a-c\dB-Db-e[:^ascii:]\pL" * 9_000 + "]+", "aeBD7é", "-", id="ranges, 9,000 times"),
        ("[^b-da-ce]+", "fg", "e"),
        ("(a*)*", "aaa", "ab"),
        ("(a|)+b", "aab", "c"),
    ],
)
def test_what_python_writes_otherwise(text: str, yes: str, no: str) -> None:
    assert automaton(text).matches(yes)
    assert not automaton(text).matches(no)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(", "a ( without its )"),
        ("(a", "a ( without its )"),
        ("a)", "a ) without its ("),
        ("*a", "nothing to repeat stands before *"),
        ("a**", "a repetition is repeated"),
        ("a{2", "a repetition is {3}, {3,} or {3,5}"),
        ("a{,2}", "a repetition is {3}"),
        ("a{3,2}", "from the lower to the higher"),
        ("a{1001}", "up to 1000"),
        ("(a{100}){100}", "more than 250 states"),
        ("^a", "it matches the whole string, so ^ is not needed"),
        ("a$", "$ is not needed"),
        ("[a", "it ends within []"),
        ("[b-a]", "a range in [] goes from a lower"),
        ("[a-\\d]", "a range in [] goes from a lower"),
        ("[[:alfa:]]", "[:alfa:] is not a class"),
        pytest.param(f"[{OF_THOUSAND}a]", TOO_MANY, id="more than a thousand characters"),
        pytest.param(f"[^{RANGES}\\d]", TOO_MANY, id="more than a thousand ranges and classes"),
        ("(?=a)", "no flags, names or lookaround"),
        ("(?i)a", "no flags"),
        (r"(a)\1", r"\1 is not supported"),
        (r"\ba", r"\b is not supported"),
        ("\\", "it ends within an escape"),
        (r"\p{Greek}", "is not a category"),
        (r"\xZZ", "a character by its number"),
        (r"\x{110000}", "a character by its number"),
        ("(" * 101 + ")" * 101, "nested deeper than 100"),
    ],
)
def test_what_is_no_expression(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError) as error:
        parse(text)
    assert reason in str(error.value)


def test_no_expression_makes_a_text_be_read_twice() -> None:
    for text in ("(a*)*b", "(a|aa)+b", "(a?){30}a{30}b", "(.*a){20}b"):  # exponential by backtracking
        assert not automaton(text).matches("a" * 5_000)


def test_a_repeated_character_of_a_class_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        parse("[" + "a" * 50_000 + "]")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 500_000


def test_the_members_of_a_class_take_the_memory_of_their_text() -> None:
    text = f"[{RANGES}]" * 100
    tracemalloc.start()
    try:
        node = parse(text)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert node
    assert kept < 12 * len(text)


def test_trees_are_forgotten_when_their_texts_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "MOST_KEPT_CHARACTERS", 50_000)
    monkeypatch.setattr(expressions, "_kept", 0)
    parse.cache_clear()
    most = 0
    for n in range(200):
        parse("[" + "ab" * 500 + f"]{n}")
        most = max(most, parse.cache_info().currsize)
    assert 40 < most <= 50


def test_all_automata_are_forgotten_when_their_texts_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "MOST_KEPT", 5_000)
    most = 0
    for n in range(200):
        automaton("[" + "ab" * 1_000 + f"]{n}")
        most = max(most, automaton.cache_info().currsize)
    assert 10 < most < 30


def test_an_automaton_forgets_steps_and_goes_on() -> None:
    ours = Automaton(parse("(.*[^a]){2}.*"))
    for n in range(3_000):
        assert ours.matches(chr(0x4E00 + n) * 2)
        assert not ours.matches("a" + chr(0x4E00 + n))


def test_all_automata_are_forgotten_when_they_keep_too_many_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "MOST_KEPT", 5_000)
    most = 0
    for n in range(1_500):
        assert automaton(f"a{n}.*").matches(f"a{n}{chr(0x4E00 + n)}")
        most = max(most, automaton.cache_info().currsize)
    assert 100 < most < 250
    for n in range(2_000):
        assert automaton(".*").matches(chr(0x4E00 + n))
    assert automaton.cache_info().currsize == 1


def test_every_text_is_its_own_expression() -> None:
    for text in TEXTS:
        assert automaton(re.sub(r"([^\w\s]|_)", r"\\\1", text)).matches(text)
