"""Avro with the writer's schema in a registry: the event is the record as JSON, unions without branch names."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro
import orjson
from fastavro._read_py import read_data
from fastavro.io.binary_decoder import BinaryDecoder

from streaming.codecs import avro_bounds, framing
from streaming.codecs.avro_schema import as_json, is_recursive
from streaming.codecs.contract import Headers, Undecodable, kind
from streaming.codecs.registry import MAX_REFERENCES, Registry, Schema

MAX_NUMBERS = 200_000  # in a record whose schema holds itself: the slow reader takes 10 µs for each
Read = Callable[[BytesIO], Any]


class _Decoder(BinaryDecoder):
    """A decoder with limits: a number ends within 64 bits, and the count of numbers is bounded.

    The library's decoder would go on, and shift all previous bytes at each further one.
    """

    left = MAX_NUMBERS

    def read_long(self) -> int:
        self.left -= 1
        if self.left < 0:
            raise ValueError(f"more than {MAX_NUMBERS:,} numbers, lengths and counts with a recursive schema")
        number = 0
        for shift in range(0, 64, 7):
            (byte,) = self.fo.read(1) or b"\x80"
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
        raise ValueError("a number does not end")

    read_int = read_long


class Avro:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._reads: dict[int, Read] = {}

    def decode(self, value: bytes | None, headers: Headers) -> dict[str, Any]:
        """Decode an event. Raises Undecodable, and JobError if the registry does not answer."""
        id = framing.schema_id(value)
        read = self._reads.get(id) or self._opened(id)
        data = BytesIO(value or b"")
        data.seek(framing.FRAME_BYTES)
        try:
            event = read(data)
        except RecursionError:
            raise Undecodable(f"nested too deeply for schema {id}") from None
        except Exception as error:  # the library has no error of its own for bytes that are not what they should be
            raise Undecodable(f"not Avro of schema {id}: {type(error).__name__}: {error}") from None
        if left := len(data.read()):
            raise Undecodable(f"not Avro of schema {id}: {left} bytes follow the record")
        if not isinstance(event, dict):
            raise Undecodable(f"schema {id} does not describe a record: the value is {kind(event)}")
        return event

    def _opened(self, id: int) -> Read:
        schema = self._registry.by_id(id, "AVRO")
        named: dict[str, Any] = {}
        recursive = self._add_references(schema, named, set())
        try:
            definition = as_json(orjson.loads(schema.text))
            parsed = fastavro.parse_schema(definition, named)
            avro_bounds.check(parsed, named)
        except Undecodable as error:
            raise Undecodable(f"schema {id} cannot be used: {error}") from None
        except Exception as error:
            raise Undecodable(f"schema {id} cannot be used: {type(error).__name__}: {error}") from None
        # The compiled reader uses the stack of C, and what is nested deeply ends the process instead of the record.
        if recursive or is_recursive(definition):
            names = {"writer": named, "reader": {}}
            # fastavro's decoder has no types.
            self._reads[id] = lambda data: read_data(_Decoder(data), parsed, names, None, {})  # type: ignore[no-untyped-call]
        else:
            self._reads[id] = lambda data: fastavro.schemaless_reader(data, parsed, None)
        return self._reads[id]

    def _add_references(self, schema: Schema, named: dict[str, Any], done: set[Any]) -> bool:
        """Parse the referenced schemas first, and those that they reference. Returns whether one is recursive."""
        recursive = False
        for reference in schema.references:
            if reference in done:
                continue
            done.add(reference)
            if len(done) > MAX_REFERENCES:
                raise Undecodable(f"the schema refers to more than {MAX_REFERENCES} other schemas")
            other = self._registry.referenced(reference)
            recursive |= self._add_references(other, named, done)
            try:
                definition = as_json(orjson.loads(other.text))
                fastavro.parse_schema(definition, named)
            except Exception as error:
                raise Undecodable(f"the schema {reference.name!r} cannot be used: {error}") from None
            recursive |= is_recursive(definition)
        return recursive
