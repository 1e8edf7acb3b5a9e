"""Protobuf messages become the same events as JSON."""

from __future__ import annotations

import math
from base64 import b64encode
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf import any_pb2, descriptor_pb2, duration_pb2, struct_pb2, text_format, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from streaming.codecs import Undecodable
from tests.support.doubles.registry import SchemaRegistry, schema_registry
from tests.support.doubles.schemas import framed, opened, reason

ORDER = """
name: "order.proto" package: "shop" syntax: "proto3"
dependency: "google/protobuf/timestamp.proto" dependency: "google/protobuf/struct.proto"
dependency: "google/protobuf/wrappers.proto" dependency: "google/protobuf/duration.proto"
dependency: "google/protobuf/any.proto" dependency: "confluent/meta.proto"
enum_type { name: "Side" value { name: "UNKNOWN" number: 0 } value { name: "BUY" number: 1 } }
message_type {
  name: "Empty"
  nested_type { name: "Inner" field { name: "n" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL } }
}
message_type {
  name: "Order"
  oneof_decl { name: "payment" }
  oneof_decl { name: "_note" }
  field { name: "order_id" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "seq" number: 2 type: TYPE_FIXED64 label: LABEL_OPTIONAL }
  field { name: "price" number: 3 type: TYPE_FLOAT label: LABEL_OPTIONAL }
  field { name: "side" number: 4 type: TYPE_ENUM type_name: ".shop.Side" label: LABEL_OPTIONAL }
  field { name: "raw" number: 5 type: TYPE_BYTES label: LABEL_OPTIONAL }
  field { name: "tags" number: 6 type: TYPE_STRING label: LABEL_REPEATED }
  field { name: "by_name" number: 7 type: TYPE_MESSAGE type_name: ".shop.Order.ByNameEntry" label: LABEL_REPEATED }
  field { name: "by_flag" number: 8 type: TYPE_MESSAGE type_name: ".shop.Order.ByFlagEntry" label: LABEL_REPEATED }
  field { name: "part_of" number: 9 type: TYPE_MESSAGE type_name: ".shop.Order" label: LABEL_OPTIONAL }
  field { name: "card" number: 10 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "cash" number: 11 type: TYPE_BOOL label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "note" number: 12 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 1 proto3_optional: true }
  field { name: "at" number: 13 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" label: LABEL_OPTIONAL }
  field { name: "about" number: 14 type: TYPE_MESSAGE type_name: ".google.protobuf.Struct" label: LABEL_OPTIONAL }
  field { name: "limit" number: 15 type: TYPE_MESSAGE type_name: ".google.protobuf.Int64Value" label: LABEL_OPTIONAL }
  field { name: "took" number: 16 type: TYPE_MESSAGE type_name: ".google.protobuf.Duration" label: LABEL_OPTIONAL }
  field { name: "extra" number: 17 type: TYPE_MESSAGE type_name: ".google.protobuf.Any" label: LABEL_OPTIONAL }
  field { name: "sides" number: 18 type: TYPE_ENUM type_name: ".shop.Side" label: LABEL_REPEATED }
  nested_type {
    name: "ByNameEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".shop.Empty.Inner" label: LABEL_OPTIONAL }
  }
  nested_type {
    name: "ByFlagEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_BOOL label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_UINT64 label: LABEL_OPTIONAL }
  }
}
"""
DEFAULTS = {
    "order_id": 0,
    "seq": 0,
    "price": 0.0,
    "side": "UNKNOWN",
    "raw": "",
    "tags": [],
    "by_name": {},
    "by_flag": {},
    "sides": [],
}
ORDER_MESSAGE = b"\x02\x02"  # one place: 1


def file(text: str) -> descriptor_pb2.FileDescriptorProto:
    return text_format.Parse(text, descriptor_pb2.FileDescriptorProto())


def in_base64(file: descriptor_pb2.FileDescriptorProto) -> str:
    return b64encode(file.SerializeToString()).decode()


def register_order(registry: SchemaRegistry) -> int:
    order = file(ORDER)
    order.name = "default"  # registries forget the name
    return registry.register("orders", in_base64(order), "PROTOBUF")


def order(**fields: Any) -> Any:
    """A message of a pool of its own, made and serialized by the protobuf package."""
    pool = DescriptorPool()
    for module in (timestamp_pb2, struct_pb2, wrappers_pb2, duration_pb2, any_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(descriptor_pb2.FileDescriptorProto(name="confluent/meta.proto").SerializeToString())
    pool.AddSerializedFile(file(ORDER).SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(**fields)


def decoded(registry: SchemaRegistry, message: Any) -> dict[str, Any]:
    id = register_order(registry)
    return opened("protobuf", registry)(framed(id, ORDER_MESSAGE + message.SerializeToString()), {})


def test_fields_without_presence_are_always_there_and_others_when_set(registry: SchemaRegistry) -> None:
    assert decoded(registry, order()) == DEFAULTS
    assert decoded(registry, order(note="", cash=False)) == DEFAULTS | {"note": "", "cash": False}
    part = order()
    part.part_of.SetInParent()
    assert decoded(registry, part) == DEFAULTS | {"part_of": DEFAULTS}


def test_protobuf_values_are_those_of_json_with_all_numbers_as_numbers(registry: SchemaRegistry) -> None:
    message = order(
        order_id=-(2**63),
        seq=2**64 - 1,
        price=0.1,
        side=1,
        raw=b"\xff\0",
        tags=["a", "é"],
        sides=[1, 0, 7],
        by_flag={True: 2**63, False: 0},
        card="visa",
    )
    message.by_name["é"].n = 5
    message.at.FromJsonString("2024-02-29T12:00:00.250Z")
    message.about.update({"x": [1, None, {"y": True}], "nan": "no"})
    message.limit.value = 2**53 + 1
    message.took.FromMilliseconds(1500)
    assert decoded(registry, message) == DEFAULTS | {
        "order_id": -(2**63),
        "seq": 2**64 - 1,
        "price": 0.1,
        "side": "BUY",
        "raw": "/wA=",
        "tags": ["a", "é"],
        "sides": ["BUY", "UNKNOWN", 7],
        "by_flag": {"true": 2**63, "false": 0},
        "by_name": {"é": {"n": 5}},
        "card": "visa",
        "at": "2024-02-29T12:00:00.250Z",
        "about": {"x": [1.0, None, {"y": True}], "nan": "no"},
        "limit": 2**53 + 1,
        "took": "1.500s",
    }


def test_a_message_that_is_nested_too_deeply_is_told(registry: SchemaRegistry) -> None:
    def nested(depth: int) -> Any:
        message = innermost = order()
        for _ in range(depth):
            innermost = innermost.part_of
        innermost.SetInParent()
        return message

    event = decoded(registry, nested(50))
    for _ in range(50):
        event = event["part_of"]
    assert event == DEFAULTS
    with pytest.raises(Undecodable, match="not protobuf of schema 1"):
        decoded(registry, nested(150))


def test_floats_that_json_does_not_have_stay(registry: SchemaRegistry) -> None:
    assert math.isnan(decoded(registry, order(price=math.nan))["price"])
    assert decoded(registry, order(price=-math.inf))["price"] == -math.inf


def test_any_is_what_it_holds_if_its_type_is_known(registry: SchemaRegistry) -> None:
    message, inner = order(), order(order_id=5)
    message.extra.Pack(inner)
    known = {"@type": "type.googleapis.com/shop.Order"} | DEFAULTS | {"order_id": 5}
    assert decoded(registry, message)["extra"] == known
    message.extra.Pack(wrappers_pb2.Int64Value(value=7))
    assert decoded(registry, message)["extra"] == {
        "@type": "type.googleapis.com/google.protobuf.Int64Value",
        "value": 7,
    }
    message.extra.type_url, message.extra.value = "x.org/not.Known", b"\xff"
    assert decoded(registry, message)["extra"] == {"@type": "x.org/not.Known", "value": "/w=="}


@pytest.mark.parametrize(
    ("path", "payload", "event"),
    [
        (b"\0", b"", {}),  # short for the first message
        (b"\2\0", b"", {}),  # the same in full
        (b"\4\0\0", b"\x08\x05", {"n": 5}),  # a message within a message
    ],
)
def test_the_message_is_found_by_its_places(
    path: bytes, payload: bytes, event: dict[str, Any], registry: SchemaRegistry
) -> None:
    id = register_order(registry)
    assert opened("protobuf", registry)(framed(id, path + payload), {}) == event


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (b"", "ends within the path of its message"),
        (b"\4\0", "ends within the path of its message"),
        (b"\x80", "ends within the path of its message"),
        (b"\xff" * 9, "a number in the path of its message does not end"),
        (b"\1", "the path of its message has -1 steps"),
        (b"\xfe\xff\xff\xff\x0f", "the path of its message has 2147483647 steps"),
        (b"\2\x10", "schema 1 has no message [8]"),
        (b"\2\1", "schema 1 has no message [-1]"),
        (b"\4\2\x20", "schema 1 has no message [1, 16]"),
        (ORDER_MESSAGE + b"\x32\x05ab", "not protobuf of schema 1"),  # a text that is cut
        (ORDER_MESSAGE + b"\x32\x01\xff", "not protobuf of schema 1"),  # a text that is none
        (ORDER_MESSAGE + b"\x4a\x01" * 3, "not protobuf of schema 1"),
        (ORDER_MESSAGE + b"\x6a\x0a\x08" + b"\xff" * 8 + b"\x7f", "not protobuf of schema 1"),  # the year 292 billion
    ],
)
def test_what_is_no_protobuf_message(after: bytes, why: str, registry: SchemaRegistry) -> None:
    register_order(registry)
    assert why in reason(opened("protobuf", registry), framed(1, after))


def test_protobuf_schemas_change_and_import_others_while_the_stream_runs(registry: SchemaRegistry) -> None:
    decode = opened("protobuf", registry)
    money = file(
        'name: "default" package: "m" syntax: "proto3" message_type { name: "Money" '
        'field { name: "units" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL } }'
    )
    registry.register("money", in_base64(money), "PROTOBUF")
    field = 'field { name: "n" number: 1 type: TYPE_SINT64 label: LABEL_OPTIONAL }'
    first = registry.register(
        "sale", in_base64(file(f'name: "s.proto" syntax: "proto3" message_type {{ name: "Sale" {field} }}')), "PROTOBUF"
    )
    assert decode(framed(first, b"\0\x08\x03"), {}) == {"n": -2}
    field += 'field { name: "paid" number: 2 type: TYPE_MESSAGE type_name: ".m.Money" label: LABEL_OPTIONAL }'
    text = (
        'name: "s.proto" syntax: "proto3" dependency: "lib/money.proto" dependency: "google/protobuf/empty.proto" '
        f'message_type {{ name: "Sale" {field} }}'
    )
    of_money = {"name": "lib/money.proto", "subject": "money", "version": 1}
    second = registry.register("sale", in_base64(file(text)), "PROTOBUF", [of_money])
    assert decode(framed(second, b"\0\x08\x03\x12\x02\x08\x07"), {}) == {"n": -2, "paid": {"units": 7}}
    assert decode(framed(first, b"\0\x08\x05"), {}) == {"n": -3}
    asked = len(registry.asked)
    decode(framed(second, b"\0"), {})
    assert len(registry.asked) == asked


def test_a_type_of_an_import_that_nobody_has_is_named(registry: SchemaRegistry) -> None:
    text = """name: "x" syntax: "proto3" dependency: "google/type/date.proto" message_type { name: "X"
        field { name: "d" number: 1 type: TYPE_MESSAGE type_name: ".google.type.Date" label: LABEL_OPTIONAL } }"""
    id = registry.register("x", in_base64(file(text)), "PROTOBUF")
    why = reason(opened("protobuf", registry), framed(id, b"\0"))
    assert "cannot be used" in why
    assert "google.type.Date" in why


def test_any_bytes_are_a_message_or_say_why_not() -> None:
    with schema_registry() as registry:
        id = register_order(registry)
        decode = opened("protobuf", registry)

        @given(st.binary(max_size=60))
        def claim(payload: bytes) -> None:
            with suppress(Undecodable):
                assert isinstance(decode(framed(id, ORDER_MESSAGE + payload), {}), dict)

        claim()
