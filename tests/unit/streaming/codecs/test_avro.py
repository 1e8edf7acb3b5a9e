"""Avro records become the same events as JSON."""

from __future__ import annotations

import io
import json
import math
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.codecs import Undecodable
from tests.support.doubles.registry import SchemaRegistry, schema_registry
from tests.support.doubles.schemas import POINT, avro, framed, opened, reason


def avro_value(registry: SchemaRegistry, type: Any, value: Any) -> Any:
    schema = {"type": "record", "name": "R", "namespace": "n", "fields": [{"name": "v", "type": type}]}
    return opened("avro", registry)(avro(registry, schema, {"v": value}), {})["v"]


@pytest.mark.parametrize(
    ("type", "value", "plain"),
    [
        ("null", None, None),
        ("boolean", True, True),
        ("int", -(2**31), -(2**31)),
        ("long", 2**63 - 1, 2**63 - 1),
        ("double", 0.1, 0.1),
        ("float", 0.1, 0.1),
        ("double", math.inf, math.inf),
        ("float", -math.inf, -math.inf),
        ("string", "Grüße \0 🙂", "Grüße \0 🙂"),
        ("bytes", b"\0\xff\x80a", "\0\xff\x80a"),
        ({"type": "fixed", "name": "F", "size": 2}, b"\xfe\0", "\xfe\0"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "A"}, "B", "B"),
        ({"type": "array", "items": ["null", "bytes"]}, [None, b"\xe9"], [None, "é"]),
        ({"type": "map", "values": "float"}, {"é": 2.7}, {"é": 2.7}),
        (["null", "float", "double"], None, None),
        ([{"type": "record", "name": "A", "fields": []}, "string"], {}, {}),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("-123.45"), -123.45),
        ({"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 20}, Decimal("0.1"), 0.1),
        (
            {"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 9, "scale": 3},
            Decimal("19.999"),
            19.999,
        ),
        ({"type": "int", "logicalType": "date"}, date(1970, 1, 11), 10),
        ({"type": "int", "logicalType": "time-millis"}, 1, 1),
        ({"type": "long", "logicalType": "timestamp-millis"}, datetime(2024, 1, 1, tzinfo=UTC), 1704067200000),
        ({"type": "long", "logicalType": "timestamp-micros"}, -(2**62), -(2**62)),
        ({"type": "long", "logicalType": "made-up"}, 5, 5),
        ({"type": "string", "logicalType": "uuid"}, UUID(int=7), str(UUID(int=7))),
        ({"type": "string", "logicalType": "uuid"}, "no uuid at all", "no uuid at all"),
    ],
)
def test_avro_values_are_those_of_json(type: Any, value: Any, plain: Any, registry: SchemaRegistry) -> None:
    found = avro_value(registry, type, value)
    assert found == plain
    assert found.__class__ is plain.__class__


def test_nan_stays_and_a_uuid_of_16_bytes_is_text(registry: SchemaRegistry) -> None:
    assert math.isnan(avro_value(registry, "double", math.nan))
    assert math.isnan(avro_value(registry, "float", math.nan))
    fixed = {"type": "fixed", "name": "U", "size": 16}
    schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": fixed | {"logicalType": "uuid"}}]}
    id = registry.register("uuids", json.dumps(schema))
    assert opened("avro", registry)(framed(id, UUID(int=9).bytes), {}) == {"v": str(UUID(int=9))}


def test_a_type_is_used_again_by_its_name(registry: SchemaRegistry) -> None:
    fixed = {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 5, "scale": 1}
    schema = {
        "type": "record",
        "name": "R",
        "namespace": "n",
        "fields": [
            {"name": "a", "type": fixed, "default": "\0\0\0\0"},
            {"name": "b", "type": "F"},
            {"name": "c", "type": ["null", "n.F"], "default": None},
            {"name": "d", "type": "float", "default": 1},
        ],
    }
    value = {"a": Decimal("0.5"), "b": Decimal("-0.5"), "c": Decimal(1), "d": 0.3}
    assert opened("avro", registry)(avro(registry, schema, value), {}) == {"a": 0.5, "b": -0.5, "c": 1.0, "d": 0.3}


def test_a_new_schema_is_fetched_when_first_seen(registry: SchemaRegistry) -> None:
    decode = opened("avro", registry)
    old = avro(registry, POINT, {"x": 1})
    assert decode(old, {}) == {"x": 1}
    fields = [*POINT["fields"], {"name": "y", "type": ["null", "string"], "default": None}]
    new = avro(registry, POINT | {"fields": fields}, {"x": 2, "y": "z"})
    assert decode(new, {}) == {"x": 2, "y": "z"}
    assert decode(old, {}) == {"x": 1}
    assert len(registry.asked) == 2


def test_avro_schemas_refer_to_others(registry: SchemaRegistry) -> None:
    point = POINT | {"namespace": "n"}
    registry.register("point", json.dumps(point))
    of_point = {"name": "n.Point", "subject": "point", "version": 1}
    line = {
        "type": "record",
        "name": "Line",
        "fields": [{"name": "ends", "type": {"type": "array", "items": "n.Point"}}],
    }
    registry.register("line", json.dumps(line), "AVRO", [of_point])
    of_line = {"name": "Line", "subject": "line", "version": 1}
    fields = [{"name": "line", "type": "Line"}, {"name": "at", "type": ["null", "n.Point"]}]
    figure = {"type": "record", "name": "Figure", "fields": fields}
    id = registry.register("figure", json.dumps(figure), "AVRO", [of_line, of_point])

    whole = json.loads(json.dumps(figure))
    whole["fields"][0]["type"] = json.loads(json.dumps(line))
    whole["fields"][0]["type"]["fields"][0]["type"]["items"] = point
    value = {"line": {"ends": [{"x": 1}, {"x": 2}]}, "at": {"x": 3}}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(whole), value)
    assert opened("avro", registry)(framed(id, out.getvalue()), {}) == value


def test_a_reference_that_the_registry_lost_is_told(registry: SchemaRegistry) -> None:
    lost = {"name": "n.Point", "subject": "lost", "version": 3}
    id = registry.register("s", json.dumps(POINT), "AVRO", [lost])
    assert reason(opened("avro", registry), framed(id, b"\2")) == (
        "version 3 of the subject 'lost' is not known to the registry"
    )


def test_a_union_of_records_is_an_event_and_a_number_is_none(registry: SchemaRegistry) -> None:
    other = {"type": "record", "name": "Other", "fields": [{"name": "y", "type": "string"}]}
    decode = opened("avro", registry)
    assert decode(avro(registry, [POINT, other], ("Other", {"y": "z"})), {}) == {"y": "z"}
    why = reason(decode, avro(registry, "long", 5, subject="numbers"))
    assert why == "schema 2 does not describe a record: the value is a number"


def test_damaged_avro_is_told(registry: SchemaRegistry) -> None:
    decode = opened("avro", registry)
    schema = POINT | {"fields": [{"name": "x", "type": "string"}]}
    value = avro(registry, schema, {"x": "IBM"})
    assert "not Avro of schema 1" in reason(decode, value[:-1])
    assert "not Avro of schema 1" in reason(decode, value[:5])
    assert "1 bytes follow the record" in reason(decode, value + b"\0")
    assert "not Avro of schema 1" in reason(decode, framed(1, b"\4\xff\xff"))


TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "more", "type": ["null", "Tree"]}, {"name": "b", "type": "bytes"}],
}


def test_a_record_that_is_nested_without_end_does_not_end_the_worker(registry: SchemaRegistry) -> None:
    decode = opened("avro", registry)
    value = {"more": {"more": None, "b": b"\xe9"}, "b": b""}
    assert decode(avro(registry, TREE, value), {}) == {"more": {"more": None, "b": "é"}, "b": ""}
    assert reason(decode, framed(1, b"\2" * 500_000)) == "nested too deeply for schema 1"
    forest = {"type": "record", "name": "Forest", "fields": [{"name": "tree", "type": "Tree"}]}
    of_tree = {"name": "Tree", "subject": "events", "version": 1}
    id = registry.register("forests", json.dumps(forest), "AVRO", [of_tree])
    assert decode(framed(id, b"\0\2\xe9"), {}) == {"tree": {"more": None, "b": "é"}}
    assert reason(decode, framed(id, b"\2" * 500_000)) == f"nested too deeply for schema {id}"


EVERYTHING = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "a", "type": {"type": "array", "items": ["string", "bytes", "double"]}},
        {"name": "m", "type": {"type": "map", "values": "long"}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
    ],
}


def test_any_bytes_are_an_event_or_say_why_not() -> None:
    with schema_registry() as registry:
        registry.register("everything", json.dumps(EVERYTHING))
        registry.register("tree", json.dumps(TREE))
        decode = opened("avro", registry)

        @given(st.sampled_from([1, 2]), st.binary(max_size=60))
        def claim(id: int, payload: bytes) -> None:
            with suppress(Undecodable):
                assert isinstance(decode(framed(id, payload), {}), dict)

        claim()
