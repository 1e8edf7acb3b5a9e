"""Rewrite an Avro schema so that fastavro returns JSON's values in one pass over the bytes.

Logical types are how fastavro lets its readers be extended. Those of the writer go: a date is then the number on the
wire. What has no JSON type of its own gets one of ours. Defaults, aliases and documentation are for other readers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from fastavro.read import LOGICAL_READERS

from streaming.codecs.floats import shortest

MAX_SCALE = 300  # decimal places; a double ends there
_NAMED = ("record", "error", "enum", "fixed")


def _text(data: bytes, writer: Mapping[str, Any], reader: Any) -> str:
    return data.decode("iso-8859-1")  # as Avro's own JSON encoding has it


def _decimal(data: bytes, writer: Mapping[str, Any], reader: Any) -> float:
    power: int = 10 ** writer["scale"]
    return int.from_bytes(data, "big", signed=True) / power  # correctly rounded, unlike x * 0.01


def _uuid(data: bytes, writer: Mapping[str, Any], reader: Any) -> str:
    return str(UUID(bytes=data))


def _float(data: float, writer: Mapping[str, Any], reader: Any) -> float:
    return shortest(data)


_READERS: dict[str, Callable[..., Any]] = {
    "bytes-sluice-text": _text,
    "fixed-sluice-text": _text,
    "bytes-sluice-decimal": _decimal,
    "fixed-sluice-decimal": _decimal,
    "fixed-sluice-uuid": _uuid,
    "float-sluice-float": _float,
}
LOGICAL_READERS.update(_READERS)  # fastavro has one table for the process; the names are ours alone


def as_json(schema: Any) -> Any:
    """Reduce a schema to the parts that determine how bytes are read."""
    if isinstance(schema, list):
        return [as_json(branch) for branch in schema]
    if isinstance(schema, str):
        return as_json({"type": schema}) if schema in ("bytes", "float") else schema
    type = schema["type"]
    if not isinstance(type, str):
        return as_json(type)
    if type in ("bytes", "fixed", "float"):
        definition = {"type": type, **_logical(schema)}
    elif type in ("record", "error"):
        definition = {
            "type": type,
            "fields": [{"name": f["name"], "type": as_json(f["type"])} for f in schema["fields"]],
        }
    elif type == "enum":
        definition = {"type": type, "symbols": schema["symbols"]}
    elif type == "array":
        definition = {"type": type, "items": as_json(schema["items"])}
    elif type == "map":
        definition = {"type": type, "values": as_json(schema["values"])}
    else:
        return type
    if type in _NAMED:
        definition |= {key: schema[key] for key in ("name", "namespace", "size") if key in schema}
    return definition


def _logical(schema: Mapping[str, Any]) -> dict[str, Any]:
    type, logical, scale = schema["type"], schema.get("logicalType"), schema.get("scale", 0)
    if type == "float":
        return {"logicalType": "sluice-float"}
    if logical == "decimal" and isinstance(scale, int) and 0 <= scale <= MAX_SCALE:
        return {"logicalType": "sluice-decimal", "scale": scale}
    if logical == "uuid" and schema.get("size") == 16:
        return {"logicalType": "sluice-uuid"}
    return {"logicalType": "sluice-text"}


def is_recursive(schema: Any, within: tuple[str, ...] = ()) -> bool:
    """Whether a record may hold itself. Names are compared without namespaces, so the answer may be a false yes."""
    if isinstance(schema, list):
        return any(is_recursive(branch, within) for branch in schema)
    if isinstance(schema, str):
        return _short(schema) in within
    type = schema["type"]
    if type in ("record", "error"):
        return any(is_recursive(f["type"], (*within, _short(schema["name"]))) for f in schema["fields"])
    if type in ("array", "map"):
        return is_recursive(schema["items" if type == "array" else "values"], within)
    return is_recursive(type, within)


def _short(name: str) -> str:
    return name.rpartition(".")[2]
