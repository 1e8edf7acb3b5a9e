"""A job without Spark and without a broker, and what the definition says of all that it wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from matchers import naive
from matchers.language import parse
from matchers.model import Pattern
from matchers.snapshot import Snapshot
from streaming import loading, restoring
from streaming import upkeep as upkeeping
from streaming.matching import EVENTS, SUBSCRIPTIONS, Position, of_source
from streaming.pipeline import Names, Outputs, Pipeline, Sink
from streaming.quotas import SubscriptionQuota
from streaming.records import MISSING_TOPIC, UNDECODABLE_EVENT, Record
from streaming.restoring import Topic, restore
from streaming.state import State
from streaming.store import Store
from streaming.subscriptions import Refused, read_change
from streaming.upkeep import Upkeep
from tests import stage
from tests.stage import NAMES, Value, work

PARTITIONS = (0, 1)


class Crash(BaseException):
    """The driver is gone, and all that it had in memory."""


@dataclass
class World:
    """What lasts: the topics that are read, what was committed of them, and all that was written and committed."""

    names: Names = NAMES
    quota: int = 0
    topics: dict[Position, list[dict[str, Any]]] = field(
        default_factory=lambda: {(source, p): [] for source in (EVENTS, SUBSCRIPTIONS) for p in PARTITIONS}
    )
    committed: dict[Position, int] = field(default_factory=dict)
    adopted: dict[int, int] = field(default_factory=dict)  # of each partition, the changes there at the first start

    def written(self) -> list[Record]:
        raise NotImplementedError

    def note_first(self, positions: Mapping[Position, int]) -> None:
        """Call before positions count as committed."""
        if not self.committed:
            self.adopted = of_source(positions, SUBSCRIPTIONS)

    def may_miss(self, topic: str) -> bool:
        """Whether a topic for deliveries was ever missing."""
        return False

    def install(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(loading, "_records", self.records)
        patch.setattr(loading, "SLICE", 5)
        patch.setattr(restoring, "processes", _at_once)
        patch.setattr(upkeeping, "SAVE_EVERY_S", 0.0)
        patch.setattr(upkeeping, "LATE_MS", 1e15)  # events are of 1970

    def records(self, kafka: Any, topic: str, partition: int, low: int, high: int) -> list[Any]:
        """As `loading._records` gives them."""
        return [
            SimpleNamespace(
                key=partial(dict.get, row, "key"),
                value=partial(dict.get, row, "value"),
                offset=partial(dict.get, row, "offset"),
                partition=partial(dict.get, row, "partition"),
                timestamp=lambda row=row: (0, row["timestamp"]),
                headers=lambda: None,
            )
            for row in self.topics[SUBSCRIPTIONS, partition][low:high]
        ]

    def refused(self) -> set[tuple[int, int]]:
        """Changes, as (partition, offset), of which the job said so."""
        statuses = [json.loads(r.value or b"") for r in self.written() if r.topic == self.names.statuses]
        return {tuple(s["change"].values()) for s in statuses if s["status"] == "refused"}

    def version(self, positions: Mapping[Position, int]) -> int:
        return sum(offset for (source, _), offset in positions.items() if source == SUBSCRIPTIONS)


@contextmanager
def _at_once(n: int, nice: int = 0) -> Iterator[stage.AtOnce]:
    with stage.AtOnce() as pool:
        yield pool


class Job:
    """One run of the driver. Made once its sink has found `committed`."""

    def __init__(
        self,
        world: World,
        empty: Snapshot,
        directory: Path,
        committed: Mapping[Position, int],
        sink: Sink,
        outputs: Outputs,
        processes: Executor,
    ) -> None:
        store = Store(directory)
        positions = dict.fromkeys(world.topics, 0) | committed
        if not committed:
            positions |= {at: len(log) for at, log in world.topics.items() if at[0] == SUBSCRIPTIONS}
        topic = Topic("", {}, world.names.subscriptions, dict.fromkeys(PARTITIONS, 0))
        restored = restore(empty, store, topic, positions, first_start=not committed)
        self.upkeep = Upkeep(store, processes, restored.files)
        self.state = State(restored.snapshot, Value, dict(restored.positions), upkeep=self.upkeep)
        self.pipeline = Pipeline(self.state, sink, outputs, world.names, SubscriptionQuota(world.quota))
        self.pipeline.subscription_quota.begin(self.state.snapshot)
        if restored.first_start:
            self.pipeline.adopt(map(loading.packing.read, restored.slices), restored.positions)
        restored.forget_slices()

    def batch(self, rows: Sequence[dict[str, Any]], cut: int) -> None:
        self.pipeline.take(work(self.state, list(rows[:cut]), list(rows[cut:])))

    def subscriptions(self) -> dict[str, tuple[str, int]]:
        """Of each that is there: the subscriber, and when it expires."""
        found = {}
        for part, removed in zip(self.state.snapshot.parts, self.state.snapshot.removed, strict=True):
            notes, gone = part.segment.notes, set(removed.tolist())
            for position, (id, subscriber) in enumerate(zip(part.segment.ids, notes["subscriber"], strict=True)):
                if position not in gone:
                    assert id not in found
                    found[id] = subscriber, int(notes["expires_at_ms"][position])
        return found


@dataclass
class Truth:
    """The subscriptions of every version at which there was a batch, by the definition."""

    world: World
    subscriptions: dict[int, dict[str, tuple[str, Pattern | None, int | None]]] = field(default_factory=dict)

    def note(self, positions: Mapping[Position, int]) -> None:
        current: dict[str, tuple[str, Pattern | None, int | None]] = {}
        refused = self.world.refused() if self.world.quota else set()
        for partition in PARTITIONS:
            for row in self.world.topics[SUBSCRIPTIONS, partition][: positions.get((SUBSCRIPTIONS, partition), 0)]:
                if (partition, row["offset"]) in refused:
                    continue
                try:
                    read = read_change(row["key"], row["value"])
                except Refused:
                    continue
                own = read.subscription
                current.pop(own.id, None)
                if read.conjunctions is not None:
                    pattern = None if read.paused else parse(json.loads(row["value"])["pattern"])
                    current[own.id] = own.subscriber, pattern, own.expires_at_ms
        found = self.subscriptions.setdefault(self.world.version(positions), current)
        assert {id: (s, end) for id, (s, _, end) in found.items()} == {
            id: (s, end) for id, (s, _, end) in current.items()
        }, "one version is two states"

    def deliveries(self, version: int, row: Mapping[str, Any]) -> dict[str, list[str]]:
        there = self.subscriptions[version]
        patterns = {id: pattern for id, (_, pattern, _) in there.items() if pattern is not None}
        if not is_event(row):
            return {}
        document = json.loads(row["value"])
        found: dict[str, list[str]] = {}
        for id in sorted(naive.match(patterns, [document])[0]):
            subscriber, _, end = there[id]
            if end is None or row["timestamp"] < end:
                found.setdefault(subscriber, []).append(id)
        return found


def is_event(row: Mapping[str, Any]) -> bool:
    try:
        json.loads(row["value"])
    except ValueError:
        return False
    return True


def check(world: World, truth: Truth, began: Mapping[Position, Mapping[int, int]]) -> None:
    """`began`: of each event, the version that was in force when it was committed."""
    names = world.names
    delivered: dict[tuple[int, int], dict[str, list[str]]] = {}
    undecodable = []
    last: dict[tuple[str, int], int] = {}  # event of a partition in a topic
    for record in world.written():
        headers = dict(record.headers)
        if record.topic == names.statuses:
            continue
        if record.topic == names.dead_letters:
            at = int(headers["sluice_origin_partition"]), int(headers["sluice_origin_offset"])
            reason, topic = headers["sluice_reason"].decode(), ""
            if reason == UNDECODABLE_EVENT:
                undecodable.append(at)
            if reason != MISSING_TOPIC:
                continue
            topic = names.delivery_topic(headers["sluice_subscriber"].decode())
            assert world.may_miss(topic)
            ids = headers["sluice_subscriptionids"]
        else:
            _, partition, offset = headers["ce_id"].decode().split("-")
            at, topic, ids = (int(partition), int(offset)), record.topic, headers["ce_subscriptionids"]
            assert int(headers["ce_matchversion"]) == began[EVENTS, at[0]][at[1]]
            assert at[1] > last.get((topic, at[0]), -1), "not in order"
            last[topic, at[0]] = at[1]
        one = delivered.setdefault(at, {})
        assert topic not in one, "delivered twice"
        one[topic] = json.loads(ids)
    wrong = []
    for partition in PARTITIONS:
        for row in world.topics[EVENTS, partition][: world.committed.get((EVENTS, partition), 0)]:
            at = partition, row["offset"]
            found = truth.deliveries(began[EVENTS, partition][row["offset"]], row)
            expected = {names.delivery_topic(s): ids for s, ids in found.items()}
            assert delivered.pop(at, {}) == expected, f"event {at}"
            if not is_event(row):
                wrong.append(at)
    assert not delivered
    assert sorted(undecodable) == wrong


def check_statuses(world: World, began: Mapping[Position, Mapping[int, int]]) -> None:
    """A change counts for the events from `in_force_from` on, which are those matched by its version or a later one.
    Each has one status; of those at the first start the last word on each id has one, or several that agree."""
    answered: dict[tuple[int, int], list[str]] = {}
    for record in world.written():
        if record.topic != world.names.statuses:
            continue
        status = json.loads(record.value or b"")
        at = status["change"]["partition"], status["change"]["offset"]
        answered.setdefault(at, []).append(status["status"])
        if status["status"] == "refused":
            continue
        for partition in PARTITIONS:
            for offset, version in began[EVENTS, partition].items():
                assert (offset >= status["in_force_from"][str(partition)]) is (version >= status["version"])
    for partition in PARTITIONS:
        adopted = world.adopted.get(partition, 0)
        log = world.topics[SUBSCRIPTIONS, partition]
        last = {row["key"]: row["offset"] for row in log[:adopted]}
        for row in log[: world.committed.get((SUBSCRIPTIONS, partition), 0)]:
            try:
                read = read_change(row["key"], row["value"])
                kind = "withdrawn" if read.conjunctions is None else "paused" if read.paused else "accepted"
            except Refused:
                kind = "refused"
            found = answered.pop((partition, row["offset"]), [])
            if row["offset"] >= adopted:
                assert len(found) == 1, (partition, row["offset"], found)
            elif last[row["key"]] == row["offset"]:
                assert found, (partition, row["offset"])
            assert set(found) <= {kind, "refused" if world.quota and row["offset"] >= adopted else kind}
    if world.committed:  # else what was there may have been answered already
        assert not answered
