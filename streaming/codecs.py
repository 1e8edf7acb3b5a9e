"""Bytes of a record to an event."""

from __future__ import annotations

from typing import Any

import orjson

MAX_DEPTH = 64  # objects and arrays within each other


class Undecodable(ValueError):
    """The bytes are no event; the text says why, for the person who reads the dead letter."""


def decode_event(value: bytes | None) -> dict[str, Any]:
    """A JSON object (RFC 8259, UTF-8). Of a repeated key the last counts. Raises Undecodable."""
    if value is None:
        raise Undecodable("the record has no value")
    try:
        event = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise Undecodable(f"not JSON: {error}") from None
    if not isinstance(event, dict):
        raise Undecodable(f"not a JSON object but {_kind(event)}")
    if value.count(b"{") + value.count(b"[") > MAX_DEPTH and _depth(event) > MAX_DEPTH:
        raise Undecodable(f"nested deeper than {MAX_DEPTH}")
    return event


def _depth(event: dict[str, Any]) -> int:
    depth = 0
    level: list[Any] = [event]
    while level:
        depth += 1
        inner = [v for node in level for v in (node.values() if isinstance(node, dict) else node)]
        level = [v for v in inner if isinstance(v, dict | list)]
    return depth


def _kind(value: object) -> str:
    names = {list: "an array", str: "a text", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")
