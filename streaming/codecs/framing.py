"""The registry's frame around a value: one zero byte, then the schema's id in four bytes, big-endian."""

from __future__ import annotations

from streaming.codecs.contract import Undecodable

FRAME_BYTES = 5


def schema_id(value: bytes | None) -> int:
    """The id of the schema; the payload follows at FRAME_BYTES."""
    if value is None:
        raise Undecodable("the record has no value")
    if len(value) < FRAME_BYTES:
        raise Undecodable(f"the value has {len(value)} bytes; a zero byte and a schema id alone are {FRAME_BYTES}")
    if value[0] != 0:
        raise Undecodable(f"the value begins with the byte 0x{value[0]:02x}, not with a zero byte and a schema id")
    return int.from_bytes(value[1:FRAME_BYTES], "big")
