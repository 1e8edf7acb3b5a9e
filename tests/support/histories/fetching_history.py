"""Histories of a fetcher whose brokers grow, fail, move partitions and forget sessions, and whose answers are lost."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from kafka import errors

from streaming.publishing.connection.client import Client
from streaming.publishing.contract import TopicPartition
from streaming.reading.contract import Position
from streaming.reading.fetcher import Fetcher
from streaming.reading.requests import FetchLimits
from streaming.rows import EVENTS, SUBSCRIPTIONS, ConsumerRecord, consumer_records
from tests.support.doubles.broker_logs import NODES
from tests.support.doubles.fetch_brokers import FetchBrokers, Log
from tests.support.doubles.fetched_batches import CODECS, TRANSACTIONAL, marker
from tests.support.doubles.wire import HOSTS, PORT, Frame, Wire, whole
from tests.support.histories.spoiled_answers import OF_FRAMES

ADDRESS = ",".join(f"{host}:{PORT}" for host in HOSTS.values())
SOURCES = {"events": EVENTS, "changes": SUBSCRIPTIONS}
STEPS = 30
PASSING = (
    errors.NotLeaderForPartitionError.errno,
    errors.FencedLeaderEpochError.errno,
    errors.UnknownLeaderEpochError.errno,
    errors.KafkaStorageError.errno,
    errors.OffsetNotAvailableError.errno,
    errors.ReplicaNotAvailableError.errno,
    errors.UnknownError.errno,
)
# Without an answer a request takes long to fail, and of an answer that lacks its end others would be the end.
FAULTS = [kind for kind in OF_FRAMES if kind not in ("no answer", "silence amid the answer")]
MOST_POLLS = 3_000


class _History:
    def __init__(self, patch: pytest.MonkeyPatch, r: Random) -> None:
        self._r = r
        self.brokers = FetchBrokers()
        self.brokers.opens = r.random() < 0.8
        self.at: list[TopicPartition] = [("events", 0), ("events", 1), ("events", 2), ("changes", 0)]
        self.logs = {at: Log(r.choice(NODES), replicas=NODES) for at in self.at}
        self.brokers.partition_logs |= self.logs
        self.expected: dict[TopicPartition, list[int]] = {at: [] for at in self.at}
        self.read: dict[TopicPartition, list[int]] = {at: [] for at in self.at}
        self.assigned = self.at
        self.wire = Wire(self.brokers)
        self.wire.install(patch)
        self.wire.spoil = self._spoil
        limits = FetchLimits(500, 1, r.choice([1, 300, 8 << 20]), r.choice([1, 150, 4 << 20]))
        client = Client(ADDRESS, {"client.rack": r.choice(["", "here"]), "metadata.max.age.ms": "5000"})
        self.fetcher = Fetcher(
            client, SOURCES, dict.fromkeys(self.at, Position(0)), limits=limits, piece_bytes=r.choice([50, 1 << 24])
        )

    def step(self) -> None:
        r = self._r
        at = r.choice(self.at)
        log = self.logs[at]
        match r.randrange(11):
            case 0 | 1 | 2:
                self._append(at, log)
            case 3:
                log.leader = r.choice([*NODES, -1])
                log.epochs.append((log.epochs[-1][0] + 1, log.end))
            case 4:
                log.errors = {node: r.choice([0, *PASSING]) for node in NODES}
            case 5:
                log.preferred = r.choice([-1, *NODES])
            case 6:
                if r.random() < 0.5:
                    self.brokers.sessions.clear()
                for session in self.brokers.sessions.values():
                    session.epoch += 1
            case 7 | 8:
                self.assign(r.sample(self.at, r.randint(1, len(self.at))))
            case _:
                self.poll()

    def _append(self, at: TopicPartition, log: Log) -> None:
        r = self._r
        base = log.end + r.choice([0, 0, 3])
        some = [ConsumerRecord(at[1], base + i, 0, b"k", b"%d" % (base + i)) for i in range(r.choice([1, 2, 5]))]
        if r.random() < 0.2:
            log.append(some, producer=9, attributes=TRANSACTIONAL)
            log.append_bytes(marker(log.end, 9, commit=False), log.end, log.end + 1)
            log.aborted = [*log.aborted, (9, base, log.end - 1)]
            return
        log.append(some, r.choice([*CODECS]))
        self.expected[at] += [record.offset for record in some]

    def _spoil(self, name: str, response: Any) -> Iterable[Frame]:
        if name != "Fetch" or self._r.random() > 0.1:
            return whole(name, response)
        kind = self._r.choice(FAULTS)
        (frame,) = (frame for _, frame in whole(name, response))
        assert frame is not None
        return OF_FRAMES[kind](frame, self._r.getrandbits(31) if kind != "late" else 3, self._r.getrandbits(31))

    def poll(self) -> None:
        item = self.fetcher.poll(self._r.choice([0.0, 0.1, 1.0]))
        if item is None:
            return
        for source, record in zip(item.rows["source"].to_pylist(), consumer_records(item.rows), strict=True):
            assert record.value == b"%d" % record.offset
            self.read["events" if source == EVENTS else "changes", record.partition].append(record.offset)
        for at in self.assigned:
            position = self.fetcher.positions[at].offset
            assert self.read[at] == [offset for offset in self.expected[at] if offset < position]

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Go on with these. Some are read again from an earlier record on, as after a task that died."""
        for at in self.at:
            if self.read[at] and self._r.random() < 0.3:
                del self.read[at][self._r.randrange(len(self.read[at])) :]
        self.assigned = partitions
        begins = {at: self.read[at][-1] + 1 if self.read[at] else 0 for at in partitions}
        self.fetcher.assign(SOURCES, {at: Position(offset) for at, offset in begins.items()})

    def finish(self) -> None:
        """Without further faults all records are read."""
        self.wire.spoil = whole
        for log in self.logs.values():
            log.errors, log.leader, log.preferred = {}, max(log.leader, 0), -1
        self.assign(self.at)
        for _ in range(MOST_POLLS):
            if self.read == self.expected:
                break
            self.poll()
        assert self.read == self.expected
        self.fetcher.close()
        assert all(socket.closed for socket in self.wire.sockets)


def run(patch: pytest.MonkeyPatch, r: Random) -> None:
    """Raises AssertionError, Hang, or what a fetcher should not raise."""
    history = _History(patch, r)
    for _ in range(STEPS):
        history.step()
    history.finish()
