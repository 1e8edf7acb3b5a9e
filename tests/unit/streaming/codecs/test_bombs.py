"""Small records that would cause large work or crash a reader are rejected with a reason."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import any_pb2, descriptor_pb2, text_format

from matchers.index.fields import Fields
from matchers.language.model import Predicate
from matchers.language.operators import Wildcard
from streaming.codecs import CODECS, Undecodable
from streaming.documents.subscriptions import MAX_DOCUMENT_BYTES, Rejected, read_change
from streaming.rows import HEADERS
from streaming.worker.events.reading import read_events
from tests.support.doubles.registry import SchemaRegistry
from tests.support.doubles.schemas import framed, opened, reason

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
        (record(array("null")), number(HUGE) + b"\0", "an item of an array of 0 bytes"),
        (record(array("null")), number(-HUGE) + number(0) + b"\0", "an item of an array of 0 bytes"),
        (record(array(EMPTY)), number(HUGE), "an item of an array of 0 bytes"),
        (record(array({"type": "fixed", "name": "F", "size": 0})), number(HUGE), "an item of an array of 0 bytes"),
        (record(array(record("null", "N"))), number(HUGE), "an item of an array of 0 bytes"),
        (record(array(["null", WIDE])), number(HUGE), "a branch of a union of 1 bytes"),
        (record({"type": "map", "values": WIDE}), number(HUGE), "a value of a map of 1 bytes"),
        (doubled(60), b"", "a record of 0 bytes would decode to 115"),
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
        (LIST, b"\xff" * MANY, "a number does not end"),
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
    assert "refers to more than 100 other schemas" in reason(opened("avro", registry), framed(id, b"\0"))


def test_decimals_of_any_scale_are_read_and_those_that_no_double_has_are_the_bytes(registry: SchemaRegistry) -> None:
    id = registry.register("events", json.dumps(record({**DECIMAL, "scale": 1_000_000_000})))
    assert opened("avro", registry)(framed(id, number(1) + b"A"), {}) == {"x": "A"}


def test_wide_records_nested_in_each_other_are_none(registry: SchemaRegistry) -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": f"n{i}", "type": "boolean"} for i in range(500)]}
    id = registry.register("events", json.dumps(record(array(record(["null", inner], "M")))))
    event = opened("avro", registry)(framed(id, number(2) + b"\0" + b"\2" + b"\1" * 500 + b"\0"), {})
    assert [type(one["x"]) for one in event["x"]] == [type(None), dict]


PROTO = """
name: "bomb.proto" syntax: "proto3" dependency: "google/protobuf/any.proto"
message_type {
  name: "Node"
  field { name: "children" number: 1 type: TYPE_MESSAGE type_name: ".Node" label: LABEL_REPEATED }
  field { name: "any" number: 2 type: TYPE_MESSAGE type_name: ".google.protobuf.Any" label: LABEL_OPTIONAL }
  field { name: "text" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "packed" number: 4 type: TYPE_INT64 label: LABEL_REPEATED }
}
"""


def boxed(levels: int) -> bytes:
    inner = b""
    for _ in range(levels):
        any = any_pb2.Any(type_url="t/Node", value=inner).SerializeToString()
        inner = b"\x12" + varint(len(any)) + any
    return inner


def varint(n: int) -> bytes:
    """Protobuf's."""
    return number(n >> 1 if n % 2 == 0 else -(n >> 1) - 1)


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"\0" + b"\x1a" + varint(HUGE) + b"abc", "DecodeError"),
        (b"\0" + b"\x22" + varint(1 << 31) + b"\1", "DecodeError"),
        (b"\0" + b"\x0b" * MANY, "DecodeError"),  # groups that are never ended
        (b"\0" + b"\x93\x03" * MANY, "DecodeError"),  # of a field that the schema does not have
        (b"\0" + b"\xff" * MANY, "DecodeError"),
        (b"\0" + b"\x0a\x00" * MANY, "more than 1,000,000 fields in all its messages"),
        (b"\0" + boxed(2_000), "RecursionError"),
        (number(MANY) + number(0) * MANY, "has no message"),
        (number(HUGE), "a number in the path of its message does not end"),
    ],
    ids=["text", "packed", "groups", "unknown groups", "tag", "children", "boxes", "places", "count"],
)
def test_protobuf(payload: bytes, why: str, registry: SchemaRegistry) -> None:
    file = text_format.Parse(PROTO, descriptor_pb2.FileDescriptorProto())
    id = registry.register("events", b64encode(file.SerializeToString()).decode(), "PROTOBUF")
    message = reason(opened("protobuf", registry), framed(id, payload))
    assert why in message
    assert len(message) < LONGEST


def read_by(codec: str, value: bytes, headers: dict[str, bytes] | None = None, field: str = "x") -> dict[int, str]:
    """Return how the worker handles it, and check that it still reads a good event."""
    good = (
        {"ce_specversion": b"1.0", "ce_id": b"1", "ce_source": b"s", "ce_type": b"t"} if codec == "cloudevents" else {}
    )
    rows = [(value, {**good, **(headers or {})}), (b'{"x": 1}', good)]
    columns = [
        pa.array([value for value, _ in rows], pa.binary()),
        pa.array([[{"key": k, "value": v} for k, v in own.items()] for _, own in rows], HEADERS),
    ]
    batch = pa.RecordBatch.from_arrays(columns, ["value", "headers"])
    reading = read_events(batch, Fields.of([tuple(field.split("."))]), CODECS[codec](None), "events")
    assert 1 not in reading.undecodable
    return reading.undecodable


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b'{"x": ' + b"[" * MANY, "not JSON"),
        (b'{"x": ' + b"[" * 1_000 + b"]" * 1_000 + b"}", "nested deeper than 64"),
        (b'{"x":' * 1_000 + b"1" + b"}" * 1_000, "nested deeper than 64"),
        (b'{"x": "\\ud800"}', "not JSON"),
        (b'{"\\udfff": 1, "x": 1}', "not JSON"),
        (b'{"x": 1e400}', "not JSON"),
        (b'{"x": -' + b"9" * MANY + b"}", "not JSON"),
        (b'{"x": "a\0b"}', "not JSON"),
        (b'{"x": 1}\0', "not JSON"),
        (b"\xff\xfe{", "not JSON"),
        (b'{"x": "' + b"a" * 20 * MANY + b'"}', ""),
        (b"{" + b'"x": 1,' * MANY + b'"x": 2}', ""),
        (b"[" + b"[]," * MANY + b"[]]", "not a JSON object"),
    ],
    ids=lambda given: str(given)[:24],
)
def test_json(value: bytes, why: str) -> None:
    found = read_by("json", value)
    assert (why in found[0]) if why else not found


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"ce_specversion": b"9" * MANY}, "specversion"),
        ({"content-type": b"application/cloudevents-" + b"x" * MANY}, "application/cloudevents-xxx"),
        ({"content-type": b"text/plain; charset=punycode"}, "unknown encoding"),
        ({"content-type": b"text/plain; charset=unicode_escape"}, "unknown encoding"),
        ({"content-type": b"text/plain; charset=idna"}, "unknown encoding"),
        ({"content-type": b"text/plain; charset=zlib"}, "unknown encoding"),
        ({"content-type": b"text/plain; charset=a\0b"}, "unknown encoding"),
        ({"content-type": b"text/plain; charset=" + b"a" * MANY}, "unknown encoding"),
        ({"content-type": b"\xff"}, "not a string"),
        ({"ce_type": b"\xed\xa0\x80"}, "not a string"),
    ],
    ids=lambda given: str(given)[:60],
)
def test_cloudevents(headers: dict[str, bytes], why: str) -> None:
    (message,) = read_by("cloudevents", b"\\ud800", headers, "data").values()
    assert why in message
    assert len(message) < LONGEST


def document(pattern: str) -> bytes:
    return b'{"id": "s", "subscriber": "alice", "pattern": ' + pattern.encode() + b"}"


def choices(parts: int, width: int) -> str:
    """A product of alternatives: width ** parts."""
    ors = [{"$or": [{f"f{part}-{i}": [1]} for i in range(width)]} for part in range(parts)]
    return json.dumps({"a": ors[0], "b": ors[1]} if parts == 2 else {f"p{i}": one for i, one in enumerate(ors)})


HALF = MAX_DOCUMENT_BYTES // 2


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (choices(20, 10), "expands to more than 1000 alternatives"),
        (choices(2, 100), "expands to more than 1000 alternatives"),
        (json.dumps({"$or": [{"f": [i]} for i in range(1_001)]}), "expands to more than 1000 alternatives"),
        (json.dumps({f"f{i}": [{"wildcard": "a*b"}, {"wildcard": "c*d"}] for i in range(40)}), "expands to more than"),
        (json.dumps({"x": list(range(100_001))}), "expands to more than 100000 values"),
        ('{"x": ' * 500 + "[1]" + "}" * 500, "nested deeper than 32"),
        ('{"$or": [' * 500 + '{"x": [1]}' + "]}" * 500, "nested deeper than 32"),
        ('{"x": [' + '{"$and": [' * 500 + "1" + "]}" * 500 + "]}", "nested deeper than 32"),
        ("[" * HALF, "not JSON"),
        ('{"x": [' + "9" * HALF + "]}", ""),
        ('{"x": ["' + "a" * 2 * HALF + '"]}', "bytes; the maximum is 1,000,000"),
        ('{"x": ["\\ud800"]}', "not JSON"),
        ('{"x": [{"' + "a" * HALF + '": 1}]}', "unknown operator"),
        ('{"x": ["' + "a" * HALF + '"], "x": 1}', "needs a list"),
    ],
    ids=lambda given: str(given)[:24],
)
def test_subscriptions(pattern: str, why: str) -> None:
    with pytest.raises(Rejected) as rejected:
        read_change(b"s", document(pattern))
    assert why in str(rejected.value)
    assert len(str(rejected.value)) < LONGEST


def test_a_wildcard_of_many_stars_is_checked_without_going_back() -> None:
    from matchers import Index

    index = Index.build({"s": {"x": [{"wildcard": "a*" * 1_000 + "b"}]}})
    assert index.match([{"x": "a" * 100_000}]) == [[]]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [("a" * 900_000 + "*b", 2), ("\u20ac" * 300_000 + "*b", 2), ("\\*" * 400_000, 1)],
    ids=["long", "wide", "escaped"],
)
def test_a_long_wildcard_is_read_character_by_character(text: str, pieces: int) -> None:
    """To add each character to a copy of those before it took 22 s."""
    from matchers.language.parsing import parse

    (predicate,) = parse({"x": [{"wildcard": text}]}).parts
    assert isinstance(predicate, Predicate)
    (wildcard,) = predicate.operators
    assert isinstance(wildcard, Wildcard)
    assert len(wildcard.pieces) == pieces
    assert "*".join(wildcard.pieces) == text.replace("\\", "")


def test_reasons_are_cut() -> None:
    assert len(str(Undecodable("x" * MANY))) < LONGEST
