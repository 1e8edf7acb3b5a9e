"""Format subscriptions for people and programs."""

from __future__ import annotations

from typing import Any

import orjson

from streaming.admin.subscription_topic import StoredSubscription
from streaming.text_format import cut, plain, time_of

IN_FORCE, PAUSED, EXPIRED = "in force", "paused", "expired"
WIDTHS = (24, 16, 8)  # of the columns before the pattern
SHORTEST = 20  # characters of the pattern
HEADING = ("ID", "SUBSCRIBER", "STATE", "PATTERN")


def state(subscription: StoredSubscription, now_ms: int) -> str:
    if subscription.change.paused:
        return PAUSED
    return IN_FORCE if subscription.change.subscription.in_force(now_ms) else EXPIRED


def heading() -> str:
    return _columns(HEADING)


def row(subscription: StoredSubscription, now_ms: int, width: int) -> str:
    """Return a line with as much of the pattern as fits into `width`, at least SHORTEST characters."""
    facts = _columns((subscription.id, subscription.change.subscription.subscriber, state(subscription, now_ms), ""))
    pattern = orjson.dumps(subscription.document["pattern"]).decode()
    return facts + cut(plain(pattern, quoted=False), max(SHORTEST, width - len(facts)))


def as_data(subscription: StoredSubscription, now_ms: int) -> dict[str, Any]:
    return {
        "id": subscription.id,
        "subscriber": subscription.change.subscription.subscriber,
        "state": state(subscription, now_ms),
        "partition": subscription.partition,
        "offset": subscription.offset,
        "time": time_of(subscription.time_ms, "T"),
        "document": subscription.document,
    }


def _columns(texts: tuple[str, ...]) -> str:
    *first, last = texts
    return "  ".join(
        (
            *(f"{plain(text, quoted=False):{width}}" for text, width in zip(first, WIDTHS, strict=True)),
            plain(last, quoted=False),
        )
    )
