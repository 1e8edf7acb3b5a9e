"""A job without Spark and without a broker, and the deliveries that the definition expects of it."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from matchers.index.snapshot import Snapshot
from matchers.language import naive
from matchers.language.model import Pattern
from matchers.language.parsing import parse
from streaming.documents.records import MISSING_TOPIC, TOPIC_REJECTED, UNDECODABLE_EVENT, Record
from streaming.documents.subscriptions import Change, Rejected, read_change
from streaming.driver.composition import Outputs, TopicNames
from streaming.driver.limits.quotas import SubscriptionQuota
from streaming.driver.runs.source_run import SourceRun
from streaming.index import packing
from streaming.publishing.delivery import DeliveryRule
from streaming.rows import EVENTS, SUBSCRIPTIONS, SourcePartition, is_events, of_changes
from streaming.state import compaction, first_load
from streaming.state import restore as restore_module
from streaming.state.compaction import Compactor
from streaming.state.restore import SubscriptionsTopics, restore
from streaming.state.state import State
from streaming.state.store import Store
from streaming.tenants import Tenant, Tenants, change_partition
from tests.support.doubles import stage
from tests.support.doubles.spark_double import Frame, WithoutSpark
from tests.support.doubles.stage import NAMES, Value

PARTITIONS = (0, 1)
ADDED = 2  # a partition that both topics may get later
TASKS = 3


class Crash(BaseException):
    """The driver is gone, and all that it had in memory."""


@dataclass
class World:
    """The lasting state: the topics that are read, the committed offsets, and everything written and committed."""

    names: TopicNames = NAMES
    quota: int = 0
    topics: dict[SourcePartition, list[dict[str, Any]]] = field(default_factory=dict)
    committed: dict[SourcePartition, int] = field(default_factory=dict)
    batches: list[dict[int, int]] = field(default_factory=list)  # where each ended in the partitions of changes
    compacted: set[tuple[int, int]] = field(default_factory=set)  # changes that the topic has no more
    rebuilt: int = 0  # how often statuses were asked
    rejected_topics: set[str] = field(default_factory=set)  # that the broker ever took no records for

    def __post_init__(self) -> None:
        self.topics |= {(source, p): [] for source in (EVENTS, *self.names.sources.changes) for p in PARTITIONS}

    def written(self) -> list[Record]:
        raise NotImplementedError

    @property
    def tenants(self) -> Tenants:
        return self.names.sources.tenants

    @property
    def status_topics(self) -> dict[str, Tenant]:
        return {self.names.status_topic(tenant): tenant for tenant in self.tenants.values()}

    def change_logs(self) -> Iterator[tuple[int, Tenant, list[dict[str, Any]]]]:
        """Yield the changes by partition of changes."""
        for number, tenant in sorted(self.tenants.items()):
            for p, log in self.logs(SUBSCRIPTIONS + number):
                yield change_partition(number, p), tenant, log

    def note_batch(self, positions: Mapping[SourcePartition, int]) -> None:
        """Call with all positions as they are committed."""
        ends = of_changes(positions)
        if ends and (not self.batches or self.batches[-1] != ends):
            self.batches.append(ends)

    @property
    def adopted(self) -> dict[int, int]:
        """Return, by partition, the changes that existed at the first start."""
        return self.batches[0] if self.batches else {}

    def add_partition(self) -> None:
        """To all topics."""
        for source in (EVENTS, *self.names.sources.changes):
            self.topics.setdefault((source, ADDED), [])

    def logs(self, source: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Yield the logs of a source by partition."""
        return ((p, log) for (s, p), log in sorted(self.topics.items()) if s == source)

    def compact(self, in_force: Container[tuple[int, int]]) -> None:
        """A day has passed: of the committed changes each partition keeps the last of each id, unless that is a
        deletion. What is in force stays here even behind a rejected change, where Kafka would remove it."""
        committed = of_changes(self.committed)
        for p, _, log in self.change_logs():
            done = log[: committed.get(p, 0)]
            last = {row["key"]: row["offset"] for row in done}
            for row in done:
                is_last = last[row["key"]] == row["offset"] and row["value"] is not None
                if not is_last and (p, row["offset"]) not in in_force:
                    self.compacted.add((p, row["offset"]))

    def may_miss(self, topic: str) -> bool:
        """Whether a topic for deliveries was ever missing."""
        return False

    def install(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(first_load, "_pieces", self.pieces)
        patch.setattr(restore_module, "read", self.statuses)
        patch.setattr(first_load, "SLICE_OFFSETS", 5)
        patch.setattr(restore_module, "processes", _at_once)
        patch.setattr(SourceRun, "tasks", lambda run, batch: run.pipeline.tasks)  # all have work
        patch.setattr(compaction, "SAVE_EVERY_S", 0.0)
        patch.setattr(compaction, "LATE_MS", 1e15)  # events are of 1970

    def pieces(self, span: first_load.Span) -> Iterator[list[Any]]:
        """As `first_load._pieces` gives them."""
        records = [
            SimpleNamespace(
                key=partial(dict.get, row, "key"),
                value=partial(dict.get, row, "value"),
                offset=partial(dict.get, row, "offset"),
                partition=partial(dict.get, row, "partition"),
                timestamp=lambda row=row: (0, row["timestamp"]),
                headers=lambda: None,
            )
            for row in next(log for p, _, log in self.change_logs() if p == span.partition)[span.begin : span.end]
            if (span.partition, row["offset"]) not in self.compacted
        ]
        return (records[i : i + 2] for i in range(0, len(records), 2))

    def statuses(self, cluster: Any, topics: Sequence[str], **_: Any) -> list[Any]:
        """As `clients.read` gives them; of each id the last one only, since their topic is compacted."""
        self.rebuilt += 1
        asked = {topic or self.names.statuses: topic for topic in topics}
        last = {(r.topic, r.key): r for r in self.written() if r.topic in asked}
        return [
            SimpleNamespace(
                topic=lambda r=r: asked[r.topic], key=lambda r=r: r.key, value=lambda r=r: r.value, partition=lambda: 0
            )
            for r in last.values()
        ]

    def said(self, id: str | None = None) -> list[dict[str, Any]]:
        """Return all statuses, with partitions of changes, or those of an id."""
        statuses = []
        for record in self.written():
            if (tenant := self.status_topics.get(record.topic)) is not None:
                status = json.loads(record.value or b"")
                change = status["change"]
                change["partition"] = change_partition(tenant.number, change["partition"])
                statuses.append(status)
        return [status for status in statuses if id in (None, status["id"])]

    def rejected(self) -> set[tuple[int, int]]:
        """Changes, as (partition, offset), of which the job said so."""
        return {tuple(s["change"].values()) for s in self.said() if s["status"] == "rejected"}

    def version(self, positions: Mapping[SourcePartition, int]) -> int:
        return sum(of_changes(positions).values())


@contextmanager
def _at_once(n: int, nice: int = 0) -> Iterator[stage.AtOnce]:
    with stage.AtOnce() as pool:
        yield pool


class Job:
    """A run of the driver, created once its sink has found `committed`."""

    def __init__(
        self,
        world: World,
        empty: Snapshot,
        directory: Path,
        committed: Mapping[SourcePartition, int],
        sink: Any,
        outputs: Outputs,
        slots: stage.Slots,
        processes: Executor,
    ) -> None:
        store = Store(directory)
        positions = dict.fromkeys(world.topics, 0) | dict(committed)
        if not committed:
            positions |= {at: len(log) for at, log in world.topics.items() if not is_events(at[0])}
        names = world.names
        lows = {p: 0 for p, _, _ in world.change_logs()}
        topics = SubscriptionsTopics("", {}, world.tenants, lows, dict.fromkeys(world.tenants, ""), names.query)
        restored = restore(empty, store, topics, positions, first_start=not committed)
        self.slots = slots
        without_brokers: Any = slots
        self.compactor = Compactor(store, processes, restored.files)
        self.state = State(restored.snapshot, Value, dict(restored.positions), compactor=self.compactor)
        self.pipeline = WithoutSpark(
            self.state,
            replace(
                stage.SETTINGS,
                topics=names.sources.events,
                tenants=names.sources.tenants,
                dead_letters=names.dead_letters,
                rule=DeliveryRule(names.delivery_topic("")),
            ),
            sink,
            without_brokers,
            outputs,
            world.names,
            subscription_quota=SubscriptionQuota(world.quota, world.tenants),
            tasks=TASKS,
            careful=False,
        )
        self.pipeline.subscription_quota.begin(self.state.snapshot)
        if restored.first_start:
            slices = [packing.read(path, first_load.Slice) for path in restored.slices]
            self.pipeline.adopt(slices, restored.chosen, restored.positions)
        restored.forget_slices()

    def batch(self, rows: Sequence[dict[str, Any]], most: int) -> None:
        """Process these rows in Arrow batches of at most `most` rows."""
        frame: Any = Frame.of(rows, most, self.slots.stage)
        self.pipeline(frame, 0)

    def subscriptions(self) -> dict[str, tuple[str, int]]:
        return subscriptions_of(self.state)


def subscriptions_of(state: State) -> dict[str, tuple[str, int]]:
    """Return the subscriber and the expiry of each subscription."""
    found = {}
    for part, removed in zip(state.snapshot.parts, state.snapshot.removed, strict=True):
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
    places: dict[int, dict[str, tuple[int, int]]] = field(default_factory=dict)  # where their documents lie

    def note(self, positions: Mapping[SourcePartition, int]) -> None:
        current: dict[str, tuple[str, Pattern | None, int | None]] = {}
        places: dict[str, tuple[int, int]] = {}
        upto = of_changes(positions)
        before: Mapping[int, int] = {}
        for ends in self.world.batches:
            if any(end > upto.get(p, 0) for p, end in ends.items()):
                break
            for id, (at, read, document) in self._batch(before, ends).items():
                current.pop(id, None)
                places.pop(id, None)
                if read.conjunctions is not None:
                    pattern = None if read.paused else document["pattern"]
                    current[id] = read.subscription.subscriber, pattern, read.subscription.expires_at_ms
                    places[id] = at
            before = ends
        version = self.world.version(positions)
        assert sum(before.values()) == version or not before, "a version that no batch reached"
        found = self.subscriptions.setdefault(version, current)
        assert self.places.setdefault(version, places) == places, "one version is two states"
        assert {id: (s, end) for id, (s, _, end) in found.items()} == {
            id: (s, end) for id, (s, _, end) in current.items()
        }, "one version is two states"

    def _batch(
        self, before: Mapping[int, int], ends: Mapping[int, int]
    ) -> dict[str, tuple[tuple[int, int], Change, Any]]:
        """The last word of a batch on each id: of the last ones of the partitions, the one that was written last."""
        rejected = self.world.rejected() if self.world.quota else set()
        words: dict[str, dict[int, tuple[int, int, Change, Any]]] = {}
        for p, tenant, log in self.world.change_logs():
            for row in log[before.get(p, 0) : ends.get(p, 0)]:
                if (p, row["offset"]) in rejected:
                    continue
                try:
                    read = read_change(row["key"], row["value"], tenant)
                except Rejected:
                    continue
                document = row["value"] and json.loads(row["value"])
                if document:
                    document["pattern"] = tenant.narrowed(parse(document["pattern"]))
                words.setdefault(tenant.qualified(read.subscription.id), {})[p] = (
                    row["timestamp"],
                    row["offset"],
                    read,
                    document,
                )
        last = {}
        for id, by_partition in words.items():
            p = max(by_partition, key=lambda p: (by_partition[p][0], p))
            _, offset, read, document = by_partition[p]
            last[id] = (p, offset), read, document
        return last

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


def check(world: World, truth: Truth, began: Mapping[SourcePartition, Mapping[int, int]]) -> None:
    """`began`: of each event, the version that was in force when it was committed."""
    names = world.names
    values = {(partition, row["offset"]): row["value"] for partition, log in world.logs(EVENTS) for row in log}
    delivered: dict[tuple[int, int], dict[str, list[str]]] = {}
    undecodable = []
    last: dict[tuple[str, int], int] = {}  # event of a partition in a topic
    for record in world.written():
        headers = stage.headers_of(record)
        if record.topic in world.status_topics:
            continue
        if record.topic == names.dead_letters:
            at = int(headers["sluice_origin_partition"]), int(headers["sluice_origin_offset"])
            reason, topic = headers["sluice_reason"].decode(), ""
            if reason == UNDECODABLE_EVENT:
                assert record.value == values[at], "other bytes"
                undecodable.append(at)
            if reason not in (MISSING_TOPIC, TOPIC_REJECTED):
                continue
            topic = names.delivery_topic(headers["sluice_subscriber"].decode())
            assert topic in world.rejected_topics if reason == TOPIC_REJECTED else world.may_miss(topic)
            ids = headers["sluice_subscriptionids"]
        else:
            _, number, offset = headers["ce_id"].decode().split("-")
            at, topic, ids = (int(number), int(offset)), record.topic, headers["ce_subscriptionids"]
            assert int(headers["ce_matchversion"]) == began[EVENTS, at[0]][at[1]]
            assert at[1] > last.get((topic, at[0]), -1), "not in order"
            last[topic, at[0]] = at[1]
        assert record.value == values[at], "other bytes"
        one = delivered.setdefault(at, {})
        assert topic not in one, "delivered twice"
        one[topic] = json.loads(ids)
    wrong = []
    for partition, log in world.logs(EVENTS):
        for row in log[: world.committed.get((EVENTS, partition), 0)]:
            at = partition, row["offset"]
            found = truth.deliveries(began[EVENTS, partition][row["offset"]], row)
            expected = {names.delivery_topic(s): ids for s, ids in found.items()}
            assert delivered.pop(at, {}) == expected, f"event {at}"
            if not is_event(row):
                wrong.append(at)
    assert not delivered
    assert sorted(undecodable) == wrong


def check_statuses(world: World, truth: Truth, began: Mapping[SourcePartition, Mapping[int, int]]) -> None:
    """A change counts for the events from `in_force_from` on, which are those matched by its version or a later one.
    A rejected change leaves the id as it is, and its status names a version and offsets like all others.
    Each has one status, unless it was there at the first start: of these the last word on each id has one, or several
    that agree, and so has each that is rejected."""
    answered: dict[tuple[int, int], list[str]] = {}
    for record in world.written():
        if (tenant := world.status_topics.get(record.topic)) is None:
            continue
        status = json.loads(record.value or b"")
        place = status["change"]
        answered.setdefault(_place(place, tenant), []).append(status["status"])
        others = len(world.tenants) > 1
        assert others or status["version"] == sum(status["read_up_to"].values())
        assert place["offset"] < status["read_up_to"][str(place["partition"])]
        if status["version"] in truth.places:
            _check_place(status, tenant, truth.places[status["version"]])
        for (source, partition), versions in began.items():
            for offset, version in versions.items() if source == EVENTS else ():
                begins = status["in_force_from"].get(str(partition), 0)
                assert (offset >= begins) is (version >= status["version"])
    last = _adopted(world)
    committed = of_changes(world.committed)
    for partition, tenant, log in world.change_logs():
        for row in log[: committed.get(partition, 0)]:
            try:
                read = read_change(row["key"], row["value"], tenant)
                kind = "unsubscribed" if read.conjunctions is None else "paused" if read.paused else "accepted"
            except Rejected:
                kind = "rejected"
            found = answered.pop((partition, row["offset"]), [])
            is_live = row["offset"] >= world.adopted.get(partition, 0)
            if is_live:
                assert len(found) == 1, (partition, row["offset"], found)
            elif kind == "rejected" or (partition, row["offset"]) in last:
                assert found, (partition, row["offset"])
            assert set(found) <= {kind, "rejected" if world.quota and is_live else kind}
    if world.committed:  # else what was there may have been answered already
        assert not answered


def _place(said: Mapping[str, int], tenant: Tenant) -> tuple[int, int]:
    return change_partition(tenant.number, said["partition"]), said["offset"]


def _check_place(status: Mapping[str, Any], tenant: Tenant, places: Mapping[str, tuple[int, int]]) -> None:
    """Check the document in force by a status, if that is the last status of its batch on an id."""
    place = places.get(tenant.qualified(status["id"]))
    if status["status"] == "rejected":
        said = status["in_force"]
    elif "superseded_by" in status:
        if place is None:  # by a deletion
            return
        said = status["superseded_by"]
    else:
        said = None if status["status"] == "unsubscribed" else status["change"]
    assert (said and _place(said, tenant)) == place


def _adopted(world: World) -> set[tuple[int, int]]:
    """The last words on all ids among what was there at the first start."""
    return {at for at, _, _ in Truth(world)._batch({}, world.adopted).values()}
