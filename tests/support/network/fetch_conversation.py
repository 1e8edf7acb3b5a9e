"""A fetcher of the product reads from brokers behind sockets, of whose answers some are wrong.

It reads each record of the untouched answers once and in order, or ends with an error that names the topic or the
broker; a new one continues after it. Where no reader could notice what is wrong, offsets still ascend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from streaming.errors import JobError
from streaming.publishing.connection.client import Client
from streaming.publishing.contract import TopicPartition
from streaming.reading import legacy, plain, unpacking
from streaming.reading.contract import NO_END, Decoded, Position
from streaming.reading.fetcher import Fetcher
from streaming.reading.requests import FetchLimits
from streaming.rows import EVENTS, SUBSCRIPTIONS, ConsumerRecord, consumer_records
from tests.support.doubles.broker_logs import NODES
from tests.support.doubles.fetch_brokers import FetchBrokers, Log
from tests.support.doubles.wire import Frame, frame_of, whole
from tests.support.histories.fetched_history import history
from tests.support.histories.spoiled_answers import OF_BYTES, OF_FRAMES
from tests.support.network.socket_brokers import SocketBrokers
from tests.support.network.spoiled_batches import Effect, marked
from tests.support.network.spoiled_fetches import FRAMES, Effects, answers

SOURCES = {"events": EVENTS, "changes": SUBSCRIPTIONS}
PARTITIONS: list[TopicPartition] = [("events", 0), ("events", 1), ("changes", 0)]
POLL_S = 0.05
MOST_POLLS = 400
MOST_ERRORS = 12
CLIENT_TIMEOUT_S = 1.0
SILENT_S = 1.0  # less than all polls take: a frame that never ends keeps its connection silent
NEVER = 1 << 62  # an offset behind all
# In place of hundreds of megabytes, so that bombs are small and many.
SMALL_LIMIT_BYTES = 1 << 20


class _Conversation:
    def __init__(self, r: Random) -> None:
        self._r = r
        self.brokers = FetchBrokers()
        self.brokers.opens = r.random() < 0.8
        self.at = r.sample(PARTITIONS, r.randint(1, len(PARTITIONS)))
        if ("events", 1) in self.at and ("events", 0) not in self.at:
            self.at.append(("events", 0))
        self.expected: dict[TopicPartition, list[ConsumerRecord]] = {}
        self.read: dict[TopicPartition, list[ConsumerRecord]] = {at: [] for at in self.at}
        self.positions: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        for at in self.at:
            self._write(at)
        self.effects: Effects = {}
        self.faults: list[str] = []
        self.errors: list[JobError] = []
        self._left = r.randint(1, 5)  # answers to spoil

    def _write(self, at: TopicPartition) -> None:
        made, log = history(self._r), Log(self._r.choice(NODES))
        begins = made.starts
        for begin, stop, end in zip(begins, begins[1:], made.ends, strict=False):
            data = made.data[begin:stop]
            log.batches.append((int.from_bytes(data[:8], "big"), end, 0, data))
        log.end = made.ends[-1]
        log.aborted = [(*one, _ended(log, *one)) for one in made.aborted]
        log.start = self._r.choice([0, 0, 0, self._r.choice(made.ends)])
        self.brokers.partition_logs[at] = log
        first = self._r.choice([0, 0, made.visible[0].offset if made.visible else 0])
        self.positions[at] = first
        self.ends[at] = log.end
        self.expected[at] = [one._replace(partition=at[1]) for one in made.between(max(first, log.start), log.end)]

    def spoil(self, name: str, response: Any) -> Iterable[Frame]:
        if not self._left or self._r.random() < (0.3 if name == "Fetch" else 0.9):
            return whole(name, response)
        self._left -= 1
        if name != "Fetch":
            return self._other(name, response)

        def note(fault: str, effects: Effects) -> None:
            self.faults.append(fault)
            for at, effect in effects.items():
                self.effects[at] = max(effect, self.effects.get(at, Effect.EXACT))

        return answers(self._r, response, note)

    def _other(self, name: str, response: Any) -> Iterable[Frame]:
        """Other answers than Fetch's. What they say of hosts stays, so that nobody is called who is no part of this."""
        r, frame = self._r, frame_of(response)
        kind = r.choice([*FRAMES, *(OF_BYTES if name in ("ApiVersions", "ListOffsets") else ())])
        self.faults.append(f"{name}: {kind}")
        if kind in FRAMES:
            return OF_FRAMES[kind](frame, r.getrandbits(31), r.getrandbits(31))
        if name == "ListOffsets":
            self.effects |= dict.fromkeys(self.at, Effect.LIE)
        return [(0.0, OF_BYTES[kind](frame, r.getrandbits(31), r.getrandbits(31))), (0.02, None)]

    def run(self) -> None:
        with SocketBrokers(self.brokers, self.spoil) as served:
            while not self._is_done(self.positions):
                if not self._reads(served.address):
                    if len(self.errors) >= MOST_ERRORS:
                        break
                    self._left = self._left if len(self.errors) < MOST_ERRORS // 2 else 0
        for at in self.at:
            if not self._is_tainted(at):
                assert self.read[at] == self.expected[at], (at, self.faults, self.errors)

    def _reads(self, address: str) -> bool:
        """Whether a new fetcher reads to the end. It continues where the last one was."""
        r = self._r
        limits = FetchLimits(20, 1, r.choice([1, 300, 8 << 20]), r.choice([1, 150, 4 << 20]))
        positions = {at: Position(offset) for at, offset in self.positions.items()}
        client = Client(address, {"client.rack": r.choice(["", "here"])}, CLIENT_TIMEOUT_S)
        ends: Mapping[TopicPartition, int] = self.ends if r.random() < 0.7 else {}
        piece_bytes = r.choice([50, 1 << 16, 1 << 24])
        fetcher = Fetcher(client, SOURCES, positions, ends=ends, limits=limits, piece_bytes=piece_bytes)
        try:
            for _ in range(MOST_POLLS):
                if self._is_done({at: position.offset for at, position in fetcher.positions.items()}):
                    return True
                self._take(fetcher.poll(POLL_S), fetcher, ends)
        except JobError as error:
            self._check(error, address)
            self.errors.append(error)
            return False
        finally:
            fetcher.close()
            self.positions = {at: position.offset for at, position in fetcher.positions.items()}
        behind = [at for at in self.at if self.positions[at] < self.ends[at]]
        assert all(map(self._is_tainted, behind)), ("no progress", self.positions, self.faults, fetcher.errors)
        raise _Stuck

    def _take(self, item: Decoded | None, fetcher: Fetcher, ends: Mapping[TopicPartition, int]) -> None:
        if item is None:
            return
        item.rows.validate(full=True)
        for source, record in zip(item.rows["source"].to_pylist(), consumer_records(item.rows), strict=True):
            at = ("events" if source == EVENTS else "changes", record.partition)
            before = self.read[at][-1].offset if self.read[at] else -1
            assert before < record.offset < ends.get(at, NO_END), (at, before, record, self.faults)
            self.read[at].append(record._replace(headers=list(record.headers)))
        for at in self.at:
            if not self._is_tainted(at):
                position = fetcher.positions[at].offset
                expected = [record for record in self.expected[at] if record.offset < position]
                assert self.read[at] == expected, (at, position, self.faults, self.errors)

    def _is_done(self, positions: Mapping[TopicPartition, int]) -> bool:
        return all(positions[at] >= self.ends[at] for at in self.at)

    def _is_tainted(self, at: TopicPartition) -> bool:
        return self.effects.get(at) is Effect.LIE

    def _check(self, error: JobError, address: str) -> None:
        names = (*SOURCES, *address.split(","))
        assert any(name in str(error) for name in names), error


def _ended(log: Log, producer: int, first: int) -> int:
    """The offset of the marker of a transaction."""
    markers = (base for base, _, _, data in log.batches if base > first and marked(data) == producer)
    return next(markers, NEVER)


class _Stuck(Exception):
    """Nothing more arrives, after a lie that moved a position."""


def run(patch: pytest.MonkeyPatch, r: Random) -> list[str]:
    """The faults of a conversation. Raises AssertionError, or what a fetcher should not raise."""
    for module in (plain, unpacking):
        patch.setattr(module, "MOST_RECORD_BYTES", SMALL_LIMIT_BYTES)
    patch.setattr(legacy, "MOST_MESSAGE_BYTES", SMALL_LIMIT_BYTES)
    patch.setattr("streaming.reading.fetcher.SILENT_S", SILENT_S)
    conversation = _Conversation(r)
    with suppress(_Stuck):
        conversation.run()
    return conversation.faults
