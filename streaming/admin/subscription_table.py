"""Format subscriptions for people and programs."""

from __future__ import annotations

from typing import Any

import orjson

from streaming.admin.subscription_topic import Registered
from streaming.text_format import cut, plain, time_of

ACTIVE, PAUSED, EXPIRED = "active", "paused", "expired"
WIDTHS = (24, 16, 8)  # of the columns before the pattern
SHORTEST = 20  # characters of the pattern
HEADING = ("ID", "SUBSCRIBER", "STATE", "PATTERN")


def state(one: Registered, now_ms: int) -> str:
    if one.change.paused:
        return PAUSED
    return ACTIVE if one.change.subscription.in_force(now_ms) else EXPIRED


def heading() -> str:
    return _columns(HEADING)


def row(one: Registered, now_ms: int, width: int) -> str:
    """A line; of the pattern as much as `width` has room for, and some of it at least."""
    facts = _columns((one.id, one.change.subscription.subscriber, state(one, now_ms), ""))
    pattern = orjson.dumps(one.document["pattern"]).decode()
    return facts + cut(plain(pattern, quoted=False), max(SHORTEST, width - len(facts)))


def as_data(one: Registered, now_ms: int) -> dict[str, Any]:
    return {
        "id": one.id,
        "subscriber": one.change.subscription.subscriber,
        "state": state(one, now_ms),
        "partition": one.partition,
        "offset": one.offset,
        "time": time_of(one.time_ms, "T"),
        "document": one.document,
    }


def _columns(texts: tuple[str, ...]) -> str:
    *first, last = texts
    return "  ".join(
        (
            *(f"{plain(text, quoted=False):{width}}" for text, width in zip(first, WIDTHS, strict=True)),
            plain(last, quoted=False),
        )
    )
