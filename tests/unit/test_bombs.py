"""Small records that would be large work, or end what reads them: each is refused with a reason."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from matchers.errors import PatternError
from matchers.fields import Fields
from matchers.language import parse
from matchers.lowering import lower
from streaming.codecs import open_codec
from streaming.codecs.protobuf_message import MOST_VALUES
from streaming.matching import HEADERS
from streaming.reading import read_events
from streaming.subscriptions import Refused, read_change
from tests.registry import SchemaRegistry
from tests.schemas import framed, opened, reason

HUGE = 1 << 60
MANY = 1_000_000
LONGEST = 1_100  # characters of a reason, with the little that may come before


def number(n: int) -> bytes:
    """Avro's: zigzag, seven bits a byte."""
    left = (n << 1) ^ (n >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def record(type: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "x", "type": type}]}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def doubled(levels: int) -> dict[str, Any]:
    """A record of two records, each of two records, and so on: 2 ** levels values of no byte at all."""
    schema: Any = {"type": "record", "name": "L0", "fields": []}
    for level in range(1, levels):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"L{level - 1}"}]
        schema = {"type": "record", "name": f"L{level}", "fields": fields}
    return record(schema)


EMPTY = {"type": "record", "name": "E", "fields": []}
LIST = {"type": "record", "name": "R", "fields": [{"name": "n", "type": ["null", "R"]}]}
TREE = {"type": "record", "name": "R", "fields": [{"name": "n", "type": array("R")}]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
WIDE = {"type": "record", "name": "W", "fields": [{"name": f"n{i}", "type": "null"} for i in range(100)]}


@pytest.mark.parametrize(
    ("schema", "payload", "why"),
    [
        (record(array("null")), number(HUGE) + b"\0", "an item of an array takes 0 bytes"),
        (record(array("null")), number(-HUGE) + number(0) + b"\0", "an item of an array takes 0 bytes"),
        (record(array(EMPTY)), number(HUGE), "an item of an array takes 0 bytes"),
        (record(array({"type": "fixed", "name": "F", "size": 0})), number(HUGE), "an item of an array takes 0 bytes"),
        (record(array(record("null", "N"))), number(HUGE), "an item of an array takes 0 bytes"),
        (record(array(["null", WIDE])), number(HUGE), "a branch of a union takes 1 bytes"),
        (record({"type": "map", "values": WIDE}), number(HUGE), "a value of a map takes 1 bytes"),
        (doubled(60), b"", "a record of 0 bytes would be 115"),
        (record({"type": "map", "values": "null"}), number(HUGE), "EOFError"),
        (record(array("long")), number(HUGE), "EOFError"),
        (record(array("long")), number(-5) + number(HUGE) + b"\2\2", "EOFError"),
        (record("string"), number(HUGE) + b"abc", "Expected 1152921504606846976 bytes, read 3"),
        (record("string"), number(-5) + b"abc", "Expected -5 bytes"),
        (record("bytes"), number(1 << 33) + b"abc", "Expected 8589934592 bytes, read 3"),
        (record({"type": "fixed", "name": "F", "size": 1 << 40}), b"abc", "Expected 1099511627776 bytes, read 3"),
        (record(DECIMAL), number(MANY) + b"\x7f" * MANY, "too large for a float"),
        (record("long"), b"\xff" * MANY, "IndexError"),
        (record(["null", "int"]), number(1 << 40), "IndexError"),
        (LIST, b"\2" * MANY, "nested too deeply"),
        (LIST, b"\xff" * MANY, "a number has no end"),
        (record("R"), b"", "nested too deeply"),
        (TREE, number(HUGE) + b"\0" * MANY, "more than 200,000 numbers"),
    ],
)
def test_avro(schema: Any, payload: bytes, why: str, registry: SchemaRegistry) -> None:
    id = registry.register("events", json.dumps(schema))
    assert why in reason(opened("avro", registry), framed(id, payload))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"type": "array", "items": ' * 5_000 + '"null"' + "}" * 5_000, "depth limit"),
        ('{"type": "array", "items": ' * 500 + '"int"' + "}" * 500, "RecursionError"),
        ('{"type": "enum", "name": "E", "symbols": [' + '"A", ' * 300_000 + '"A"]}', "larger than 1,000,000 bytes"),
        ('"Nobody"', "cannot be used"),
        ("7", "cannot be used"),
    ],
    ids=["deep", "less deep", "huge", "unknown name", "a number"],
)
def test_schemas(text: str, why: str, registry: SchemaRegistry) -> None:
    id = registry.register("events", text)
    decode = opened("avro", registry)
    assert why in reason(decode, framed(id, b"\0"))
    assert why in reason(decode, framed(id, b"\0"))


def test_what_a_schema_may_need_is_not_without_end(registry: SchemaRegistry) -> None:
    before: list[dict[str, Any]] = []
    for i in range(150):
        id = registry.register(f"s{i}", json.dumps(record(f"R{i - 1}" if i else "int", f"R{i}")), references=before)
        before = [{"name": f"R{i}", "subject": f"s{i}", "version": 1}]
    assert "needs more than 100 others" in reason(opened("avro", registry), framed(id, b"\0"))


def test_decimals_of_any_scale_are_read_and_those_that_no_double_has_are_the_bytes(registry: SchemaRegistry) -> None:
    id = registry.register("events", json.dumps(record({**DECIMAL, "scale": 1_000_000_000})))
    assert opened("avro", registry)(framed(id, number(1) + b"A"), {}) == {"x": "A"}


def test_wide_records_nested_in_each_other_are_none(registry: SchemaRegistry) -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": f"n{i}", "type": "boolean"} for i in range(500)]}
    id = registry.register("events", json.dumps(record(array(record(["null", inner], "M")))))
    event = opened("avro", registry)(framed(id, number(2) + b"\0" + b"\2" + b"\1" * 500 + b"\0"), {})
    assert [type(one["x"]) for one in event["x"]] == [type(None), dict]
