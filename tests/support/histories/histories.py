"""The common parts of histories of jobs: what they write, what is seen of it, and what must hold at every commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

from streaming.documents.records import Record
from streaming.driver.composition import TopicNames
from streaming.kafka.topics import Topic
from streaming.rows import EVENTS, SourcePartition, is_events
from streaming.state import compaction
from streaming.state.state import State
from tests.support.doubles.stage import Later, change, event
from tests.support.histories.living import PARTITIONS, Truth, World, check, check_statuses, subscriptions_of

SUBSCRIBERS = ("alice", "bob", "carol")
PATTERNS = [{"x": [1]}, {"x": [{"exists": True}]}, {"x": [{"numeric": [">", 1]}]}, {"x": [1, 3]}]


@dataclass(frozen=True)
class Fault:
    """Before or after the effect of a call, counted from 1 within a step."""

    call: int
    after: bool
    kind: str


class Beside(Later):
    """Background work that is done when a history says so."""

    def __init__(self, workers: int) -> None:
        super().__init__()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if not cancel_futures:
            self.work()
        super().shutdown()


@dataclass
class Living(World):
    """The topics of events and subscriptions, and the other data of a broker."""

    broker: Any = None
    group: str = "job"
    deleted: set[str] = field(default_factory=set)

    def written(self) -> list[Record]:
        own = {*self.status_topics, self.names.dead_letters}
        delivered = self.names.delivery_topic("")
        return [r for r in self.broker.read() if r.topic in own or r.topic.startswith(delivered)]

    def may_miss(self, topic: str) -> bool:
        return topic in self.deleted


class Process(Protocol):
    """A process that commits. `opened`: the ordinal of its producer; `is_open`: it continued from there."""

    opened: int
    is_open: bool


class Ledger:
    """All records and commits of a history."""

    def __init__(self, names: TopicNames, broker: Any, patch: pytest.MonkeyPatch, quota: int, create: bool) -> None:
        self.world = Living(names, quota, broker=broker, group=names.query)
        self.broker, self.create = broker, create
        self.truth = Truth(self.world)
        self.began: dict[SourcePartition, dict[int, int]] = {at: {} for at in self.world.topics}
        self.versions: dict[int, dict[SourcePartition, int]] = {}
        self.commits: list[Any] = []  # who made each
        self.opened = 0
        self.replaced = 0  # who opened its producer before this one has been replaced
        self.seen: Counter[str] = Counter()
        topics = [*self.world.status_topics, names.dead_letters]
        if not create:
            topics += [names.delivery_topic(s) for s in SUBSCRIBERS[:2]]
            self.world.deleted.add(names.delivery_topic(SUBSCRIBERS[2]))
        assert broker.create([Topic(name) for name in topics]) == {}
        broker.on_commit = self.look
        self.world.install(patch)
        patch.setattr(compaction, "ThreadPoolExecutor", Beside)

    def write(self, changes: Sequence[tuple[int, int]], events: Sequence[tuple[int, int]]) -> None:
        """Changes as (id, kind), events as (partition, x)."""
        sources = [*self.world.names.sources.changes]
        for id, kind in changes:
            partition = id % len(PARTITIONS)  # an added one gets none: an id stays where it is
            source = sources[id // len(PARTITIONS) % len(sources)]
            log = self.world.topics[source, partition]
            log.append(change(len(log), f"s{id}", subscription(id, kind), partition) | {"source": source})
        for number, x in events:
            partition = number % sum(is_events(source) for source, _ in self.began)
            log = self.world.topics[EVENTS, partition]
            log.append(event(len(log), {"x": x} if x else b"no event", 1_000 * x, partition))

    def add_partition(self) -> None:
        """To both topics."""
        self.world.add_partition()
        for at in self.world.topics:
            self.began.setdefault(at, {})
        self.seen["partition added"] += 1

    def expire(self) -> None:
        self.broker.expire()

    def delete(self, subscriber: int = 0) -> None:
        topic = self.world.names.delivery_topic(SUBSCRIBERS[subscriber % len(SUBSCRIBERS)])
        if topic in self.broker.partitions():
            self.broker.delete([topic])
            if not self.create:
                self.world.deleted.add(topic)
            self.seen["deleted"] += 1

    def check(self) -> None:
        for positions in self.versions.values():
            self.truth.note(positions)
        check(self.world, self.truth, self.began)
        check_statuses(self.world, self.truth, self.began)

    def batches(self) -> range:
        """More than are needed for all that there is."""
        return range(max(map(len, self.world.topics.values())))

    def left(self, state: State) -> bool:
        return any(len(log) > state.positions.get(at, 0) for at, log in self.world.topics.items())

    def compare(self, state: State) -> None:
        """The state is that of its version, by the definition."""
        self.truth.note(state.positions)
        expected = self.truth.subscriptions[state.version]
        never = (1 << 63) - 1
        found = subscriptions_of(state)
        assert {id: s for id, (s, _) in found.items()} == {id: s for id, (s, _, _) in expected.items()}
        assert {id for id, (_, end) in found.items() if end < never} == {
            id for id, (_, _, end) in expected.items() if end is not None
        }

    def told(self, process: Process, request: str) -> None:
        """A driver has sent a request. Of those that open its producer the last one counts: brokers may have answered
        that an older transaction must end first."""
        if request != "InitProducerId":
            process.is_open = process.opened > 0
        elif not process.is_open:
            self.opened += 1
            process.opened = self.opened

    def look(self, owner: Any) -> None:
        """Committed offsets may have changed, by a transaction of this process."""
        names, before = self.world.names, self.world.committed
        found = self.broker.committed(self.world.group)
        after = names.by_source(found)
        assert owner.opened >= self.replaced, "it was replaced and commits"
        self.commits.append(owner)
        assert all(after.get(at, -1) >= offset for at, offset in before.items()), "committed offsets went back"
        self.world.note_batch(after)
        version = self.world.version(before)
        for p, _ in self.world.logs(EVENTS):
            self.began[EVENTS, p] |= dict.fromkeys(
                range(before.get((EVENTS, p), 0), after.get((EVENTS, p), 0)), version
            )
        self.versions[version] = dict(before)
        self.world.committed = after


def subscription(id: int, kind: int) -> Any:
    document: dict[str, Any] = {"subscriber": SUBSCRIBERS[(id + kind) % 3], "pattern": PATTERNS[kind % len(PATTERNS)]}
    if kind == 4:
        return None
    if kind == 5:
        return document | {"paused": True}
    if kind == 6:
        return document | {"expires_at": "1970-01-01T00:00:02Z"}
    if kind == 7:
        return document | {"pattern": {"x": 5}}  # rejected
    return document
