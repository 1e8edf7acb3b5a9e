"""Turn the rows of a batch into Kafka records: deliveries, dead letters and statuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from matchers.index.snapshot import Part
from streaming.documents import records
from streaming.documents.records import Origin, Record
from streaming.driver.batch_order import Last
from streaming.driver.quotas import DeliveryQuota
from streaming.rows import (
    EVENTS,
    SUBSCRIPTIONS,
    Change,
    ConsumerRecord,
    DeadLetter,
    Delivery,
    Refusal,
    Row,
    Source,
    SourcePartition,
    of_source,
)
from streaming.worker import fan_out


class Outputs(Protocol):
    """The topics of subscribers.

    `missing` creates the topics that it may and returns those that do not exist; `partitions` is called for the others.
    `unusual` are the numbers of partitions that differ from the one of new topics. `refresh` is called when that may
    have changed.
    """

    def missing(self, topics: Iterable[str]) -> set[str]: ...

    def partitions(self, topic: str) -> int: ...

    def unusual(self) -> Mapping[str, int]: ...

    def refresh(self) -> None: ...


@dataclass(frozen=True)
class Names:
    """The names of the input and output topics."""

    events: str
    subscriptions: str
    statuses: str
    dead_letters: str
    delivery_topic: Callable[[str], str]  # of a subscriber
    delivery_key: Callable[[str, bytes | None], bytes | None]  # of a subscriber and the event's own key
    max_delivery_bytes: int
    delivery_partition: Callable[[int, int], int]  # of the event's partition, and of how many the topic has
    query: str = ""
    subscriptions_id: str = ""  # the id that Kafka gave the subscriptions topic

    def source(self, source: Source) -> str:
        return self.events if source == EVENTS else self.subscriptions


@dataclass
class Composition:
    """The records for some rows. They are composed anew for each attempt at a transaction, since the deliverable topics
    may have changed, and lazily, because an event can have a million deliveries."""

    names: Names
    outputs: Outputs
    quota: DeliveryQuota
    version: int
    since: records.InForceFrom
    parts: Sequence[Part]
    false_positives: float
    last: Mapping[str, Last] = field(default_factory=dict)  # of ids that these rows change, or fail to change
    # Results of the last attempt.
    delivered: int = field(default=0, init=False)
    over_quota: int = field(default=0, init=False)  # deliveries, whatever became of them
    dead_letters: Counter[str] = field(default_factory=Counter, init=False)  # by reason

    def records(self, rows: Sequence[Row], refused: Mapping[str, str]) -> Iterator[Record]:
        """The records of the rows. `refused` maps topics that the broker refuses records for to its reason."""
        topics = {self.names.delivery_topic(subscriber) for subscriber, _ in wanted(rows, self.parts)}
        missing = self.outputs.missing(topics)
        allowed = iter(self.quota.allowed(wanted(rows, self.parts)))
        self.delivered = self.over_quota = 0
        self.dead_letters.clear()
        for row in rows:
            if isinstance(row, Delivery):
                yield from self._deliveries(row, missing, refused, allowed)
            elif isinstance(row, DeadLetter):
                yield self._dead_letter(row.record, self._event(row.record), row.reason, row.detail)
            elif isinstance(row, Change | Refusal):
                yield from self.answer(row)

    def answer(self, row: Change | Refusal) -> Iterator[Record]:
        """A status for every change, and a dead letter for a refused one."""
        names, id = self.names, row.id
        origin = _origin(names.subscriptions, row.record)
        last = self.last.get(id) if id else None
        if isinstance(row, Refusal):
            in_force = None if last is None or last.withdrawn else last.place
            yield records.refused_status(names.statuses, id, origin, self.since, row.reason, in_force)
            yield self._dead_letter(row.record, origin, records.REFUSED_SUBSCRIPTION, row.reason)
            return
        place = last.place if last is not None else None
        yield records.status(
            names.statuses,
            id,
            origin,
            self.since,
            subscriber=row.subscriber,
            paused=row.paused,
            superseded_by=place if place != (origin.partition, origin.offset) else None,
        )

    def _deliveries(
        self, row: Delivery, missing: set[str], refused: Mapping[str, str], allowed: Iterator[bool]
    ) -> Iterator[Record]:
        names, event = self.names, row.record
        origin = self._event(event)
        headers = records.event_headers(event.headers, origin, self.version, false_positives=self.false_positives)
        common = len(event.value or b"") + records.size_of(headers) + records.IDS_OVERHEAD
        for subscriber, ids in deliveries(row, self.parts):
            topic = names.delivery_topic(subscriber)
            partition = names.delivery_partition(event.partition, self.outputs.partitions(topic))
            key = names.delivery_key(subscriber, event.key)
            record = records.delivery(topic, key, event.value, headers, ids, partition)
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
            yield self._dead_letter(event, origin, reason, detail, **about)

    def _dead_letter(self, record: ConsumerRecord, origin: Origin, reason: str, detail: str, **about: str) -> Record:
        self.dead_letters[reason] += 1
        return records.dead_letter(self.names.dead_letters, record, origin, reason, detail, **about)

    def _event(self, record: ConsumerRecord) -> Origin:
        return _origin(self.names.events, record)


def _origin(topic: str, record: ConsumerRecord) -> Origin:
    return Origin(topic, record.partition, record.offset, record.timestamp_ms)


def deliveries(row: Delivery, parts: Sequence[Part]) -> Iterator[tuple[str, str]]:
    """(subscriber, ids as a JSON list)."""
    few = zip(row.subscribers, row.subscriptions, strict=True)
    return fan_out.deliveries(parts, row.matches, dict(few)) if row.matches else few


def _to(row: Delivery, parts: Sequence[Part]) -> Iterable[str]:
    """The subscribers of an event; computed again where they are very many."""
    return (subscriber for subscriber, _ in deliveries(row, parts)) if row.matches else row.subscribers


def wanted(rows: Iterable[Row], parts: Sequence[Part]) -> Iterator[tuple[str, int]]:
    """All deliveries, as (subscriber, the event's time)."""
    return (
        (subscriber, row.record.timestamp_ms)
        for row in rows
        if isinstance(row, Delivery)
        for subscriber in _to(row, parts)
    )


def in_force_from(positions: Mapping[SourcePartition, int], names: Names) -> records.InForceFrom:
    """The point from which changes are in force that bring the state to these positions."""
    events, subscriptions = of_source(positions, EVENTS), of_source(positions, SUBSCRIPTIONS)
    version = sum(subscriptions.values())
    return records.InForceFrom(
        version=version,
        in_force_from={str(p): offset for p, offset in events.items()},
        read_up_to={str(p): offset for p, offset in subscriptions.items()},
        query=names.query,
        topic_id=names.subscriptions_id,
    )
