"""Match events from files against subscriptions from files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matchers import ALGORITHMS
from matchers.errors import MatchingError
from matchers.index.snapshot import Snapshot
from offline.documents import Document, Event, Rejection
from offline.files import InputError
from streaming.documents.subscriptions import Subscription
from streaming.text_format import plain

Deliveries = dict[str, list[str]]  # ids by subscriber, both ascending


@dataclass(frozen=True)
class Delivered:
    """The subscribers that receive the event of a line."""

    line: int
    deliveries: Deliveries

    def __str__(self) -> str:
        return f"line {self.line}: {words(self.deliveries)}"

    def as_data(self) -> dict[str, Any]:
        return {"event": self.line, "deliveries": self.deliveries}


@dataclass(frozen=True)
class SubscriberIndex:
    """Subscriptions and their subscribers."""

    snapshot: Snapshot
    subscriptions: Mapping[str, Subscription]

    @classmethod
    def of(cls, documents: Iterable[Document], algorithm: str) -> SubscriberIndex:
        """An index of documents with different ids; exact with any algorithm. Raises InputError for an unknown
        algorithm."""
        listed = list(documents)
        try:
            empty = Snapshot(
                algorithm=algorithm, options=ALGORITHMS[algorithm].exactly if algorithm in ALGORITHMS else {}
            )
            snapshot = empty.update((d.subscription.id, d.change.conjunctions or ()) for d in listed)
        except MatchingError as error:
            raise InputError(str(error)) from None
        return cls(snapshot, {d.subscription.id: d.subscription for d in listed})

    def deliveries(self, events: Sequence[Event]) -> list[Deliveries]:
        """Return the subscribers of each event."""
        return [by_subscriber(self.subscriptions[id] for id in ids) for ids in self.snapshot.match(events)]


def match_batches(
    index: SubscriberIndex, batches: Iterable[list[tuple[int, Event | Rejection]]]
) -> Iterator[list[Delivered | Rejection]]:
    for batch in batches:
        matched = iter(index.deliveries([event for _, event in batch if not isinstance(event, Rejection)]))
        yield [e if isinstance(e, Rejection) else Delivered(number, next(matched)) for number, e in batch]


def by_subscriber(subscriptions: Iterable[Subscription]) -> Deliveries:
    deliveries: Deliveries = {}
    for subscription in sorted(subscriptions, key=lambda s: (s.subscriber, s.id)):
        deliveries.setdefault(subscription.subscriber, []).append(subscription.id)
    return deliveries


def words(deliveries: Deliveries) -> str:
    return ", ".join(f"{who} ({', '.join(map(plain, ids))})" for who, ids in deliveries.items() if ids) or "nobody"
