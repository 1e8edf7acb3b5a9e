"""Whatever happens to a job, each delivery is what the definition says of exactly the version that it names.

A history is random: changes and events on two partitions each, joins that finish when they like, saves, and crashes
before and after what was committed is taken into account, after which a job restores itself and goes on.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from matchers import naive
from matchers.language import parse
from matchers.model import Pattern
from matchers.snapshot import Snapshot
from streaming import loading, restoring
from streaming import upkeep as upkeeping
from streaming.matching import EVENTS, SUBSCRIPTIONS, Position
from streaming.pipeline import Pipeline
from streaming.quotas import SubscriptionQuota
from streaming.records import Record
from streaming.restoring import Topic, restore
from streaming.sink import Offsets
from streaming.state import State
from streaming.store import Store
from streaming.subscriptions import Refused, read_change
from streaming.upkeep import Upkeep
from tests import stage, workloads
from tests.stage import NAMES, Later, SomeTopics, Value, change, event, work

pytestmark = pytest.mark.kernels

PARTITIONS = (0, 1)
IDS = [f"s{i}" for i in range(14)]
ALGORITHMS: list[tuple[str, dict[str, Any]]] = [("scan", {}), ("tiles", {"tile": 3, "fewest": 1})]


class Crash(Exception):
    """The driver is gone, and all that it had in memory."""


@dataclass
class World:
    """What lasts: the topics with what was committed, and the directory of the state."""

    directory: Path
    topics: dict[Position, list[dict[str, Any]]] = field(
        default_factory=lambda: {(source, p): [] for source in (EVENTS, SUBSCRIPTIONS) for p in PARTITIONS}
    )
    committed: dict[Position, int] = field(default_factory=dict)
    written: list[Record] = field(default_factory=list)
    crash_after_commit: bool = False
    quota: int = 0

    def publish(self, records: Sequence[Record], offsets: Offsets) -> tuple[float, float]:
        """A sink: the records and the offsets, or neither."""
        sources = {NAMES.events: EVENTS, NAMES.subscriptions: SUBSCRIPTIONS}
        self.written += records
        self.committed |= {(sources[topic], partition): offset for (topic, partition), offset in offsets.items()}
        if self.crash_after_commit:
            self.crash_after_commit = False
            raise Crash
        return 0.0, 0.0

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
        statuses = [json.loads(record.value or b"") for record in self.written if record.topic == NAMES.statuses]
        return {tuple(s["change"].values()) for s in statuses if s["status"] == "refused"}

    def version(self, positions: Mapping[Position, int]) -> int:
        return sum(offset for (source, _), offset in positions.items() if source == SUBSCRIPTIONS)


@contextmanager
def at_once(n: int, nice: int = 0) -> Iterator[stage.AtOnce]:
    with stage.AtOnce() as pool:
        yield pool


class Job:
    """One run of the driver."""

    def __init__(self, world: World, empty: Snapshot) -> None:
        self.world, self.later, store = world, Later(), Store(world.directory)
        positions = dict.fromkeys(world.topics, 0) | world.committed
        topic = Topic("", {}, NAMES.subscriptions, dict.fromkeys(PARTITIONS, 0))
        restored = restore(empty, store, topic, positions, first_start=not world.committed)
        self.upkeep = Upkeep(store, self.later, restored.files)
        self.state = State(restored.snapshot, Value, dict(restored.positions), upkeep=self.upkeep)
        self.pipeline = Pipeline(self.state, world, SomeTopics(set()), NAMES, SubscriptionQuota(world.quota))
        self.pipeline.subscription_quota.begin(self.state.snapshot)
        if restored.first_start:
            self.pipeline.adopt(map(loading.packing.read, restored.slices), restored.positions)
        restored.forget_slices()

    def batch(self, rows: Sequence[dict[str, Any]], cut: int) -> None:
        self.pipeline.take(work(self.state, list(rows[:cut]), list(rows[cut:])))

    def join(self) -> None:
        """What is being joined is done before the next batch ends."""
        joining = self.upkeep._joining
        while joining is not None and not joining.future.done():
            self.later.work()
            time.sleep(0.0005)

    def end(self) -> None:
        """A crash: nothing is saved that was not."""
        self.later.shutdown()
        self.upkeep._joins.shutdown(wait=True, cancel_futures=True)
        self.upkeep._saves.shutdown(wait=True, cancel_futures=True)


def subscription(r: Random) -> Any:
    document: dict[str, Any] = {"subscriber": r.choice(["alice", "bob", "carol"]), "pattern": workloads.pattern(r)}
    kind = r.random()
    if kind < 0.15:
        return None
    if kind < 0.25:
        return document | {"paused": True}
    if kind < 0.4:
        return document | {"expires_at": f"1970-01-01T00:00:0{r.randint(1, 4)}Z"}
    if kind < 0.5:
        return document | {"pattern": {"x": 5}}  # refused
    return document


def grow(world: World, r: Random) -> None:
    """Both topics by some records; an id is always in the partition of its key."""
    for _ in range(r.choice([0, 1, 2, 3, 6])):
        id = r.choice(IDS)
        partition = IDS.index(id) % 2
        log = world.topics[SUBSCRIPTIONS, partition]
        log.append(change(len(log), id, subscription(r), partition))
    for _ in range(r.choice([0, 1, 2, 3])):
        partition = r.choice(PARTITIONS)
        log = world.topics[EVENTS, partition]
        value = b"no event" if r.random() < 0.1 else workloads.event(r, exotic=False)
        log.append(event(len(log), value, r.randrange(5_000), partition))


def next_batch(world: World, job: Job, r: Random) -> list[dict[str, Any]]:
    """Some of what is there, and often what was committed already; of a partition always in order."""
    rows = []
    for at, log in world.topics.items():
        begin = max(0, job.state.positions[at] - r.choice([0, 0, 0, 2]))
        rows.append(log[begin : r.choice([len(log), len(log), begin + 2])])
    merged = []
    while any(rows):
        merged.append(r.choice([log for log in rows if log]).pop(0))
    return merged


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
        try:
            document = json.loads(row["value"])
        except ValueError:
            return {}
        found: dict[str, list[str]] = {}
        for id in sorted(naive.match(patterns, [document])[0]):
            subscriber, _, end = there[id]
            if end is None or row["timestamp"] < end:
                found.setdefault(subscriber, []).append(id)
        return found


def check(world: World, truth: Truth, began: Mapping[Position, dict[int, int]]) -> None:
    """`began`: of each event, the version that was in force when it was committed."""
    delivered: dict[tuple[int, int], dict[str, list[str]]] = {}
    for record in world.written:
        if not record.topic.startswith("to."):
            continue
        headers = dict(record.headers)
        _, partition, offset = headers["ce_id"].decode().split("-")
        at = int(partition), int(offset)
        assert int(headers["ce_matchversion"]) == began[EVENTS, at[0]][at[1]]
        one = delivered.setdefault(at, {})
        assert record.topic not in one, "delivered twice"
        one[record.topic] = json.loads(headers["ce_subscriptionids"])
    for partition in PARTITIONS:
        for row in world.topics[EVENTS, partition][: world.committed.get((EVENTS, partition), 0)]:
            version = began[EVENTS, partition][row["offset"]]
            expected = {f"to.{s}": ids for s, ids in truth.deliveries(version, row).items()}
            assert delivered.pop((partition, row["offset"]), {}) == expected
    assert not delivered


def check_statuses(world: World, began: Mapping[Position, dict[int, int]]) -> None:
    """A change counts for the events from `in_force_from` on, which are those matched by its version or a later one."""
    answered = {}
    for record in world.written:
        if record.topic != NAMES.statuses:
            continue
        status = json.loads(record.value or b"")
        at = status["change"]["partition"], status["change"]["offset"]
        assert at not in answered
        answered[at] = status["status"]
        if status["status"] == "refused":
            continue
        for partition in PARTITIONS:
            for offset, version in began[EVENTS, partition].items():
                assert (offset >= status["in_force_from"][str(partition)]) is (version >= status["version"])
    for partition in PARTITIONS:
        for row in world.topics[SUBSCRIPTIONS, partition][: world.committed.get((SUBSCRIPTIONS, partition), 0)]:
            try:
                read = read_change(row["key"], row["value"])
                kind = "withdrawn" if read.conjunctions is None else "paused" if read.paused else "accepted"
            except Refused:
                kind = "refused"
            assert answered.pop((partition, row["offset"])) in (kind, "refused" if world.quota else kind)
    assert not answered


def live(r: Random, directory: Path, batches: int) -> dict[str, int]:
    """A whole history; returns how often what happened in it."""
    algorithm, options = r.choice(ALGORITHMS)
    empty = Snapshot(algorithm=algorithm, options=options, most=4, shards=r.choice([1, 1, 2, 3]))
    world = World(directory, quota=r.choice([0, 3]))
    truth = Truth(world)
    began: dict[Position, dict[int, int]] = {at: {} for at in world.topics}
    seen = {"joined": 0, "crashed": 0, "crashed after the commit": 0, "delivered": 0, "from disk": 0}
    job = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "_records", world.records)
        patch.setattr(loading, "SLICE", 5)
        patch.setattr(restoring, "processes", at_once)
        patch.setattr(upkeeping, "SAVE_EVERY_S", 0.0)
        patch.setattr(upkeeping, "LATE_MS", 1e15)  # events are of 1970
        for _ in range(batches):
            if job is None:
                job = Job(world, empty)
                seen["from disk"] += any(part in job.upkeep._files for part in job.state.snapshot.parts)
            grow(world, r)
            before = dict(job.state.positions)
            truth.note(before)
            rows = next_batch(world, job, r)
            world.crash_after_commit = r.random() < 0.1
            parts = job.upkeep._joining
            try:
                job.batch(rows, r.randint(0, len(rows)))
                world.crash_after_commit = False
            except Crash:
                seen["crashed after the commit"] += 1
                job.end()
                job = None
            for p in PARTITIONS:
                low, high = before[EVENTS, p], world.committed.get((EVENTS, p), 0)
                began[EVENTS, p] |= dict.fromkeys(range(low, high), world.version(before))
            if job is not None:
                seen["joined"] += parts is not None and job.upkeep._joining is not parts
                if r.random() < 0.4:
                    job.join()
                if r.random() < 0.1:
                    seen["crashed"] += 1
                    job.end()
                    job = None
                elif r.random() < 0.05:
                    job.later.shutdown()
                    job.state.close()
                    job = None
        if job is not None:
            job.end()
    check(world, truth, began)
    check_statuses(world, began)
    seen["delivered"] += sum(record.topic.startswith("to.") for record in world.written)
    return seen


@hypothesis_settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_every_delivery_is_what_the_definition_says_of_its_version(seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        live(Random(seed), Path(directory), 25)


def test_a_history_has_all_that_can_happen(tmp_path: Path) -> None:
    seen = live(Random(3), tmp_path, 80)
    assert all(seen.values()), seen
