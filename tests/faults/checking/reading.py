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
from tests.faults.checking.sources import Partitions, status_topics, tenants_of
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
    and its bytes are in `rubbish`. `partitions` is how many each topic that the job reads has at the beginning. Those
    of all topics of events are numbered together, and those of all topics of subscriptions."""

    cluster: Cluster
    settings: Settings
    partitions: int
    event_partitions: Partitions = field(init=False)
    change_partitions: Partitions = field(init=False)
    # By partition: symbol, price, volume, checksum; -1 of rubbish, and of offsets without an event.
    events: list[array[int]] = field(init=False)
    transactional: dict[RecordOrigin, int] = field(default_factory=dict)  # the numbers of events of transactions
    changes: list[array[int]] = field(init=False)  # by partition: id, subscriber, symbol, low, high, low, high
    statuses: list[StatusRecord] = field(default_factory=list)
    deliveries: dict[int, list[DeliveryRecord]] = field(default_factory=dict)  # live, by subscriber
    past: dict[tuple[int, str], list[DeliveryRecord]] = field(default_factory=dict)  # by subscriber and replay
    dead: list[Dead] = field(default_factory=list)
    rubbish: dict[RecordOrigin, tuple[bytes | None, bytes | None]] = field(default_factory=dict)  # key, value
    # What is right but for its timestamp, which a job may take or set aside.
    strange: dict[RecordOrigin, tuple[bytes | None, bytes | None]] = field(default_factory=dict)  # key, value
    _starts: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tenants, self._of_statuses = tenants_of(self.settings), status_topics(self.settings)
        self.event_partitions = Partitions(self.settings.events.names, self.partitions)
        self.change_partitions = Partitions([*self.tenants], self.partitions)
        self.events = [array("q") for _ in self.event_partitions.places]
        self.changes = [array("q") for _ in self.change_partitions.places]

    def added(self) -> None:
        """Count a partition that was added to each topic that the job reads."""
        self.partitions += 1
        self.event_partitions.add()
        self.change_partitions.add()
        self.events += [array("q") for _ in self.event_partitions.topics]
        self.changes += [array("q") for _ in self.change_partitions.topics]

    def advance(self) -> None:
        """The sources last, so that all that is answered is known."""
        there = Topics(self.cluster.bootstrap_servers, self.cluster.options).partitions()
        deliveries = [topic for topic in there if topic.startswith(self.settings.deliveries.prefix)]
        dead_letters = self.settings.dead_letters.topic
        for message in self._new([*self._of_statuses, dead_letters, *deliveries]):
            if message.topic() in self._of_statuses:
                self.statuses.append(self._status(message))
            elif message.topic() == dead_letters:
                self.dead.append(_dead(message))
            else:
                self._deliver(message)
        for message in self._new([*self.event_partitions.topics, *self.tenants]):
            at = message.topic(), message.partition()
            if message.topic() in self.tenants:
                self._keep(
                    message, self.changes[self.change_partitions.number(*at)], self.tenants[message.topic()].change
                )
            else:
                self._keep(message, self.events[self.event_partitions.number(*at)], event_of)

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
        return Events.of(_parts(self.events, 4, self.event_partitions, ends, aside))

    def as_changes(self, ends: Mapping[tuple[str, int], int], aside: Collection[RecordOrigin] = ()) -> Changes:
        return Changes.of(_parts(self.changes, 7, self.change_partitions, ends, aside))

    def as_statuses(self, changes: Changes) -> Statuses:
        """Return the statuses of these changes. A status of a change beyond the end of the topic belongs to no
        change."""
        n, sizes = len(self.change_partitions), np.diff(changes.start).tolist()
        chosen = (
            s for s in self.statuses if s.partition >= n or not sizes[s.partition] <= s.offset < self.read(s.partition)
        )
        return statuses_of(chosen, changes, len(self.event_partitions))

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
        headers = dict(message.headers())
        delivery = delivery_of(subscriber, headers, message.value())
        topic = headers["ce_id"].rsplit(b"-", 2)[0].decode()
        delivery = delivery._replace(partition=self.event_partitions.number(topic, delivery.partition))
        if (replay := headers.get("sluice_replay")) is not None:
            self.past.setdefault((subscriber, replay.decode()), []).append(delivery)
        else:
            self.deliveries.setdefault(subscriber, []).append(delivery)

    def _status(self, message: Any) -> StatusRecord:
        status = status_of(message.value())
        partition = self.change_partitions.number(self._of_statuses[message.topic()], status.partition)
        by_topic: Any = status.in_force_from
        if not self.settings.events.by_topic:
            by_topic = {self.settings.events.topic: by_topic}
        begins = {
            str(self.event_partitions.number(topic, int(p))): offset
            for topic, offsets in by_topic.items()
            for p, offset in offsets.items()
        }
        return status._replace(partition=partition, in_force_from=begins)

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
    partitions: Partitions,
    ends: Mapping[tuple[str, int], int],
    aside: Collection[RecordOrigin],
) -> list[Any]:
    parts = [
        np.array(part, np.int64).reshape(-1, width)[: ends[at]]
        for at, part in zip(partitions.places, columns, strict=True)
    ]
    for origin in aside:
        number = partitions.number(origin.topic, origin.partition)
        if number < len(parts) and origin.offset < len(parts[number]):
            parts[number][origin.offset, :2] = NOTHING  # of an event the symbol, of a change the id and who it is for
    return parts
