"""Publish single records, such as statuses, dead letters and redriven events, in transactions encoded as columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType

import numpy as np

from streaming.documents.records import BY_KEY, Record
from streaming.log import logger
from streaming.publishing.batch_limits import BatchLimits
from streaming.publishing.connection.client import GONE_S, Client
from streaming.publishing.contract import Aborted, Notes, Offsets, RecordBatches, TopicPartition
from streaming.publishing.encode.partitioner import partition_of
from streaming.publishing.encode.record_batches import Format, of_records_in_pieces
from streaming.publishing.slot import Committed, Slot

log = logger("sluice.publishing")

# One event may have a million dead letters. When we die, the next one of our name does not wait for this.
TIMEOUT_MS = 300_000
LOOK_AGAIN_S = 0.05  # for a topic that was just made


class TransactionalProducer:
    """The only producer of its name. Opening it aborts the transactions of older producers, which cannot commit again.

    `name` is its transactional id, and the group whose offsets it commits.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._slot = Slot(client, name, name, TIMEOUT_MS)
        self._limits = BatchLimits(client.options.batch_bytes)
        self.began_s = time.monotonic()  # the last transaction
        self.newest = self._slot.open()

    @property
    def timeout_s(self) -> float:
        """The longest time that a transaction may take."""
        return self._slot.timeout_ms / 1000

    @property
    def is_timed_out(self) -> bool:
        """Whether the last transaction has taken so long that the broker may have ended it: then an Unsettled does not
        show that another producer was opened."""
        return time.monotonic() - self.began_s >= self.timeout_s

    def publish(
        self, records: Iterable[Record], offsets: Offsets = MappingProxyType({}), notes: Notes = MappingProxyType({})
    ) -> Committed:
        """Commit the records together with the offsets, of which `notes` become the metadata.

        Raises Aborted, after which a retry may succeed; Unsettled if another producer of this name was opened, or the
        transaction timed out; or another JobError. After the last two, open a new producer.
        """
        listed = list(records)
        partitions = self._partitions({record.topic for record in listed})
        numbers: dict[TopicPartition, int] = {}
        to = [numbers.setdefault(_destination(record, partitions), len(numbers)) for record in listed]
        return self.publish_pieces(
            lambda form: of_records_in_pieces(zip(listed, to, strict=True), form), list(numbers), offsets, notes
        )

    def publish_pieces(
        self,
        pieces: Callable[[Format], Iterable[RecordBatches]],
        destinations: Sequence[TopicPartition],
        offsets: Offsets,
        notes: Notes,
    ) -> Committed:
        """Publish record batches like `publish`, encoding the next ones in this format while others are being sent.
        `pieces` is called again for smaller batches if a topic rejects some as too large."""
        while True:
            self.began_s = time.monotonic()
            form = Format(
                producer=self.newest,
                sequence=np.zeros(len(destinations), np.int64),
                batch_bytes=self._limits.of(destinations),
                timestamp_ms=int(time.time() * 1000),
                compression=self._client.options.compression,
            )
            try:
                committed = self._slot.publish(self.newest, pieces(form), destinations, offsets, notes)
            except Aborted as aborted:
                self.newest = aborted.producer
                if aborted.rejected or aborted.gone or not aborted.too_large:
                    raise
                log.info("batch_bytes_reduced", topics=sorted(aborted.too_large))
                self._limits.reduce(aborted.too_large)
            else:
                self.newest = committed.producer
                return committed

    def _partitions(self, topics: AbstractSet[str]) -> Mapping[str, int]:
        """Return the number of partitions of each topic. A broker may not list a topic yet that was just created."""
        until = time.monotonic() + GONE_S
        while missing := topics - (there := self._client.partitions(topics)).keys():
            if time.monotonic() > until:
                reason = f"topic {min(missing)} does not exist, or this user may not see it"
                raise Aborted(reason, self.newest, gone=frozenset(missing))
            time.sleep(LOOK_AGAIN_S)
        return there


def _destination(record: Record, partitions: Mapping[str, int]) -> TopicPartition:
    by_key = record.partition == BY_KEY
    return record.topic, partition_of(record.key, partitions[record.topic]) if by_key else record.partition
