"""Avro with the writer's schema in a registry: the event is the record as JSON, unions without their branch's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

import fastavro
import orjson
from fastavro._read_py import schemaless_reader as reader_in_python

from streaming.codecs import framing
from streaming.codecs.avro_schema import as_json, is_recursive
from streaming.codecs.contract import Undecodable, kind
from streaming.codecs.registry import Registry, Schema

Read = Callable[[BytesIO], Any]


class Avro:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._reads: dict[int, Read] = {}

    def decode(self, value: bytes | None, headers: Mapping[str, bytes]) -> dict[str, Any]:
        """Raises Undecodable, and JobError when the registry gives no answer."""
        id = framing.schema_id(value)
        read = self._reads.get(id) or self._opened(id)
        data = BytesIO(value or b"")
        data.seek(framing.LENGTH)
        try:
            event = read(data)
        except RecursionError:
            raise Undecodable(f"nested too deeply, read by schema {id}") from None
        except Exception as error:  # the library has no error of its own for bytes that are not what they should be
            raise Undecodable(f"not Avro of schema {id}: {type(error).__name__}: {error}") from None
        if left := len(data.read()):
            raise Undecodable(f"not Avro of schema {id}: {left} bytes follow the record")
        if not isinstance(event, dict):
            raise Undecodable(f"schema {id} is not of a record; the value is {kind(event)}")
        return event

    def _opened(self, id: int) -> Read:
        schema = self._registry.by_id(id, "AVRO")
        named: dict[str, Any] = {}
        recursive = self._add_references(schema, named, set())
        try:
            own = as_json(orjson.loads(schema.text))
            parsed = fastavro.parse_schema(own, named)
        except Exception as error:
            raise Undecodable(f"schema {id} cannot be used: {type(error).__name__}: {error}") from None
        # The compiled reader uses the stack of C, and what is nested deeply ends the process instead of the record.
        library = reader_in_python if recursive or is_recursive(own) else fastavro.schemaless_reader
        self._reads[id] = lambda data: library(data, parsed, None)
        return self._reads[id]

    def _add_references(self, schema: Schema, named: dict[str, Any], done: set[Any]) -> bool:
        """Parse the schemas that this one names, and those that they name, first. Whether one is recursive."""
        recursive = False
        for reference in schema.references:
            if reference in done:
                continue
            done.add(reference)
            other = self._registry.referenced(reference)
            recursive |= self._add_references(other, named, done)
            try:
                own = as_json(orjson.loads(other.text))
                fastavro.parse_schema(own, named)
            except Exception as error:
                raise Undecodable(f"the schema {reference.name!r} cannot be used: {error}") from None
            recursive |= is_recursive(own)
        return recursive
