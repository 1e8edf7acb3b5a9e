"""The metrics of a subscriber or of a subscription: a record of the metrics topic, the last of its key.

    key "ann"       {"subscriber":"ann","deliveries":12,"bytes":4080,"matches":14,"dead_letters":{"oversize":1},
                     "last_event_ms":1790000000000,"since_ms":1780000000000,"written_ms":1790000004000,"query":"sluice"}
    key "ann/s1"    {"subscriber":"ann","subscription":"s1","matches":14,"last_event_ms":1790000000000, ...}

Numbers are sums since `since_ms`, over all restarts of the job. `last_event_ms` is null without an event of a credible
timestamp. No subscriber has a slash in its name. When one is gone for good, its record is a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import orjson

from streaming.documents.records import Record


class SubscriberMetrics(NamedTuple):
    """The metrics of a subscriber of the job of this query."""

    query: str
    subscriber: str
    deliveries: int
    size_bytes: int
    matches: int
    dead_letters: dict[str, int]  # by reason
    last_event_ms: int  # 0: none
    since_ms: int

    def record(self, topic: str, written_ms: int) -> Record:
        value = b'{"subscriber":%b,"deliveries":%d,"bytes":%d,"matches":%d,"dead_letters":%b,%b}' % (
            orjson.dumps(self.subscriber),
            self.deliveries,
            self.size_bytes,
            self.matches,
            orjson.dumps(self.dead_letters),
            _ends(self.query, self.last_event_ms, self.since_ms, written_ms),
        )
        return Record(topic, key_of(self.subscriber), value, [])


class SubscriptionMetrics(NamedTuple):
    """The metrics of a subscription of the job of this query."""

    query: str
    subscriber: str
    subscription: str
    matches: int
    last_event_ms: int  # 0: none
    since_ms: int

    def record(self, topic: str, written_ms: int) -> Record:
        value = b'{"subscriber":%b,"subscription":%b,"matches":%d,%b}' % (
            orjson.dumps(self.subscriber),
            orjson.dumps(self.subscription),
            self.matches,
            _ends(self.query, self.last_event_ms, self.since_ms, written_ms),
        )
        return Record(topic, key_of(self.subscriber, self.subscription), value, [])


class LookedUp(NamedTuple):
    """The metrics of those that have any, by name and by id."""

    subscribers: Mapping[str, SubscriberMetrics]
    subscriptions: Mapping[str, SubscriptionMetrics] | None  # None: they are not counted by subscription
    is_whole: bool = True  # they include the sums of earlier processes from the topic


LookUp = Callable[[Collection[str], Collection[str]], LookedUp | None]  # None: they are not counted


def key_of(subscriber: str, subscription: str | None = None) -> bytes:
    return (subscriber if subscription is None else f"{subscriber}/{subscription}").encode()


def read_metrics(value: bytes) -> SubscriberMetrics | SubscriptionMetrics | None:
    """The metrics in a record's value; None if somebody else wrote it."""
    try:
        document = orjson.loads(value)
        common = document["query"], document["subscriber"]
        if not all(isinstance(name, str) for name in common):
            return None
        ends = _number(document["last_event_ms"] or 0), _number(document["since_ms"])
        matches = _number(document["matches"])
        if "subscription" in document:
            return SubscriptionMetrics(*common, str(document["subscription"]), matches, *ends)
        letters = {str(reason): _number(n) for reason, n in document["dead_letters"].items()}
        deliveries, size = _number(document["deliveries"]), _number(document["bytes"])
        return SubscriberMetrics(*common, deliveries, size, matches, letters, *ends)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
        return None


def _number(value: Any) -> int:
    """A number that fits a count. Raises ValueError, TypeError or OverflowError."""
    number = int(value)
    if not 0 <= number < 1 << 63:
        raise ValueError(number)
    return number


def _ends(query: str, last_event_ms: int, since_ms: int, written_ms: int) -> bytes:
    last = b"%d" % last_event_ms if last_event_ms else b"null"
    return b'"last_event_ms":%b,"since_ms":%d,"written_ms":%d,"query":%b' % (
        last,
        since_ms,
        written_ms,
        orjson.dumps(query),
    )
