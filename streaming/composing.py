"""What is written of the rows of a batch: deliveries, dead letters and statuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from matchers.snapshot import Part
from streaming import fan_out, records
from streaming.matching import CHANGE, DEAD, DELIVER, EVENTS, MANY, PAUSED, REFUSED, SUBSCRIPTIONS, Position, of_source
from streaming.quotas import DeliveryQuota
from streaming.records import Origin, Record

Row = Mapping[str, Any]


class Outputs(Protocol):
    """The topics of subscribers. `missing` makes those that it may; what it returns does not exist. `refresh` is
    called when that may have changed."""

    def missing(self, topics: Iterable[str]) -> set[str]: ...

    def refresh(self) -> None: ...


@dataclass(frozen=True)
class Names:
    """Where things are read from and written to."""

    events: str
    subscriptions: str
    statuses: str
    dead_letters: str
    delivery_topic: Callable[[str], str]  # of a subscriber
    delivery_key: Callable[[str, bytes | None], bytes | None]  # of a subscriber and the event's own key
    max_delivery_bytes: int

    def source(self, source: int) -> str:
        return self.events if source == EVENTS else self.subscriptions


@dataclass
class Composition:
    """The records of some rows: made anew for each attempt at a transaction, since what may be delivered can have
    changed, and one by one, because an event can have a million deliveries.
    """

    names: Names
    outputs: Outputs
    quota: DeliveryQuota
    version: int
    standing: records.Standing
    parts: Sequence[Part]
    false_positives: float
    # What the last attempt made.
    delivered: int = field(default=0, init=False)
    over_quota: int = field(default=0, init=False)  # deliveries, whatever became of them
    dead_letters: Counter[str] = field(default_factory=Counter, init=False)  # by reason

    def records(self, rows: Sequence[Row], refused: Mapping[str, str]) -> Iterator[Record]:
        """`refused` are topics that the broker takes no such record for, and what it says."""
        missing = self.outputs.missing({self.names.delivery_topic(s) for row in rows for s in _to(row, self.parts)})
        allowed = iter(self.quota.allowed(wanted(rows, self.parts)))
        self.delivered = self.over_quota = 0
        self.dead_letters.clear()
        for row in rows:
            if row["kind"] in (DELIVER, MANY):
                yield from self._deliveries(row, missing, refused, allowed)
            elif row["kind"] == DEAD:
                yield self._dead_letter(row, row["letter"], row["reason"])
            elif row["kind"] in (CHANGE, REFUSED):
                yield from self.answer(row)

    def answer(self, row: Row) -> Iterator[Record]:
        """A status for every change; a dead letter too for one that was refused."""
        names, origin = self.names, self._origin(row)
        id = next(iter(row["subscriptions"]), None)
        if row["kind"] == REFUSED:
            yield records.status(names.statuses, id, origin, self.standing, refused=row["reason"])
            yield self._dead_letter(row, records.REFUSED_SUBSCRIPTION, row["reason"])
            return
        subscriber = next(iter(row["subscribers"]), None)
        yield records.status(
            *(names.statuses, id, origin, self.standing),
            subscriber=subscriber,
            withdrawn=subscriber is None,
            paused=row["reason"] == PAUSED,
        )

    def _deliveries(
        self, row: Row, missing: set[str], refused: Mapping[str, str], allowed: Iterator[bool]
    ) -> Iterator[Record]:
        names = self.names
        headers = records.event_headers(row, self._origin(row), self.version, false_positives=self.false_positives)
        common = len(row["value"] or b"") + records.size_of(headers) + records.IDS_OVERHEAD
        for subscriber, ids in deliveries(row, self.parts):
            topic = names.delivery_topic(subscriber)
            record = records.delivery(topic, names.delivery_key(subscriber, row["key"]), row["value"], headers, ids)
            size = common + len(record.key or b"") + len(record.headers[-1][1] or b"")
            if not next(allowed):
                self.over_quota += 1
                if self.quota.drop:
                    continue
                reason = records.OVER_QUOTA
                detail = f"more than {self.quota.most:,} deliveries of a second (quotas.deliveries_per_second)"
            elif topic in missing:
                reason, detail = records.MISSING_TOPIC, f"topic {topic} of subscriber {subscriber} does not exist"
            elif size > names.max_delivery_bytes:
                reason = records.OVERSIZE
                detail = f"{size} bytes with headers; deliveries.max_bytes is {names.max_delivery_bytes}"
            elif topic in refused:
                reason, detail = records.TOPIC_REFUSED, f"the broker refuses it for topic {topic}: {refused[topic]}"
            else:
                self.delivered += 1
                yield record
                continue
            about = {"subscriber": subscriber, "subscriptionids": ids, "matchversion": str(self.version)}
            if self.false_positives:
                about["approximate"] = str(self.false_positives)
            yield self._dead_letter(row, reason, detail, **about)

    def _dead_letter(self, row: Row, reason: str, detail: str, **about: str) -> Record:
        self.dead_letters[reason] += 1
        return records.dead_letter(self.names.dead_letters, row, self._origin(row), reason, detail, **about)

    def _origin(self, row: Row) -> Origin:
        return Origin(self.names.source(row["source"]), row["partition"], row["offset"], row["timestamp"])


def deliveries(row: Row, parts: Sequence[Part]) -> Iterator[tuple[str, str]]:
    """(subscriber, ids as a JSON list) of a DELIVER or MANY row."""
    few = zip(row["subscribers"], row["subscriptions"], strict=True)
    return fan_out.deliveries(parts, row["matches"], dict(few)) if row["kind"] == MANY else few


def _to(row: Row, parts: Sequence[Part]) -> Iterable[str]:
    """The subscribers that a row is delivered to; made anew where they are very many."""
    if row["kind"] == MANY:
        return (subscriber for subscriber, _ in deliveries(row, parts))
    return row["subscribers"] if row["kind"] == DELIVER else ()


def wanted(rows: Iterable[Row], parts: Sequence[Part]) -> Iterator[tuple[str, int]]:
    """All deliveries, as (subscriber, the event's time)."""
    return ((subscriber, row["timestamp"]) for row in rows for subscriber in _to(row, parts))


def standing(positions: Mapping[Position, int]) -> records.Standing:
    """Of the changes that bring the state to these positions: its version, and the events from which on they count."""
    version = sum(of_source(positions, SUBSCRIPTIONS).values())
    return records.Standing(version, {str(p): offset for p, offset in of_source(positions, EVENTS).items()})
