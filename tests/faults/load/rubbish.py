"""Records that are neither events nor changes, according to the decoder in Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

from config import Settings
from streaming.codecs import Undecodable, decode_event
from streaming.codecs.depth import checked
from streaming.documents.subscriptions import Rejected, read_change
from tests.support.programs.fuzz import spoiled

Record = tuple[bytes | None, bytes | None]  # key, value

DOCUMENT = {"id": "s1", "subscriber": "r1", "pattern": {"symbol": ["S1"], "price": [{"numeric": [">=", 1, "<", 5]}]}}
EVENT = {"symbol": "S1", "price": 3, "volume": 4, "note": "é"}
VALUES = (b"", b"[1]", b"null", b"{", b"\xff\xfe", b"[" * 5_000, b"x" * 100_000)
KEYS = (b"", b"\xff", b"s17", b"x", b"s1")  # a compacted topic takes no record without a key

MAX_BYTES = Settings().events.max_bytes


def events(r: Random) -> Iterator[Record]:
    """Yield rubbish events without end."""
    while True:
        value = r.choice([*VALUES, None, r.randbytes(r.randrange(200)), spoiled(r, EVENT)])
        if not is_event(value):
            yield r.choice([None, *KEYS]), value


def changes(r: Random) -> Iterator[Record]:
    """Yield rubbish changes without end."""
    while True:
        key = r.choice(KEYS)
        value = r.choice(
            [*VALUES, None, r.randbytes(r.randrange(200)), spoiled(r, DOCUMENT), json.dumps(EVENT).encode()]
        )
        if not is_change(key, value):
            yield key, value


def is_event(value: bytes | None) -> bool:
    if len(value or b"") > MAX_BYTES:
        return False
    try:
        checked(decode_event(value))
    except Undecodable:
        return False
    return True


def is_change(key: bytes | None, value: bytes | None) -> bool:
    try:
        read_change(key, value)
    except Rejected:
        return False
    return True
