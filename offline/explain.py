"""Explain for an event and each subscription why they match or do not match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from matchers.language.parsing import parse
from offline.documents import Document, Event, Location, Rejection, nearest, read_event
from offline.files import InputError, content, name_of
from streaming.documents.instants import at
from streaming.documents.verdicts import SubscriptionVerdict, indented


@dataclass(frozen=True)
class Explained:
    """The verdicts of the selected subscriptions on one event."""

    verdicts: list[SubscriptionVerdict]

    @property
    def matches(self) -> bool:
        """Whether at least one subscription matches."""
        return any(v.matches for v in self.verdicts)

    def __str__(self) -> str:
        lines = list(map(str, self.verdicts))
        near = [v for v in self.verdicts if v.near_miss]
        if near:
            missed = (f"{v.who}: {str(v.failed[0]).removeprefix('not held ')}" for v in near)
            lines += ["", "near misses:", indented(missed)]
        return "\n".join(lines)

    def as_data(self) -> dict[str, Any]:
        return {"matches": self.matches, "subscriptions": [v.as_data() for v in self.verdicts]}


def explain_all(documents: Iterable[Document], event: Event, now: datetime) -> Explained:
    return Explained([verdict(document, event, now) for document in documents])


def verdict(document: Document, event: Event, now: datetime | None = None) -> SubscriptionVerdict:
    """Compare a subscription with an event. Without a time, `expires_at` is ignored."""
    return SubscriptionVerdict.of(document.change, parse(document.pattern), event, None if now is None else at(now))


def select(documents: Mapping[str, Document], id: str | None, subscriber: str | None) -> list[Document]:
    """The subscriptions with this id and this subscriber, if given. Raises InputError if there are none."""
    if not documents:
        raise InputError("there is no subscription to explain")
    if id is not None and id not in documents:
        raise InputError(f"no subscription has the id {id!r}; {nearest(id, documents)}")
    subscribers = {d.subscription.subscriber for d in documents.values()}
    if subscriber is not None and subscriber not in subscribers:
        raise InputError(f"subscriber {subscriber!r} has no subscription; {nearest(subscriber, subscribers)}")
    selected = [documents[id]] if id is not None else list(documents.values())
    selected = [d for d in selected if subscriber in (None, d.subscription.subscriber)]
    if not selected:
        raise InputError(f"subscription {id!r} is not {subscriber}'s")
    return selected


def event_of(argument: str) -> Event:
    """The event in an argument, in the file of this name, or on standard input. Raises InputError."""
    if argument.lstrip().startswith("{"):
        place, text = Location("EVENT"), argument.encode(errors="surrogateescape")
    else:
        place, text = Location(name_of(Path(argument))), content(Path(argument))
    event = read_event(place, text.strip())
    if isinstance(event, Rejection):
        raise InputError(f"{event}; it takes one event, a JSON object")
    return event
