"""Convert a protobuf message to JSON values, under the names of the .proto file, with all numbers as numbers.

A field that has presence and is not set is absent; any other is there, with its default if need be.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from streaming.codecs.contract import Undecodable
from streaming.codecs.floats import shortest

MOST_VALUES = 1_000_000  # fields of all messages in an event: one that is not set takes no bytes, but has its default

Plain = Callable[[Any], Any]


def _as_it_is(value: Any) -> Any:
    return value


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def _struct(message: Any) -> dict[str, Any]:
    return {key: _value(value) for key, value in message.fields.items()}


def _list(message: Any) -> list[Any]:
    return [_value(value) for value in message.values]


def _value(message: Any) -> Any:
    kind = message.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    if kind == "struct_value":
        return _struct(message.struct_value)
    if kind == "list_value":
        return _list(message.list_value)
    return getattr(message, kind)


def _json_text(message: Any) -> str:
    text: str = message.ToJsonString()
    return text


# Types that JSON writes in a way of their own.
_OWN_FORM: dict[str, Plain] = {
    "google.protobuf.Timestamp": _json_text,
    "google.protobuf.Duration": _json_text,
    "google.protobuf.FieldMask": _json_text,
    "google.protobuf.Struct": _struct,
    "google.protobuf.Value": _value,
    "google.protobuf.ListValue": _list,
}
_WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_ANY = "google.protobuf.Any"
_NULL = "google.protobuf.NullValue"


class Messages:
    """Turn messages of one pool into plain values. The functions for a message type are made once."""

    def __init__(self) -> None:
        self._plains: dict[str, Plain] = {}
        self._left = 0

    def plain(self, message: Message) -> Any:
        """The message as plain values. Raises Undecodable."""
        self._left = MOST_VALUES
        return self._of(message.DESCRIPTOR)(message)

    def _of(self, descriptor: Descriptor) -> Plain:
        name = descriptor.full_name
        if name not in self._plains:
            self._plains[name] = self._made(descriptor)
        return self._plains[name]

    def _made(self, descriptor: Descriptor) -> Plain:
        name = descriptor.full_name
        if name in _OWN_FORM:
            return _OWN_FORM[name]
        if name in _WRAPPERS:
            read_value = self._single(descriptor.fields_by_name["value"])
            return lambda message: read_value(message.value)
        if name == _ANY:
            return lambda message: self._any(message, descriptor)
        fields = [(field.name, field.has_presence, self._field(field)) for field in descriptor.fields]

        def plain(message: Any) -> dict[str, Any]:
            self._left -= len(fields)
            if self._left < 0:
                raise Undecodable(f"more than {MOST_VALUES:,} fields in all its messages")
            return {
                name: read(getattr(message, name))
                for name, presence, read in fields
                if not presence or message.HasField(name)
            }

        return plain

    def _field(self, field: FieldDescriptor) -> Plain:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key: Plain = _key if field.message_type.fields_by_name["key"].type == FieldDescriptor.TYPE_BOOL else str
            read_value = self._single(field.message_type.fields_by_name["value"])
            return lambda entries: {key(k): read_value(entries[k]) for k in entries}
        read_value = self._single(field)
        return (lambda values: [read_value(value) for value in values]) if field.is_repeated else read_value

    def _single(self, field: FieldDescriptor) -> Plain:
        if field.message_type is not None:
            descriptor = field.message_type
            return lambda message: self._of(descriptor)(message)  # not before it is needed: it may hold itself
        if field.enum_type is not None:
            return _enum(field.enum_type)
        of_type: dict[int, Plain] = {FieldDescriptor.TYPE_BYTES: _base64, FieldDescriptor.TYPE_FLOAT: shortest}
        return of_type.get(field.type, _as_it_is)

    def _any(self, message: Any, descriptor: Descriptor) -> dict[str, Any]:
        url: dict[str, Any] = {"@type": message.type_url}
        try:
            inner = descriptor.file.pool.FindMessageTypeByName(message.TypeName())
        except KeyError:  # a type of another file: its bytes are all there is
            return url | {"value": _base64(message.value)}
        plain = self._of(inner)(GetMessageClass(inner).FromString(message.value))
        return url | (plain if isinstance(plain, dict) and inner.full_name not in _OWN_FORM else {"value": plain})


def _key(key: bool) -> str:
    return "true" if key else "false"


def _enum(enum: EnumDescriptor) -> Plain:
    if enum.full_name == _NULL:
        return lambda number: None
    names = {value.number: value.name for value in reversed(enum.values)}  # of two names for a number the first
    return lambda number: names.get(number, number)  # a name newer than the schema is its number
