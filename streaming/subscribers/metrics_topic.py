"""Read the metrics topic into sums, and write what changed: both by one producer, which fences that of an older job."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Message

from streaming.documents.records import Record
from streaming.documents.subscriber_metrics import SubscriberMetrics, SubscriptionMetrics, read_metrics
from streaming.kafka import clients
from streaming.kafka.clients import Cluster
from streaming.publishing.connection.client import Client
from streaming.publishing.producer import TransactionalProducer
from streaming.subscribers.totals import Totals, Unwritten

AT_ONCE = 10_000  # records


def producer_name(query: str) -> str:
    """The transactional id of the producer: that of no slot, and under the prefix of them all."""
    return f"{query}/metrics"


@dataclass(frozen=True)
class MetricsTopic:
    """The metrics topic of the job of this query. All raise JobError."""

    cluster: Cluster
    name: str
    query: str

    def opened(self, client: Client) -> TransactionalProducer:
        """The producer. From then on no older one of the query writes."""
        return TransactionalProducer(client, producer_name(self.query))

    def client(self) -> closing[Client]:
        return closing(Client(self.cluster.bootstrap_servers, self.cluster.options))

    def totals(self) -> Totals:
        """The sums in the topic."""
        return totals_of(clients.read(self.cluster, [self.name], follow=False), self.query)

    def records(self, totals: Totals, chosen: Unwritten, written_ms: int) -> list[Record]:
        subscribers = totals.metrics_of(chosen.subscribers)
        subscriptions = totals.subscription_metrics_of(chosen.subscriptions)
        return [
            *(Record(self.name, key, None, []) for key in chosen.gone),
            *(one.record(self.name, written_ms) for one in subscribers),
            *(one.record(self.name, written_ms) for one in subscriptions),
        ]


def totals_of(records: Iterable[Message | None], query: str) -> Totals:
    """The sums in these records of one partition after the other; those of other queries are left out."""
    totals = Totals(query)
    last: dict[bytes, SubscriberMetrics | SubscriptionMetrics] = {}
    owners: dict[str, str] = {}  # by subscription

    def take() -> None:
        totals.replace(list(last.values()))
        last.clear()
        owners.clear()

    for record in records:
        if record is None or (key := record.key()) is None:
            continue
        value = record.value()
        metrics = None if value is None else read_metrics(value)
        if value is None:
            take()
            totals.forget(key)
        elif metrics is not None and metrics.query == query:
            owner = metrics.subscriber
            id = metrics.subscription if isinstance(metrics, SubscriptionMetrics) else None
            if len(last) >= AT_ONCE or (id is not None and owners.get(id, owner) != owner):
                take()
            last[key] = metrics
            if id is not None:
                owners[id] = owner
    take()
    return totals
