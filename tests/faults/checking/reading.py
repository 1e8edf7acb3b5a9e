"""Read the topics incrementally, also across deletions of a topic."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from config import Settings
from rig.check import Changes, Deliveries, Events, Statuses
from rig.reading import deliveries_of, statuses_of
from rig.records import (
    NOTHING,
    DeliveryRecord,
    RecordOrigin,
    StatusRecord,
    change_of,
    delivery_of,
    event_of,
    origin_of,
    status_of,
    subscriber_of,
)
from streaming.documents.messages import place_of, topic_of
from streaming.kafka import clients
from streaming.kafka.clients import Cluster
from streaming.kafka.topics import Topics
from tests.faults.load.transactions import FILLER, OF_TRANSACTION

LATEST_MS = 253_402_300_800_000  # the year 10000


class Dead(NamedTuple):
    origin: RecordOrigin
    reason: str
    key: bytes | None
    value: bytes | None


@dataclass
class Reading:
    """Each list is in the order of its log, deliveries by topic. What is no event or no change is a row that says so,
    and its bytes are in `rubbish`. `partitions` are those of each source at the beginning."""

    cluster: Cluster
    settings: Settings
    partitions: int
    # By partition: symbol, price, volume, checksum; -1 of rubbish, and of offsets without an event.
    events: list[array[int]] = field(init=False)
    transactional: dict[RecordOrigin, int] = field(default_factory=dict)  # the numbers of events of transactions
    changes: list[array[int]] = field(init=False)  # by partition: id, subscriber, symbol, low, high, low, high
    statuses: list[StatusRecord] = field(default_factory=list)
    deliveries: dict[int, list[DeliveryRecord]] = field(default_factory=dict)  # by subscriber
    dead: list[Dead] = field(default_factory=list)
    rubbish: dict[RecordOrigin, tuple[bytes | None, bytes | None]] = field(default_factory=dict)  # key, value
    # What is right but for its timestamp, which a job may take or set aside.
    strange: dict[RecordOrigin, tuple[bytes | None, bytes | None]] = field(default_factory=dict)  # key, value
    _starts: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.events = [array("q") for _ in range(self.partitions)]
        self.changes = [array("q") for _ in range(self.partitions)]

    def added(self) -> None:
        """Count a partition that was added to both sources."""
        self.partitions += 1
        self.events.append(array("q"))
        self.changes.append(array("q"))

    def advance(self) -> None:
        """The sources last, so that all that is answered is known."""
        there = Topics(self.cluster.bootstrap_servers, self.cluster.options).partitions()
        deliveries = [topic for topic in there if topic.startswith(self.settings.deliveries.prefix)]
        status_topic, dead_letters = self.settings.subscriptions.status_topic, self.settings.dead_letters.topic
        for message in self._new([status_topic, dead_letters, *deliveries]):
            if message.topic() == status_topic:
                self.statuses.append(status_of(message.value()))
            elif message.topic() == dead_letters:
                self.dead.append(_dead(message))
            else:
                self._deliver(message)
        events = self.settings.events.topic
        for message in self._new([events, self.settings.subscriptions.topic]):
            if message.topic() == events:
                self._keep(message, self.events[message.partition()], event_of)
            else:
                self._keep(message, self.changes[message.partition()], change_of)

    def subscriber(self, number: int) -> None:
        """The deliveries to one."""
        for message in self._new([self.topic_of(number)]):
            self._deliver(message)

    def topic_of(self, subscriber: int) -> str:
        return f"{self.settings.deliveries.prefix}r{subscriber}"

    def deleted(self, topic: str) -> None:
        """Whatever has that name next begins anew."""
        self._starts = {at: offset for at, offset in self._starts.items() if at[0] != topic}

    def as_events(self, ends: Mapping[tuple[str, int], int], aside: Collection[RecordOrigin] = ()) -> Events:
        """Return the events before `ends`, without those set `aside`."""
        return Events.of(_parts(self.events, 4, self.settings.events.topic, ends, aside))

    def as_changes(self, ends: Mapping[tuple[str, int], int], aside: Collection[RecordOrigin] = ()) -> Changes:
        return Changes.of(_parts(self.changes, 7, self.settings.subscriptions.topic, ends, aside))

    def as_statuses(self, changes: Changes) -> Statuses:
        """Return the statuses of these changes. A status of a change beyond the end of the topic belongs to no
        change."""
        n, sizes = self.partitions, np.diff(changes.start).tolist()
        chosen = (
            s for s in self.statuses if s.partition >= n or not sizes[s.partition] <= s.offset < self.read(s.partition)
        )
        return statuses_of(((status, 0) for status in chosen), changes, n)

    def read(self, partition: int) -> int:
        """Return the number of known changes of a partition."""
        return len(self.changes[partition]) // 7

    def as_deliveries(self, events: Events) -> tuple[list[DeliveryRecord], Deliveries]:
        """Return the deliveries of these events, and those without an event."""
        sizes = np.diff(events.start).tolist()
        known = [len(part) // 4 for part in self.events]
        found = [
            d
            for own in self.deliveries.values()
            for d in own
            if d.partition >= len(sizes) or not sizes[d.partition] <= d.offset < known[d.partition]
        ]
        return found, deliveries_of(found, events)

    def _keep(self, message: Any, rows: array[int], parse: Callable[[Any, Any], list[int]]) -> None:
        """Offsets come from 0 on. Among events there are gaps: ends of transactions, what was aborted or compacted."""
        key, value = message.key(), message.value()
        row = parse(key, value)
        gap = message.offset() - len(rows) // len(row)
        is_event = parse is event_of
        assert gap == 0 or (gap > 0 and is_event), f"a record of {message.topic()} is gone"
        rows.extend([NOTHING, 0, 0, 0] * gap)
        origin = RecordOrigin(message.topic(), message.partition(), message.offset())
        if is_event and key == FILLER:
            rows.extend([NOTHING, 0, 0, crc32(value)])
            return
        if is_event and key is not None and key.startswith(OF_TRANSACTION):
            self.transactional[origin] = int(key.removeprefix(OF_TRANSACTION))
        if row[0] == NOTHING:
            self.rubbish[origin] = message.key(), message.value()
        elif not 0 < message.timestamp()[1] < LATEST_MS:
            self.strange[origin] = message.key(), message.value()
        rows.extend(row)

    def _deliver(self, message: Any) -> None:
        subscriber = subscriber_of(message, self.settings.deliveries.prefix)
        delivery = delivery_of(subscriber, dict(message.headers()), message.value())
        self.deliveries.setdefault(subscriber, []).append(delivery)

    def _new(self, topics: Sequence[str]) -> Iterator[Any]:
        for message in clients.read(self.cluster, topics, follow=False, starts=self._starts):
            assert message is not None
            partition, offset = place_of(message)
            self._starts[topic_of(message), partition] = offset + 1
            yield message


def _dead(message: Any) -> Dead:
    headers = dict(message.headers())
    return Dead(origin_of(headers), headers["sluice_reason"].decode(), message.key(), message.value())


def _parts(
    columns: list[array[int]],
    width: int,
    topic: str,
    ends: Mapping[tuple[str, int], int],
    aside: Collection[RecordOrigin],
) -> list[Any]:
    parts = [np.array(part, np.int64).reshape(-1, width)[: ends[topic, p]] for p, part in enumerate(columns)]
    for at in aside:
        if at.topic == topic and at.offset < len(parts[at.partition]):
            parts[at.partition][at.offset, :2] = NOTHING  # of an event the symbol, of a change the id and who it is for
    return parts
