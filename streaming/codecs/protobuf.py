"""Protobuf with the schema in a registry: the event is the message as JSON, under the names of the .proto file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from streaming.codecs import framing
from streaming.codecs.contract import Headers, Undecodable, kind
from streaming.codecs.protobuf_message import Messages
from streaming.codecs.protobuf_schema import FORMAT, file_of
from streaming.codecs.registry import Registry
from streaming.errors import JobError

Path = tuple[int, ...]  # which message of a file: its place, then its place within that message, and so on
_MOST_VARINT_BYTES = 5  # 32 bits


class Protobuf:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._files: dict[int, tuple[FileDescriptor, Messages]] = {}
        self._reads: dict[tuple[int, Path], Callable[[bytes], Message]] = {}

    def decode(self, value: bytes | None, headers: Headers) -> dict[str, Any]:
        """Decode an event. Raises Undecodable, and JobError if the registry does not answer."""
        id = framing.schema_id(value)
        path, at = _path(value or b"")
        read = self._reads.get((id, path)) or self._opened(id, path)
        _, messages = self._files[id]
        try:
            event = messages.plain(read((value or b"")[at:]))
        except Exception as error:  # bytes that are no message, a time out of range, a text that is none
            raise Undecodable(f"not protobuf of schema {id}: {type(error).__name__}: {error}") from None
        if not isinstance(event, dict):
            raise Undecodable(f"the message of schema {id} is not a JSON object: the value is {kind(event)}")
        return event

    def _opened(self, id: int, path: Path) -> Callable[[bytes], Message]:
        if id not in self._files:
            schema = self._registry.by_id(id, "PROTOBUF", FORMAT)
            try:
                self._files[id] = file_of(self._registry, schema, f"schema-{id}.proto"), Messages()
            except (JobError, Undecodable):
                raise
            except Exception as error:
                raise Undecodable(f"schema {id} cannot be used: {type(error).__name__}: {error}") from None
        file, _ = self._files[id]
        descriptor: Any = None
        within = list(file.message_types_by_name.values())
        for index in path:
            if not 0 <= index < len(within):
                raise Undecodable(f"schema {id} has no message {list(path)}")
            descriptor = within[index]
            within = descriptor.nested_types
        self._reads[id, path] = GetMessageClass(descriptor).FromString
        return self._reads[id, path]


def _path(value: bytes) -> tuple[Path, int]:
    """The path of the message type, and the offset of the message. The path is a count and as many places; a count of 0
    stands for place 0."""
    count, at = _varint(value, framing.FRAME_BYTES)
    if count == 0:
        return (0,), at
    if not 0 < count <= len(value):
        raise Undecodable(f"the path of its message has {count} steps")
    path = []
    for _ in range(count):
        index, at = _varint(value, at)
        path.append(index)
    return tuple(path), at


def _varint(value: bytes, at: int) -> tuple[int, int]:
    """A signed number (zigzag), and the offset of the next byte."""
    number = 0
    for shift in range(_MOST_VARINT_BYTES):
        if at + shift >= len(value):
            raise Undecodable("the value ends within the path of its message")
        byte = value[at + shift]
        number |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + shift + 1
    raise Undecodable("a number in the path of its message does not end")
