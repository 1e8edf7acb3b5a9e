"""List the metrics of subscribers, or of the subscriptions of one, from the metrics topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import orjson
from confluent_kafka import Message

from streaming.documents.subscriber_metrics import SubscriberMetrics, SubscriptionMetrics, read_metrics
from streaming.text_format import plain, time_of

Metrics = SubscriberMetrics | SubscriptionMetrics

WIDTH = 24  # of names
NEVER = "-"


def _letters(one: Metrics) -> int:
    return sum(one.dead_letters.values()) if isinstance(one, SubscriberMetrics) else 0


def _name(one: Metrics) -> str:
    return one.subscriber if isinstance(one, SubscriberMetrics) else one.subscription


# The orders of a list; numbers and times descend.
SORTS: dict[str, Callable[[Any], Any]] = {
    "deliveries": lambda one: -one.deliveries,
    "bytes": lambda one: -one.size_bytes,
    "matches": lambda one: -one.matches,
    "dead-letters": lambda one: -_letters(one),
    "last-event": lambda one: -one.last_event_ms,
    "name": _name,
}
OF_SUBSCRIPTIONS = ("matches", "last-event", "name")


def metrics(records: Iterable[Message | None], query: str, subscriber: str | None) -> list[tuple[Metrics, bytes]]:
    """The metrics of all subscribers, or of the subscriptions of one, each with the record's value."""
    last: dict[bytes, tuple[Metrics, bytes]] = {}
    for record in records:
        if record is None or (key := record.key()) is None or (b"/" in key) != (subscriber is not None):
            continue
        value = record.value()
        one = None if value is None else read_metrics(value)
        if one is None or value is None:
            last.pop(key, None)
        elif one.query == query and subscriber in (None, one.subscriber):
            last[key] = one, value
    return list(last.values())


def in_order(found: Iterable[tuple[Metrics, bytes]], by: str) -> list[tuple[Metrics, bytes]]:
    """Sorted by a column; what is equal there, by name."""
    return sorted(found, key=lambda pair: (SORTS[by](pair[0]), _name(pair[0])))


def lines(found: Sequence[Metrics]) -> Iterator[str]:
    """A heading and a line each; nothing if there is none."""
    if not found:
        return
    if isinstance(found[0], SubscriberMetrics):
        yield _line("SUBSCRIBER", "DELIVERIES", "BYTES", "MATCHES", "DEAD LETTERS", "LAST EVENT", "SINCE")
    else:
        yield _line("SUBSCRIPTION", "MATCHES", "LAST EVENT", "SINCE")
    for one in found:
        times = (time_of(one.last_event_ms) if one.last_event_ms else NEVER, time_of(one.since_ms))
        if isinstance(one, SubscriberMetrics):
            counts = (one.deliveries, one.size_bytes, one.matches, _letters(one))
            yield _line(one.subscriber, *(f"{n:,}" for n in counts), *times)
        else:
            yield _line(one.subscription, f"{one.matches:,}", *times)


def document(value: bytes) -> str:
    """A record's value on one line."""
    return orjson.dumps(orjson.loads(value)).decode()


def _line(name: str, *cells: str) -> str:
    *counts, last, since = cells
    numbers = "  ".join(f"{cell:>14}" for cell in counts)
    return f"{plain(name, quoted=False):{WIDTH}}  {numbers}  {last:24}  {since}"
