"""Match events for one subscription and encode its deliveries, as the tasks of the job do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from matchers.contract.tables import Int64
from matchers.index.snapshot import FieldPlan, Snapshot
from streaming import tenants
from streaming.codecs import RegistrySettings
from streaming.documents.records import OVERSIZE_EVENT
from streaming.documents.subscriptions import Subscription
from streaming.publishing.contract import RecordBatches, TopicPartition
from streaming.publishing.delivery import DeliveryRule
from streaming.publishing.encode.columns import event_columns
from streaming.publishing.encode.grouping import group
from streaming.publishing.encode.headers import headers_by_topic
from streaming.publishing.encode.interner import Interner
from streaming.publishing.encode.partitioner import partition_of
from streaming.publishing.encode.record_batches import (
    Format,
    encode,
    events_keys,
    in_pieces,
    sizes,
    subscribers_keys,
)
from streaming.rows import topic_runs
from streaming.source_topics import SourceTopics
from streaming.tenants import OWN
from streaming.worker.compiling import ChangeRecords, compile_changes
from streaming.worker.events.matches import EventMatching, decoders

if TYPE_CHECKING:
    from config.model import Settings


class ReplayBatch(NamedTuple):
    """The deliveries of some events, and what became of the others."""

    pieces: Callable[[Format], Iterator[RecordBatches]]
    matched: int  # events
    delivered: int
    oversize: int  # of these, deliveries beyond deliveries.max_bytes, and events beyond events.max_bytes
    undecodable: int  # events


def matching_of(settings: Settings, id: str, document: bytes) -> EventMatching:
    """The matching of one subscription, which the job would not reject."""
    partition, offset = np.zeros(1, np.int32), np.zeros(1, np.int64)  # they do not matter
    tenant = {OWN: tenants.own(settings)}
    record = ChangeRecords([id.encode()], pa.array([document], pa.binary()), partition, offset, tenant)
    snapshot = Snapshot().update(compile_changes(record).segment)
    registry = RegistrySettings.of(settings.schema_registry.url, settings.schema_registry.options)
    return EventMatching(
        parts=snapshot.parts,
        removed=snapshot.removed,
        plan=FieldPlan.of(snapshot.parts),
        topics=decoders(SourceTopics.of(settings).events, registry),
        false_positives=0.0,
        max_event_bytes=settings.events.max_bytes,
    )


@dataclass(frozen=True)
class ReplayMatching:
    """The matching of one subscription. Its deliveries go to `destinations`, the partitions of one topic."""

    settings: Settings
    name: str  # of the replay
    subscriber: str
    destinations: Sequence[TopicPartition]
    matching: EventMatching

    @classmethod
    def of(
        cls, settings: Settings, name: str, subscription: Subscription, document: bytes, partitions: int
    ) -> ReplayMatching:
        """Prepare the matching of a subscription and its document; its topic has that many partitions."""
        matching = matching_of(settings, subscription.id, document)
        topic = DeliveryRule.of(settings.deliveries).topic(subscription.subscriber)
        return cls(settings, name, subscription.subscriber, [(topic, p) for p in range(partitions)], matching)

    def __call__(self, rows: pa.RecordBatch) -> ReplayBatch:
        """The deliveries of events, which have the columns of `streaming.rows.INPUT`."""
        rule = DeliveryRule.of(self.settings.deliveries)
        matches = self.matching(rows)
        row, subscribers, ids = matches.between(0, len(rows))
        columns, names = event_columns(rows), Interner()
        deliveries = group(row, names.numbers(subscribers), ids, len(rows))
        topics = [(self.matching.topics[source][0], begin, end) for source, begin, end in topic_runs(rows)]
        headers = headers_by_topic(columns, deliveries.event, topics, replay=self.name)
        keys = rule.key(
            subscriber=subscribers_keys(names.names, deliveries),
            event=events_keys(columns, deliveries),
        )
        size = sizes(columns, headers, deliveries, keys)
        fits = size <= self.settings.deliveries.max_bytes
        to = self._destination(rule, columns.partition[deliveries.event])
        dead = [reason for reason, _ in matches.dead.values()]
        chosen = np.flatnonzero(fits)
        return ReplayBatch(
            pieces=lambda form: (
                encode(columns, headers, deliveries, keys, to, some, form) for some in in_pieces(chosen, size)
            ),
            matched=len(fits),
            delivered=len(chosen),
            oversize=int(np.count_nonzero(~fits)) + dead.count(OVERSIZE_EVENT),
            undecodable=len(dead) - dead.count(OVERSIZE_EVENT),
        )

    def _destination(self, rule: DeliveryRule, of_event: Int64) -> Int64:
        """[D]: the partition of each delivery, by those of the events."""
        partition = rule.partition(of_event, len(self.destinations))
        if isinstance(partition, int):  # BY_KEY, which is the subscriber
            partition = partition_of(self.subscriber.encode(), len(self.destinations))
        return np.broadcast_to(np.asarray(partition, np.int64), of_event.shape)
