"""Format deliveries for people."""

from __future__ import annotations

from streaming.admin.deliveries import Delivery
from streaming.text_format import cut, plain, time_of

MOST_IDS = 40  # characters of a line
SHORTEST = 20  # characters of an event


def parts(delivery: Delivery, width: int) -> tuple[str, str, str, str, str]:
    """The parts of a line: time, delay, version or replay, subscriptions, and as much of the event as `width` has room
    for."""
    late = "-" if delivery.latency_ms is None else f"{delivery.latency_ms:,} ms"
    version, replay = delivery.version, delivery.replay
    by = f"version {version}" if version is not None else f"replay {replay}" if replay else "-"
    ids = cut(", ".join(delivery.ids) or "-", MOST_IDS)
    facts = (time_of(delivery.time_ms).split(" ")[-1], f"{late:>9}", plain(by, quoted=False), plain(ids, quoted=False))
    event = "no value" if delivery.event is None else delivery.event.decode(errors="replace")
    room = width - sum(len(fact) + 2 for fact in facts)
    return (*facts, cut(plain(event, quoted=False), max(SHORTEST, room)))
