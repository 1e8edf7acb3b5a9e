"""Match events from files against subscriptions from files: who gets which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matchers import ADAPTIVE
from matchers.errors import MatchingError
from matchers.snapshot import Snapshot
from offline.documents import Document, Event, Refusal, plain
from offline.files import InputError
from streaming.subscriptions import Subscription

Deliveries = dict[str, list[str]]  # ids by subscriber, both ascending


@dataclass(frozen=True)
class Delivered:
    """Who gets the event of a line."""

    line: int
    deliveries: Deliveries

    def __str__(self) -> str:
        return f"line {self.line}: {words(self.deliveries)}"

    def as_data(self) -> dict[str, Any]:
        return {"event": self.line, "deliveries": self.deliveries}


def snapshot_of(documents: Iterable[Document], algorithm: str) -> Snapshot[Subscription]:
    """Of documents with different ids, and exact whatever the algorithm. Raises InputError on an unknown one."""
    options = {"exact": True} if algorithm in ADAPTIVE else {}
    try:
        empty: Snapshot[Subscription] = Snapshot(algorithm=algorithm, options=options)
        return empty.update((d.subscription, d.change.conjunctions or ()) for d in documents)
    except MatchingError as error:
        raise InputError(str(error)) from None


def match(
    snapshot: Snapshot[Subscription], batches: Iterable[list[tuple[int, Event | Refusal]]]
) -> Iterator[list[Delivered | Refusal]]:
    for batch in batches:
        matched = iter(deliveries(snapshot, [event for _, event in batch if not isinstance(event, Refusal)]))
        yield [e if isinstance(e, Refusal) else Delivered(number, next(matched)) for number, e in batch]


def deliveries(snapshot: Snapshot[Subscription], events: Sequence[Event]) -> list[Deliveries]:
    """For each event who gets it."""
    return [by_subscriber(matched) for matched in snapshot.match(events)]


def by_subscriber(subscriptions: Iterable[Subscription]) -> Deliveries:
    found: Deliveries = {}
    for subscription in sorted(subscriptions, key=lambda s: (s.subscriber, s.id)):
        found.setdefault(subscription.subscriber, []).append(subscription.id)
    return found


def words(found: Deliveries) -> str:
    return ", ".join(f"{who} ({', '.join(map(plain, ids))})" for who, ids in found.items() if ids) or "nobody"
