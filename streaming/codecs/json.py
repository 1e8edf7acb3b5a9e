"""JSON: the record's value is the event."""

from __future__ import annotations

from typing import Any

import orjson

from streaming.codecs.contract import Headers, Undecodable, kind


def decode_event(value: bytes | None, headers: Headers | None = None) -> dict[str, Any]:
    """A JSON object (RFC 8259, UTF-8). Of a repeated key the last counts. Raises Undecodable."""
    if value is None:
        raise Undecodable("the record has no value")
    try:
        event = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise Undecodable(f"not JSON: {error}") from None
    if not isinstance(event, dict):
        raise Undecodable(f"not a JSON object but {kind(event)}")
    return event
