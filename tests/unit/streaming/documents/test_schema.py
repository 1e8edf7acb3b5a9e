"""The JSON Schema of a subscription accepts whatever the job accepts, and nothing else but for named reasons."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from matchers.language.parsing import EXCLUDED, MAX_DEPTH, OF_SEVERAL, OPERATORS, RESERVED
from run_stream import app
from streaming.documents.schema import subscription_schema
from streaming.documents.subscriptions import MAX_ID_LENGTH, Rejected, read_change
from tests.support.generators.cases import CASES, REJECTED
from tests.support.generators.strategies import patterns

SCHEMA = subscription_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
FILE = Path(__file__).resolve().parents[4] / "config" / "subscription.schema.json"

# Rejected by the job, and no schema could: the reason in the parser's words, and why.
ONLY_THE_JOB = {
    "without unpaired surrogates": "an expression for them would break in readers that hold texts as UTF-16",
    "cannot be held exactly by a double": "a schema cannot count the bits of a number",
    "takes another field": "a schema does not know where it is",
    "is not a supported regular expression": "an expression cannot tell whether another is one",
    "outside the range of a double": "such a number is lost before a schema sees it, or has as many digits as it likes",
}

# What random documents show besides.
SELDOM = {
    "cidr takes a network": "an expression cannot count the groups of IPv6 that :: leaves out",
    "expands to more than": "a schema cannot multiply",
    "is nested deeper": "a schema cannot count levels",
    "expires_at must be a time": "an expression knows no calendar",
    "not JSON": "unpaired surrogates",
}


def subscription(pattern: Any, **others: Any) -> dict[str, Any]:
    return {"id": "s1", "subscriber": "alice", "pattern": pattern, **others}


def is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def schema_takes(document: Any) -> bool:
    valid: bool = VALIDATOR.is_valid(document)
    return valid


def rejection(document: Any) -> str | None:
    """The job's reason, or None where it takes the document."""
    try:
        read_change(None, json.dumps(document).encode())
    except Rejected as rejected:
        return str(rejected)
    return None


def agrees(document: Any) -> None:
    """Check that both accept it, both reject it, or only the job can decide."""
    reason = rejection(document)
    if reason is None:
        VALIDATOR.validate(document)
    elif schema_takes(document):
        assert any(known in reason for known in [*ONLY_THE_JOB, *SELDOM]), reason


def test_the_schema_is_one_of_2020_12() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_file_is_what_the_command_prints() -> None:
    printed = CliRunner().invoke(app, ["schema"], catch_exceptions=False).stdout
    assert json.loads(printed) == SCHEMA
    assert FILE.read_text() == printed, "python run_stream.py schema > config/subscription.schema.json"


def test_every_operator_has_words_and_examples() -> None:
    for name in [*OPERATORS, "$and", *(f"anything-but-{name}" for name in EXCLUDED)]:
        definition = SCHEMA["$defs"][name]
        assert definition["title"]
        assert definition["description"]
        assert definition["examples"], name
    assert SCHEMA["$defs"]["condition"]["properties"].keys() == {*OPERATORS, "$and"}
    assert SCHEMA["$defs"]["anything-but"]["properties"].keys() == {*OPERATORS, "$and"}
    assert SCHEMA["$defs"]["pattern"]["properties"].keys() == set(RESERVED)


@pytest.mark.parametrize("pattern", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_every_pattern_of_the_cases_is_accepted(pattern: dict[str, Any]) -> None:
    VALIDATOR.validate(subscription(pattern))


@given(pattern=patterns())
def test_every_random_pattern_is_accepted(pattern: dict[str, Any]) -> None:
    VALIDATOR.validate(subscription(pattern))


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [(pattern, reason) for pattern, reason in REJECTED if is_json(pattern)],
)
def test_what_the_job_rejects_is_rejected_but_for_what_only_it_can_check(pattern: Any, reason: str) -> None:
    assert schema_takes(subscription(pattern)) == any(known in reason for known in ONLY_THE_JOB)
    assert rejection(subscription(pattern)) is not None


DOCUMENTS = [
    ("the least", {"subscriber": "alice", "pattern": {}}, True),
    ("with an id", subscription({}), True),
    ("the longest id", subscription({}) | {"id": "i" * MAX_ID_LENGTH}, True),
    ("the longest id, of characters beyond 16 bits", subscription({}) | {"id": "\U0001f600" * MAX_ID_LENGTH}, True),
    ("an id too long", subscription({}) | {"id": "i" * (MAX_ID_LENGTH + 1)}, False),
    ("an empty id", subscription({}) | {"id": ""}, False),
    ("an id that is no text", subscription({}) | {"id": 5}, False),
    ("an id that is null", subscription({}) | {"id": None}, False),
    ("the longest subscriber", subscription({}) | {"subscriber": "a.B_9-" * 33 + "aa"}, True),
    ("a subscriber too long", subscription({}) | {"subscriber": "a" * 201}, False),
    ("an empty subscriber", subscription({}) | {"subscriber": ""}, False),
    ("a subscriber that names no topic", subscription({}) | {"subscriber": "a/b"}, False),
    ("a subscriber with another letter", subscription({}) | {"subscriber": "é"}, False),
    ("a subscriber that is no text", subscription({}) | {"subscriber": 5}, False),
    ("no subscriber", {"id": "s1", "pattern": {}}, False),
    ("no pattern", {"id": "s1", "subscriber": "alice"}, False),
    ("an unknown key", subscription({}, expires="2030-01-01T00:00:00Z"), False),
    ("the schema's own name as a key", subscription({}, **{"$schema": "subscription.schema.json"}), False),
    ("no object", [subscription({})], False),
    ("an expiry", subscription({}, expires_at="2030-01-01T00:00:00.5+01:00"), True),
    ("an expiry in another form of ISO 8601", subscription({}, expires_at="20300101 0000Z"), True),
    ("an expiry by weeks", subscription({}, expires_at="2030-W01T00Z"), True),
    ("an expiry that is null", subscription({}, expires_at=None), True),
    ("an expiry without a zone", subscription({}, expires_at="2030-01-01T00:00:00"), False),
    ("an expiry without a time", subscription({}, expires_at="2030-01-01"), False),
    ("an expiry in words", subscription({}, expires_at="tomorrow"), False),
    ("an expiry in seconds", subscription({}, expires_at=1893456000), False),
    ("paused", subscription({}, paused=True), True),
    ("not paused", subscription({}, paused=False), True),
    ("paused, in words", subscription({}, paused="yes"), False),
    ("paused, or null", subscription({}, paused=None), False),
    ("a start", subscription({}, **{"from": "oldest"}), True),
    ("a start at a time", subscription({}, **{"from": "2030-01-01T00:00:00.5+01:00"}), True),
    ("a start at offsets", subscription({}, **{"from": {"events": {"0": 0, "10": 2**63 - 1}, "quotes": {}}}), True),
    ("a start, and not paused", subscription({}, paused=False, **{"from": "oldest"}), True),
    ("a start while paused", subscription({}, paused=True, **{"from": "oldest"}), False),
    ("a start in other words", subscription({}, **{"from": "newest"}), False),
    ("a start some time ago", subscription({}, **{"from": "2h"}), False),
    ("a start that is null", subscription({}, **{"from": None}), False),
    ("a start that is a list", subscription({}, **{"from": [{"events": {"0": 1}}]}), False),
    ("a start at one offset", subscription({}, **{"from": {"0": 1}}), False),
    ("a start in a topic without a name", subscription({}, **{"from": {"": {"0": 1}}}), False),
    ("a start in a partition with zeros before", subscription({}, **{"from": {"events": {"00": 1}}}), False),
    ("a start in a partition beyond all", subscription({}, **{"from": {"events": {"1" * 10: 1}}}), False),
    ("a start in a partition in other digits", subscription({}, **{"from": {"events": {"\u0661": 1}}}), False),
    ("a start before the first offset", subscription({}, **{"from": {"events": {"0": -1}}}), False),
    ("a start beyond all offsets", subscription({}, **{"from": {"events": {"0": 2**63}}}), False),
    ("a start between two offsets", subscription({}, **{"from": {"events": {"0": 0.5}}}), False),
    ("a start at true", subscription({}, **{"from": {"events": {"0": True}}}), False),
    ("every reserved name", subscription({"$nor": [{"x": [1]}]}), False),
    ("a network with a mask", subscription({"x": [{"cidr": "10.0.0.0/255.0.0.0"}]}), True),
    ("an address with leading zeros", subscription({"x": [{"cidr": "010.0.0.0/8"}]}), False),
    ("a network with zeros before its length", subscription({"x": [{"cidr": "10.0.0.0/08"}]}), True),
    ("an IPv6 network that ends in IPv4", subscription({"x": [{"cidr": "::ffff:10.0.0.0/104"}]}), True),
    ("an IPv6 network with a zone", subscription({"x": [{"cidr": "fe80::%eth0/64"}]}), False),
    ("an IPv6 network of too many bits", subscription({"x": [{"cidr": "::/129"}]}), False),
    ("three bounds", subscription({"x": [{"numeric": [">", 1, "<", 2, "<", 3]}]}), False),
    ("two lower bounds", subscription({"x": [{"numeric": [">", 1, ">=", 2]}]}), False),
    ("three numbers", subscription({"x": [{"between": [1, 2, 3]}]}), False),
    ("a star, an escaped star, a star", subscription({"x": [{"wildcard": "*\\**"}]}), True),
    ("two stars after an escaped one", subscription({"x": [{"wildcard": "\\***"}]}), False),
    ("an empty wildcard", subscription({"x": [{"wildcard": ""}]}), True),
    ("a list within anything-but's list", subscription({"x": [{"anything-but": {"prefix": [["a"]]}}]}), False),
    ("anything-but with two operators", subscription({"x": [{"anything-but": {"prefix": "a", "suffix": "b"}}]}), False),
]


@pytest.mark.parametrize(("document", "accepted"), [d[1:] for d in DOCUMENTS], ids=[d[0] for d in DOCUMENTS])
def test_the_schema_decides_documents_as_the_job_does(document: Any, accepted: bool) -> None:
    assert schema_takes(document) is accepted
    keyed = document | {"id": document.get("id", "s1")} if isinstance(document, dict) else document
    assert (rejection(keyed) is None) is accepted


def examples() -> Iterator[tuple[str, Any]]:
    """(where, a whole document) of each example in the schema."""
    for document in SCHEMA["examples"]:
        yield "subscription", document
    for key, definition in SCHEMA["properties"].items():
        for found in definition.get("examples", ()):
            yield key, subscription({}) | {key: found}
    place: dict[str, Callable[[Any], Any]] = {
        "pattern": lambda found: found,
        "field": lambda found: {"x": found},
        "condition": lambda found: {"x": [found]},
        "entry": lambda found: {"x": [found]},
        "$and-of-one": lambda found: {"x": [{"contains-all": [{"$and": found}]}]},
        "excluded": lambda found: {"x": [{"anything-but": [found]}]},
        "$or": lambda found: {"$or": found},
        "$not": lambda found: {"$not": found},
    }
    for name, definition in SCHEMA["$defs"].items():
        for found in definition.get("examples", ()):
            if name in place:
                yield name, subscription(place[name](found))
            elif name.startswith("anything-but-"):
                yield name, subscription({"x": [{"anything-but": {name.removeprefix("anything-but-"): found}}]})
            else:
                yield name, subscription({"x": [{name: found}]})


@pytest.mark.parametrize(("where", "document"), list(examples()))
def test_every_example_in_the_schema_is_accepted(where: str, document: Any) -> None:
    assert rejection(document) is None, where
    VALIDATOR.validate(document)


WORDS = [*OPERATORS, *OF_SEVERAL, *RESERVED, "x", "<", ">=", "=", "a*b", "a**", "a\\", "10.0.0.0/8", "::/0"]
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=2),
    max_leaves=4,
)


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of everything within."""
    for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield node, key
        yield from places(node[key])


@st.composite
def with_one_thing_changed(draw: st.DrawFn) -> dict[str, Any]:
    document = subscription(draw(patterns()))
    container, key = draw(st.sampled_from(list(places(document))))
    container[key] = draw(JUNK)
    return document


@given(document=with_one_thing_changed())
def test_a_pattern_with_one_thing_changed_is_decided_as_the_job_does(document: dict[str, Any]) -> None:
    agrees(document)


@given(text=st.text("0123456789abF:./%-", max_size=45) | st.ip_addresses().map(lambda a: f"{a}/{int(a) % 140}"))
@example("1:2:3:4:5:6:7::/0")
@example("::2:3:4:5:6:7:8/0")
@example("1:2:3:4:5:6:1.2.3.4/0")
@example("1::2::3/0")
def test_networks(text: str) -> None:
    agrees(subscription({"x": [{"cidr": text}]}))


@given(text=st.text("ab*\\\n\U0001f600", max_size=12))
def test_wildcards_are_decided_exactly(text: str) -> None:
    document = subscription({"x": [{"wildcard": text}]})
    assert schema_takes(document) is (rejection(document) is None)


def test_a_long_wildcard_takes_no_longer_for_being_rejected() -> None:
    assert not schema_takes(subscription({"x": [{"wildcard": "a*" * 20_000 + "*"}]}))


@given(
    date=st.sampled_from(["2030-01-01", "20300101", "2030-W01-2", "2030W012", "2030W01", "2030-W01", "2030-13-01"]),
    between=st.characters(codec="utf-8"),
    time=st.sampled_from(
        ["00", "00:00", "0000", "00:00:00", "000000", "00:00:00.5", "000000,123456789", "24:00", "0:0"]
    ),
    zone=st.sampled_from(["Z", "z", "", "+01", "-01:30", "+0130", "+01:30:15", "-013015.5", "+25:00", "Z+01"]),
)
def test_times(date: str, between: str, time: str, zone: str) -> None:
    agrees(subscription({}, expires_at=date + between + time + zone))


def test_a_pattern_as_deep_as_can_be_is_accepted() -> None:
    pattern: Any = [1]
    for _ in range(MAX_DEPTH):
        pattern = {"x": pattern}
    agrees(subscription(pattern))
    assert schema_takes(subscription(pattern))
    assert rejection(subscription(pattern)) is None
