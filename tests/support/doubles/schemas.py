"""Records as producers with schemas write them, and codecs that read them back."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import fastavro
import pytest

from streaming.codecs import Decode, RegistrySettings, Undecodable, open_codec
from tests.support.doubles.registry import SchemaRegistry
from tests.support.patience import PATIENCE_S

POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}


def opened(name: str, registry: SchemaRegistry, **options: str) -> Decode:
    settings = RegistrySettings.of(registry.url, {"max.retries": "0", "timeout": f"{PATIENCE_S:g}"} | options)
    return open_codec.__wrapped__(name, settings)  # a fresh one: ports of other tests come again


def framed(id: int, payload: bytes) -> bytes:
    return b"\0" + id.to_bytes(4, "big") + payload


def reason(decode: Callable[..., Any], value: bytes | None, headers: Mapping[str, Any] | None = None) -> str:
    with pytest.raises(Undecodable) as error:
        decode(value, headers or {})
    return str(error.value)


def avro(registry: SchemaRegistry, schema: Any, value: Any, references: Any = (), subject: str = "events") -> bytes:
    """A record as a producer writes it: the schema is registered, the payload written by fastavro as it is."""
    id = registry.register(subject, json.dumps(schema), "AVRO", references)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return framed(id, out.getvalue())
