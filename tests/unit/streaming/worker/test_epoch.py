"""An epoch reads its partitions until it ends: by time, by changes, or at offsets.

Connections, requests and answers are real; sockets, brokers and the clock are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streaming.errors import BrokerUnreachable, Unreadable
from streaming.rows import EVENTS, SUBSCRIPTIONS, ConsumerRecord, RowKind, SourcePartition
from streaming.worker import epoch as module
from streaming.worker.epoch import LONGEST_PAUSE_S, Epoch
from streaming.worker.settings import TaskSettings
from tests.support.doubles.fetch_brokers import FetchBrokers, Log
from tests.support.doubles.wire import HOSTS, PORT, Wire

TOPICS = {EVENTS: "events", SUBSCRIPTIONS: "changes"}
SETTINGS = TaskSettings(bootstrap_servers=",".join(f"{host}:{PORT}" for host in HOSTS.values()))
A, B, C = (EVENTS, 0), (EVENTS, 1), (SUBSCRIPTIONS, 0)
Read = list[tuple[SourcePartition, list[int]]]  # of each batch: the offsets, by partition


def records(*offsets: int) -> list[ConsumerRecord]:
    return [ConsumerRecord(0, offset, 1_000, b"k", b"%d" % offset) for offset in offsets]


class Stage:
    """Brokers with two partitions of events and one of changes, each with three records."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.brokers = FetchBrokers()
        self.logs = {A: Log(0), B: Log(1), C: Log(0)}
        for log in self.logs.values():
            log.append(records(0, 1, 2))
        self.brokers.partition_logs |= {(TOPICS[source], p): log for (source, p), log in self.logs.items()}
        self.wire = Wire(self.brokers)
        self.wire.install(patch)
        patch.setattr(module, "time", self.brokers)
        self.positions: dict[SourcePartition, int] = dict.fromkeys(self.logs, 0)
        self.task = 0
        patch.setattr(
            module, "TaskContext", SimpleNamespace(get=lambda: SimpleNamespace(partitionId=lambda: self.task))
        )

    def at(self, second: float, change: Any) -> None:
        """Call it once a request is sent at that time or later."""
        waiting = [(self.brokers.now + second, change)]

        def on_fetch() -> None:
            if waiting and self.brokers.now >= waiting[0][0]:
                waiting.pop()[1]()

        self.brokers.on_fetch = on_fetch

    def read(self, epoch: Epoch, most: int | None = None, takes_s: float = 0.0) -> Read:
        """Read an epoch, or its first batches, and move on. Each takes so long."""
        found: Read = []
        for rows in islice(epoch.records(SETTINGS, self.positions), most):
            of = np.asarray(rows["source"]) * 100 + np.asarray(rows["partition"])
            (places,) = ([(at // 100, at % 100) for at in np.unique(of).tolist()],)
            for at in places:
                offsets = np.asarray(rows["offset"])[of == at[0] * 100 + at[1]].tolist()
                found.append((at, offsets))
                self.positions[at] = offsets[-1] + 1
            self.brokers.sleep(takes_s)
        return found


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    module._fetcher.cache_clear()
    yield Stage(monkeypatch)
    if module._fetcher.cache_info().currsize:
        module._fetcher(*module._address(SETTINGS)).close()
        module._fetcher.cache_clear()


def all_of(read: Read) -> dict[SourcePartition, list[int]]:
    found: dict[SourcePartition, list[int]] = {}
    for at, offsets in read:
        found.setdefault(at, []).extend(offsets)
    return found


def test_it_reads_events_and_then_the_changes_that_end_it(stage: Stage) -> None:
    began = stage.brokers.now
    read = stage.read(Epoch(1, TOPICS, seconds=10.0, changes_after_s=0.1))
    assert all_of(read) == {A: [0, 1, 2], B: [0, 1, 2], C: [0, 1, 2]}
    assert read[-1][0] == C
    assert 0.099 < stage.brokers.now - began < 1.0


def test_without_changes_it_ends_by_time_and_waits_in_long_polls(stage: Stage) -> None:
    stage.positions = dict.fromkeys(stage.logs, 3)
    began = stage.brokers.now
    assert stage.read(Epoch(1, TOPICS, seconds=4.0)) == []
    assert 3.999 < stage.brokers.now - began < 4.1
    assert len(stage.brokers.requests) <= 2 * (4.0 / 0.5 + 2)


def test_what_comes_while_it_waits_is_read_at_once(stage: Stage) -> None:
    stage.positions = dict.fromkeys(stage.logs, 3)
    began = stage.brokers.now
    stage.at(1.0, lambda: stage.logs[B].append(records(3, 4)))
    assert stage.read(Epoch(1, TOPICS, seconds=4.0), most=1) == [(B, [3, 4])]
    assert stage.brokers.now - began < 1.6


def test_the_next_epoch_goes_on_with_the_same_session(stage: Stage) -> None:
    stage.read(Epoch(1, TOPICS, seconds=1.0))
    sessions, sockets = set(stage.brokers.sessions), len(stage.wire.sockets)
    stage.logs[A].append(records(3))
    assert all_of(stage.read(Epoch(1, TOPICS, seconds=1.0))) == {A: [3]}
    assert set(stage.brokers.sessions) == sessions
    assert len(stage.wire.sockets) == sockets


def test_what_a_task_did_not_do_is_read_again(stage: Stage) -> None:
    assert stage.read(Epoch(1, TOPICS, seconds=1.0, most_events=2), most=1) != []
    stage.positions = dict.fromkeys(stage.logs, 0)
    assert all_of(stage.read(Epoch(1, TOPICS, seconds=1.0))) == {A: [0, 1, 2], B: [0, 1, 2], C: [0, 1, 2]}


def test_each_task_has_its_partitions_and_only_the_first_passes_changes_on(stage: Stage) -> None:
    epoch, whole = Epoch(2, TOPICS, seconds=10.0), dict(stage.positions)
    assert all_of(stage.read(epoch)) == {A: [0, 1, 2], C: [0, 1, 2]}
    stage.positions, stage.task, began = whole, 1, stage.brokers.now
    assert all_of(stage.read(epoch)) == {B: [0, 1, 2]}
    assert stage.brokers.now - began < 1.0  # it has seen them too


def test_a_bounded_epoch_reads_up_to_its_ends_and_nothing_else(stage: Stage) -> None:
    assert all_of(stage.read(Epoch(1, TOPICS, {A: 2, C: 1}))) == {A: [0, 1], C: [0]}
    assert all_of(stage.read(Epoch(1, TOPICS, {A: 2, C: 1}))) == {}
    assert all_of(stage.read(Epoch(1, TOPICS, {}))) == {}
    assert all_of(stage.read(Epoch(1, TOPICS, {B: 3}))) == {B: [0, 1, 2]}


def test_the_tasks_of_a_shard_read_the_same_partitions(stage: Stage) -> None:
    """The number of a task counts on from shard to shard."""
    stage.task = 3
    assert all_of(stage.read(Epoch(2, TOPICS, {A: 3, B: 3, C: 3}))) == {B: [0, 1, 2]}


def test_a_transaction_has_no_more_events_than_it_may_have(stage: Stage) -> None:
    read = stage.read(Epoch(1, TOPICS, {A: 3, B: 3}, most_events=2))
    assert max(len(offsets) for _, offsets in read) <= 2
    assert all_of(read) == {A: [0, 1, 2], B: [0, 1, 2]}


def test_no_more_changes_are_passed_on_than_allowed_and_the_others_come_next(stage: Stage) -> None:
    stage.positions = {A: 3, B: 3, C: 0}
    epoch = Epoch(1, TOPICS, seconds=10.0, most_changes=2)
    assert stage.read(epoch) == [(C, [0, 1])]
    looked = {(row["source"], row["partition"]): row["offset"] for row in epoch.looked_at(SETTINGS)}
    assert looked == {A: 3, B: 3, C: 2}
    assert stage.read(epoch) == [(C, [2])]


def test_a_transaction_has_the_more_events_the_longer_it_takes(stage: Stage) -> None:
    stage.positions = {A: 3, B: 3, C: 3}
    appended = iter(range(3, 1_000))

    def append() -> None:
        stage.logs[A].append(records(next(appended)))

    stage.brokers.on_fetch = append
    batches = {}
    for takes_s in (0.01, 0.1, 10.0):
        begin = stage.positions[A]
        read = stage.read(Epoch(1, TOPICS, seconds=2.0), takes_s=takes_s)
        batches[takes_s] = len(read)
        assert all_of(read)[A] == list(range(begin, stage.positions[A]))
    assert 1.8 < batches[0.01] * (0.01 + 0.01) < 2.2
    assert 1.8 < batches[0.1] * (0.1 + LONGEST_PAUSE_S) < 2.2
    assert batches[10.0] == 1


def test_after_an_error_the_next_epoch_begins_anew(stage: Stage) -> None:
    data = bytearray(stage.logs[A].batches[0][3])
    data[-1] ^= 1
    stage.logs[A].append_bytes(bytes(data), 0, 6)
    with pytest.raises(Unreadable):
        stage.read(Epoch(1, TOPICS, seconds=1.0))
    assert all(socket.closed for socket in stage.wire.sockets)
    stage.logs[A].batches.pop()
    stage.positions = dict.fromkeys(stage.logs, 0)
    assert all_of(stage.read(Epoch(1, TOPICS, seconds=1.0))) == {A: [0, 1, 2], B: [0, 1, 2], C: [0, 1, 2]}


def test_brokers_that_are_away_are_waited_for_and_then_named(stage: Stage) -> None:
    stage.wire.down |= set(HOSTS.values())
    with pytest.raises(BrokerUnreachable):
        stage.read(Epoch(1, TOPICS, seconds=1.0))


@pytest.mark.parametrize(("task", "known"), [(0, {A: 3, C: 3}), (1, {B: 5})])
def test_how_far_a_task_has_looked_includes_offsets_without_records(
    stage: Stage, task: int, known: Mapping[SourcePartition, int]
) -> None:
    from tests.support.doubles.fetched_batches import marker

    stage.logs[B].append_bytes(marker(3, 1, commit=True), 3, 4)
    stage.logs[B].append_bytes(marker(4, 1, commit=True), 4, 5)
    stage.task = task
    epoch = Epoch(2, TOPICS, seconds=1.0)
    stage.read(epoch)
    looked = list(epoch.looked_at(SETTINGS))
    assert {(row["source"], row["partition"]): row["offset"] for row in looked} == known
    assert {row["kind"] for row in looked} == {RowKind.LOOKED}
    assert {row["count"] for row in looked} == {0}


def test_a_task_tells_what_is_left_to_read(stage: Stage) -> None:
    stage.positions = dict.fromkeys(stage.logs, 0)
    epoch = Epoch(1, TOPICS, {A: 1, B: 3})
    stage.read(epoch)
    looked = list(replace(epoch, ends=None).looked_at(SETTINGS))
    assert {(row["source"], row["partition"]): row["count"] for row in looked} == {A: 2, B: 0}


def test_the_records_are_those_of_the_topics(stage: Stage) -> None:
    rows = pa.Table.from_batches(Epoch(1, TOPICS, {A: 3}).records(SETTINGS, stage.positions))
    assert rows["value"].to_pylist() == [b"0", b"1", b"2"]
