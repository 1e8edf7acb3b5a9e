"""Turn the rows of a batch into Kafka records: statuses, and dead letters of what tasks could not publish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from streaming.documents import records
from streaming.documents.records import Origin, Record
from streaming.driver.batch_order import Last
from streaming.publishing.contract import Offsets, TopicPartition
from streaming.rows import (
    SUBSCRIPTIONS,
    AcceptedChange,
    ConsumerRecord,
    DeadLetter,
    RejectedChange,
    Row,
    Source,
    SourcePartition,
    of_changes,
    of_events,
    of_source,
)
from streaming.source_topics import SourceTopics
from streaming.tenants import Tenant, change_partition, topic_partition


class Outputs(Protocol):
    """The topics of subscribers.

    `missing` creates the topics that it may and returns those that do not exist. `unusual` are the numbers of
    partitions that differ from the one of new topics. `refresh` is called when that may have changed.
    """

    def missing(self, topics: Iterable[str]) -> set[str]: ...

    def unusual(self) -> Mapping[str, int]: ...

    def refresh(self) -> None: ...


@dataclass(frozen=True)
class TopicNames:
    """The names of the input and output topics."""

    sources: SourceTopics
    statuses: str
    dead_letters: str
    delivery_topic: Callable[[str], str]  # of a subscriber
    query: str = ""
    # The ids that Kafka gave the topics of subscriptions, by number (`tenants`).
    subscriptions_ids: Mapping[int, str] = field(default_factory=dict)

    @property
    def subscriptions(self) -> str:
        """The topic of subscriptions of the job itself."""
        return self.sources.names[SUBSCRIPTIONS]

    def of_change(self, change_partition: int) -> tuple[Tenant, int]:
        """The topic of a partition of changes, and its number there."""
        return topic_partition(change_partition, self.sources.tenants)

    def rejection(self, source: Source, record: ConsumerRecord, reason: str) -> RejectedChange:
        """The rejection of a change that was not compiled."""
        number = source - SUBSCRIPTIONS
        id = self.sources.tenants[number].qualified(record.key.decode(errors="replace")) if record.key else None
        return RejectedChange(record._replace(partition=change_partition(number, record.partition)), id, reason)

    def status_topic(self, tenant: Tenant) -> str:
        return tenant.status_topic or self.statuses

    def by_source(self, offsets: Offsets) -> dict[SourcePartition, int]:
        """The offsets of topics that the job reads."""
        sources = self.sources.sources
        return {(sources[topic], partition): offset for (topic, partition), offset in offsets.items()}

    def by_topic(self, positions: Mapping[SourcePartition, int]) -> dict[TopicPartition, int]:
        return {(self.sources.names[source], partition): offset for (source, partition), offset in positions.items()}


@dataclass
class Composition:
    """The records for some rows, composed anew for each attempt at a transaction."""

    names: TopicNames
    since: Callable[[Tenant], records.InForceFrom]
    last: Mapping[str, Last] = field(default_factory=dict)  # of ids that these rows change, or fail to change
    dead_letters: Counter[str] = field(default_factory=Counter, init=False)  # by reason, of the last attempt

    def records(self, rows: Sequence[Row]) -> Iterator[Record]:
        self.dead_letters.clear()
        for row in rows:
            if isinstance(row, DeadLetter):
                origin = _origin(self.names.sources.names[row.source], row.record)
                yield self._dead_letter(row.record, origin, row.reason, row.detail)
            elif isinstance(row, AcceptedChange | RejectedChange):
                yield from self.answer(row)

    def answer(self, row: AcceptedChange | RejectedChange) -> Iterator[Record]:
        """A status for every change, and a dead letter for a rejected one."""
        tenant, partition = self.names.of_change(row.record.partition)
        topic, since = self.names.status_topic(tenant), self.since(tenant)
        origin = _origin(tenant.topic, row.record)._replace(partition=partition)
        id = tenant.unqualified(row.id) if row.id else None
        last = self.last.get(row.id) if row.id else None
        place = last and (self.names.of_change(last.place[0])[1], last.place[1])
        if isinstance(row, RejectedChange):
            in_force = None if last is None or last.unsubscribed else place
            yield records.rejected_status(topic, id, origin, since, row.reason, in_force)
            yield self._dead_letter(row.record, origin, records.REJECTED_SUBSCRIPTION, row.reason)
            return
        yield records.status(
            topic,
            id,
            origin,
            since,
            subscriber=row.subscriber,
            paused=row.paused,
            superseded_by=place if place != (origin.partition, origin.offset) else None,
        )

    def _dead_letter(self, record: ConsumerRecord, origin: Origin, reason: str, detail: str) -> Record:
        self.dead_letters[reason] += 1
        return records.dead_letter(self.names.dead_letters, record, origin, reason, detail)


def _origin(topic: str, record: ConsumerRecord) -> Origin:
    return Origin(topic, record.partition, record.offset, record.timestamp_ms)


def in_force_from(
    positions: Mapping[SourcePartition, int], names: TopicNames
) -> Callable[[Tenant], records.InForceFrom]:
    """The point from which changes up to these positions are in force, in the form that each tenant gets."""
    version = sum(of_changes(positions).values())
    of_topics: dict[str, dict[str, int]] = {}
    for (source, partition), offset in of_events(positions).items():
        of_topics.setdefault(names.sources.names[source], {})[str(partition)] = offset
    since = of_topics if names.sources.by_topic else next(iter(of_topics.values()), {})

    @cache
    def of_tenant(tenant: int) -> records.InForceFrom:
        return records.InForceFrom(
            version=version,
            in_force_from=since,
            read_up_to={str(p): offset for p, offset in of_source(positions, SUBSCRIPTIONS + tenant).items()},
            query=names.query,
            topic_id=names.subscriptions_ids.get(tenant, ""),
        )

    return lambda tenant: of_tenant(tenant.number)
