"""The slots of a query, as the driver sees them: it alone opens them, and so fences whoever used them before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from streaming.kafka.sink import TransactionalSink
from streaming.publishing.connection.client import Client
from streaming.publishing.contract import Offsets, Producer, TopicPartition
from streaming.publishing.sweep import settle, slot_name
from streaming.rows import SlotReport
from streaming.worker.publishing import Publication

if TYPE_CHECKING:
    from config.model import Settings


@dataclass
class Slots:
    """Who may publish, from batch to batch.

    The order matters (GUARANTEES.md): the sink opens its own producer, `sweep` fences all slots that were ever used,
    then the committed offsets are read and the sink claims them; only then `open` lets tasks publish.
    """

    client: Client
    sink: TransactionalSink
    publication: Publication  # but for what changes from batch to batch
    partitions: Sequence[TopicPartition]  # of both topics
    _producers: list[Producer] = field(default_factory=list, init=False)

    @classmethod
    def of(cls, settings: Settings, sink: TransactionalSink, partitions: Sequence[TopicPartition]) -> Slots:
        kafka, deliveries = settings.kafka, settings.deliveries
        publication = Publication(
            bootstrap_servers=kafka.bootstrap_servers,
            options=kafka.client,
            query=settings.query.name,
            note="",
            producers=(),
            version=0,
            events=settings.events.topic,
            dead_letters=settings.dead_letters.topic,
            prefix=deliveries.prefix,
            shared=deliveries.topic if deliveries.layout == "shared" else "",
            max_bytes=deliveries.max_bytes,
            max_matches=settings.matching.max_per_event,
        )
        return cls(Client(kafka.bootstrap_servers, kafka.client), sink, publication, partitions)

    def sweep(self, least: int = 0) -> Offsets:
        """Fence all slots that were ever used, and at least so many; returns what is committed then."""
        used = max(least, self.sink.slots, self.sink.slots_used(self.partitions))
        query = self.publication.query
        names = [slot_name(query, number) for number in range(used)]
        settled = settle(self.client, names, query, self.partitions)
        self._producers = [settled.producers[name] for name in names]
        self.sink.slots = used
        return settled.offsets

    def open(self, number: int) -> None:
        """Let as many tasks publish. A number beyond those that are noted is noted first."""
        if number > self.sink.slots:
            self.sink.slots = number
            self.claim(self.partitions)
            self.sweep()

    def claim(self, partitions: Iterable[TopicPartition]) -> None:
        """Commit offsets again. Raises Fenced if another job has taken over."""
        self.sink.claim(partitions)

    def settle(self, own: Iterable[TopicPartition]) -> Offsets:
        """After a task failed, find out what is committed. `own` are partitions whose offsets no slot commits.

        If another job has taken over, its slots are not to be fenced: so the claim comes first.
        """
        self.claim(own)
        offsets = self.sweep()
        self.sink.moved(offsets)
        self.claim(own)
        return offsets

    def work(self, number: int, version: int, absent: frozenset[str]) -> Publication:
        """What `number` tasks need to publish."""
        producers = tuple(self._producers[:number])
        return replace(self.publication, note=self.sink.note, producers=producers, version=version, absent=absent)

    def take(self, reports: Iterable[SlotReport]) -> None:
        """Take the producers that tasks left."""
        for report in reports:
            self._producers[report.slot] = Producer(report.producer_id, report.epoch)

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.sink.moved(offsets)

    def close(self) -> None:
        self.client.close()
