"""Histories of jobs that crash, are suspended, replaced or disconnected, and the properties that must hold."""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Protocol

import pytest
from confluent_kafka import KafkaError, KafkaException

from matchers.index.snapshot import Snapshot
from streaming.documents.records import Record
from streaming.errors import BrokerUnreachable, Fenced, JobError
from streaming.index import packing
from streaming.kafka.outputs import OutputTopics
from streaming.kafka.sink import TransactionalSink
from streaming.kafka.topics import Topic
from streaming.rows import EVENTS, SUBSCRIPTIONS, SourcePartition
from streaming.state import compaction
from tests.living import PARTITIONS, Crash, Job, Truth, World, check, check_statuses
from tests.stage import NAMES, PUBLICATION, AtOnce, Later, SlotsOn, change, event

SUBSCRIBERS = ("alice", "bob", "carol")
PATTERNS = [{"x": [1]}, {"x": [{"exists": True}]}, {"x": [{"numeric": [">", 1]}]}, {"x": [1, 3]}]
COUNTED = {
    *("init_transactions", "begin_transaction", "produce", "flush", "send_offsets_to_transaction"),
    *("commit_transaction", "abort_transaction"),
}
# What can happen at a call of the broker; the last four at the next commit.
KINDS = ("crash", "timeout", "replace", "delete", "lost", "fenced", "failed", "late")
JOBS = 3  # at once

Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class Fault:
    """Before or after the effect of a call, counted from 1 within a step."""

    call: int
    after: bool
    kind: str


class Broker(Protocol):
    """A double or a real one."""

    on_commit: Callable[[Any], None]  # called with a producer when offsets of its count
    late: bool  # the next commit takes effect later
    forgets: bool  # whether records of an open transaction are gone, for `read`, with a topic that is deleted

    def install(self, patch: pytest.MonkeyPatch, wrapped: Callable[[Any], Any]) -> None:
        """`wrapped` makes what the sink gets of each producer."""

    def committed(self, group: str) -> Offsets: ...

    def read(self) -> list[Record]:
        """All that is committed, in the order of each topic; what was deleted with a topic too."""

    def expire(self) -> None:
        """Wait until open transactions have timed out."""

    def partitions(self) -> dict[str, int]: ...

    def create(self, topics: Any) -> dict[str, str]: ...

    def delete(self, topics: Any) -> None: ...


class Calls:
    """A producer whose calls are told of before and after."""

    def __init__(self, producer: Any, told: Callable[[str, bool], None]) -> None:
        self._producer, self._told = producer, told
        self._unheard = False  # it was committed, and the answer lost

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._producer, name)
        return method if name not in COUNTED else lambda *args, **kwargs: self._call(name, method, *args, **kwargs)

    def _call(self, name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._unheard:  # librdkafka goes on where it was
            self._unheard = False
            return None
        self._told(name, False)
        result = method(*args, **kwargs)
        self._unheard = name == "commit_transaction"
        self._told(name, True)
        self._unheard = False
        return result


class Beside(Later):
    """What is begun beside the batches, and done when a history says so."""

    def __init__(self, workers: int) -> None:
        super().__init__()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if not cancel_futures:
            self.work()
        super().shutdown()


@dataclass(eq=False)
class Running:
    """A process: a job, or what is about to be one."""

    directory: Path
    began: int  # how many commits there were
    opened: int = 0  # the how-manieth that opened its sink
    job: Job | None = None


@dataclass
class Living(World):
    """Both topics, and what a broker has of the rest."""

    broker: Any = None
    group: str = "job"
    deleted: set[str] = field(default_factory=set)

    def written(self) -> list[Record]:
        own = {self.names.statuses, self.names.dead_letters}
        delivered = self.names.delivery_topic("")
        return [r for r in self.broker.read() if r.topic in own or r.topic.startswith(delivered)]

    def may_miss(self, topic: str) -> bool:
        return topic in self.deleted


class History:
    """Steps, each of which may come at any time. After each `check` holds, and `finish` runs a job to the end."""

    def __init__(
        self,
        broker: Any,
        directory: Path,
        patch: pytest.MonkeyPatch,
        *,
        prefix: str = "",
        quota: int = 0,
        create: bool = True,
        algorithm: str = "scan",
        options: Mapping[str, str] | None = None,
    ) -> None:
        names = replace(
            NAMES,
            events=f"{prefix}events",
            subscriptions=f"{prefix}subs",
            statuses=f"{prefix}status",
            dead_letters=f"{prefix}dead",
            delivery_topic=lambda subscriber: f"{prefix}to.{subscriber}",
        )
        self.world = Living(names, quota, broker=broker, group=f"{prefix}job")
        self.broker, self.directory, self.create = broker, directory, create
        self.options = dict(options or {})
        self.empty = Snapshot(algorithm=algorithm, most=4)
        self.publication = replace(
            PUBLICATION, events=names.events, dead_letters=names.dead_letters, prefix=names.delivery_topic("")
        )
        self.truth = Truth(self.world)
        self.began: dict[SourcePartition, dict[int, int]] = {at: {} for at in self.world.topics}
        self.versions: dict[int, dict[SourcePartition, int]] = {}
        self.commits: list[Running] = []  # who made each
        self.running: list[Running] = []
        self.directories: list[Path] = []
        self.newest: Path | None = None  # the directory of who committed last
        self.opened = 0
        self.replaced = 0  # who opened its sink before this one has been replaced
        self.seen: Counter[str] = Counter()
        self._acting: Running | None = None
        self._faults: list[Fault] = []
        self._calls = 0
        self._fired: set[str] = set()
        self._spoiled_write: int | None = None
        topics = [names.statuses, names.dead_letters]
        if not create:
            topics += [names.delivery_topic(s) for s in SUBSCRIBERS[:2]]
            self.world.deleted.add(names.delivery_topic(SUBSCRIBERS[2]))
        assert broker.create([Topic(name) for name in topics]) == {}
        broker.on_commit = self._look
        self.world.install(patch)
        patch.setattr(compaction, "ThreadPoolExecutor", Beside)
        self._owners: dict[Any, Running] = {}
        broker.install(patch, self._wrapped)
        write = packing.write
        patch.setattr(packing, "write", lambda path, thing: self._write(write, path, thing))

    # Steps

    def write(self, changes: Sequence[tuple[int, int]], events: Sequence[tuple[int, int]]) -> None:
        """Changes as (id, kind), events as (partition, x)."""
        for id, kind in changes:
            partition = id % len(PARTITIONS)
            log = self.world.topics[SUBSCRIPTIONS, partition]
            log.append(change(len(log), f"s{id}", subscription(id, kind), partition))
        for partition, x in events:
            log = self.world.topics[EVENTS, partition]
            log.append(event(len(log), {"x": x} if x else b"no event", 1_000 * x, partition))

    def start(self, of: int = 0, faults: Sequence[Fault] = ()) -> None:
        """Another process: on the state that a former one left or has by now, or on none."""
        if len(self.running) >= (1 if self.world.quota else JOBS):  # what a quota refused is in a directory only
            return
        directory = self.directory / f"{len(self.directories)}"
        known = [self.newest] if self.world.quota else [None, *self.directories]
        if (source := known[-1 - of % len(known)]) is not None and source.exists():
            shutil.copytree(source, directory)
        self.directories.append(directory)
        one = Running(directory, len(self.commits))
        if self.running:
            self.seen["started beside another"] += 1
        self.running.append(one)
        self._run(one, lambda: self._start(one), faults)

    def batch(
        self, which: int = 0, most: int = 4, again: int = 0, rows: int = 99, faults: Sequence[Fault] = ()
    ) -> None:
        """At most so many new rows of each partition, after some that were committed before; `rows` in a batch of
        Arrow's."""
        one = self._one(which)
        if one is not None and one.job is not None:
            self._batch(one, one.job, most, again, rows, faults)

    def beside(self, which: int = 0, crash: int = 0) -> None:
        """What a job has begun beside the batches gets done: parts are joined, a version is saved. It may crash in the
        n-th file that it writes, of which a half is left."""
        one = self._one(which)
        if one is None or one.job is None:
            return
        job = one.job
        self._spoiled_write = crash or None
        try:
            self._run(one, lambda: [work.work() for work in (job.compactor._joins, job.compactor._saves)], ())
        finally:
            self._spoiled_write = None

    def crash(self, which: int = 0) -> None:
        if self.running:
            self.seen["crashed"] += 1
            self.running.pop(-1 - which % len(self.running))

    def stop(self, which: int = 0) -> None:
        """In order: the last version is saved."""
        if self.running:
            one = self.running.pop(-1 - which % len(self.running))
            if one.job is not None:
                one.job.state.close()
                self.seen["stopped"] += 1

    def expire(self) -> None:
        self.broker.expire()

    def spoil(self, which: int = 0) -> None:
        """The newest saved state of a directory."""
        if self.directories:
            directory = self.directories[-1 - which % len(self.directories)]
            for path in sorted(directory.glob("version-*"))[-1:]:
                path.write_bytes(path.read_bytes()[:-9] + b"spoiled!!")
                self.seen["spoiled"] += 1

    def delete(self, subscriber: int = 0) -> None:
        topic = self.world.names.delivery_topic(SUBSCRIBERS[subscriber % len(SUBSCRIBERS)])
        if topic in self.broker.partitions():
            self.broker.delete([topic])
            if not self.create:
                self.world.deleted.add(topic)
            self.seen["deleted"] += 1

    def finish(self) -> None:
        """Who is still there may go on; then a new job does all that is left."""
        for one in list(self.running):
            for _ in self._batches():
                if one in self.running and one.job is not None and self._left(one.job):
                    self._batch(one, one.job)
        self.running.clear()
        for _ in range(2):  # of the second nothing is to be told
            self.start()
            (one,) = self.running
            assert one.job is not None
            for _ in self._batches():
                if self._left(one.job):
                    self.batch()
            assert not self._left(one.job)
            self.stop()
        ends = {at: len(log) for at, log in self.world.topics.items()}
        assert dict.fromkeys(ends, 0) | self.world.committed == ends
        self.check()

    def check(self) -> None:
        for positions in self.versions.values():
            self.truth.note(positions)
        check(self.world, self.truth, self.began)
        check_statuses(self.world, self.truth, self.began)

    # What happens within

    def _one(self, which: int) -> Running | None:
        return self.running[-1 - which % len(self.running)] if self.running else None

    def _batch(
        self, one: Running, job: Job, most: int = 4, again: int = 0, rows: int = 99, faults: Sequence[Fault] = ()
    ) -> None:
        taken, new, before = [], 0, len(self.commits)
        for at, log in self.world.topics.items():
            begin = job.state.positions[at]
            taken += log[max(0, begin - again) : begin + most]
            new += len(log[begin : begin + most])
        if self._run(one, lambda: job.batch(taken, rows), faults) and new:
            assert one in self.commits[before:], "it took into account what was not committed"
            positions = job.state.positions
            assert all(self.world.committed[at] >= offset for at, offset in positions.items())
            assert self.commits[-1] is not one or positions == self.world.committed
            self._compare(job)

    def _batches(self) -> range:
        """More than are needed for all that there is."""
        return range(max(map(len, self.world.topics.values())))

    def _left(self, job: Job) -> bool:
        return any(len(log) > job.state.positions[at] for at, log in self.world.topics.items())

    def _start(self, one: Running) -> None:
        names = self.world.names
        sink = TransactionalSink(*self._address(), self.world.group, owner=uuid.uuid4().hex)
        found = sink.committed([(names.source(source), p) for source, p in self.world.topics])
        committed = {(s, p): found[names.source(s), p] for s, p in self.world.topics if (names.source(s), p) in found}
        outputs = OutputTopics(self.broker, 1, 1, self.create)
        slots = SlotsOn(sink, publication=self.publication, broker=self.broker)
        job = Job(self.world, self.empty, one.directory, committed, sink, outputs, slots, AtOnce())
        one.job = job
        self.replaced = max(self.replaced, one.opened)
        self._compare(job)
        self.seen["from a saved state"] += any(job.compactor.file(part) for part in job.state.snapshot.parts)

    def _address(self) -> tuple[str, Mapping[str, str]]:
        return getattr(self.broker, "bootstrap_servers", ""), self.options

    def _compare(self, job: Job) -> None:
        """The state is that of its version, by the definition."""
        self.truth.note(job.state.positions)
        expected = self.truth.subscriptions[job.state.version]
        never = (1 << 63) - 1
        found = job.subscriptions()
        assert {id: s for id, (s, _) in found.items()} == {id: s for id, (s, _, _) in expected.items()}
        assert {id for id, (_, end) in found.items() if end < never} == {
            id for id, (_, _, end) in expected.items() if end is not None
        }

    def _run(self, one: Running, call: Callable[[], Any], faults: Sequence[Fault]) -> bool:
        """Whether it came to its end. What may stop a job is what happened to it."""
        outer = self._acting, self._faults, self._calls, self._fired
        self._acting, self._faults, self._calls, self._fired = one, list(faults), 0, set()
        try:
            call()
            return True
        except Crash:
            self.seen["crashed within"] += 1
        except Fenced:
            others = [who for who in self.commits[one.began :] if who is not one]
            slept = one.job is None and "timeout" in self._fired  # in its claim, where it cannot tell
            assert others or slept, "fenced, and none has taken over"
            self.seen["superseded"] += 1
        except BrokerUnreachable:
            assert self._fired or one.directory != self.directories[-1], "nothing has happened that would stop it"
            self.seen["unreachable"] += 1
        except JobError:
            if "failed" not in self._fired:
                raise
            self.seen["failed"] += 1
        finally:
            self._acting, self._faults, self._calls, self._fired = outer
        if one in self.running:
            self.running.remove(one)
        return False

    def _told(self, name: str, after: bool) -> None:
        if not after:
            self._calls += 1
        elif name == "init_transactions" and self._acting is not None and not self._acting.opened:
            self.opened += 1
            self._acting.opened = self.opened
        ready = [f for f in self._faults if f.call <= self._calls and f.after == after]
        due = [f for f in ready if _fits(f.kind, name, after, self.broker.forgets)]
        for fault in due[:1]:
            self._faults.remove(fault)
            self._happen(fault.kind)

    def _happen(self, kind: str) -> None:
        self.seen[kind] += 1
        self._fired.add(kind)
        if kind == "crash":
            raise Crash
        if kind == "lost":
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the answer was lost", retriable=True))
        if kind == "fenced":
            raise KafkaException(KafkaError(KafkaError._FENCED, "the answer was lost", fatal=True))
        if kind == "failed":
            raise KafkaException(KafkaError(KafkaError._FAIL, "the answer was lost", fatal=True))
        if kind == "late":
            self.broker.late = True
        elif kind == "timeout":
            self.broker.expire()
        elif kind == "delete":
            self.delete()
        elif kind == "replace":
            before = len(self.directories)
            self.start()
            if len(self.directories) > before and (new := self._one(0)) is not self._acting and new and new.job:
                self._batch(new, new.job)

    def _wrapped(self, producer: Any) -> Calls:
        assert self._acting is not None
        self._owners[producer] = self._acting
        return Calls(producer, self._told)

    def _look(self, producer: Any) -> None:
        """Committed offsets may have changed."""
        owner = self._owners[producer]
        names, before = self.world.names, self.world.committed
        found = self.broker.committed(self.world.group)
        after = {(s, p): found[names.source(s), p] for s, p in self.world.topics if (names.source(s), p) in found}
        assert owner.opened >= self.replaced, "it was replaced and commits"
        self.commits.append(owner)
        self.newest = owner.directory
        assert all(after.get(at, -1) >= offset for at, offset in before.items()), "committed offsets went back"
        self.world.note_batch(after)
        version = self.world.version(before)
        for p in PARTITIONS:
            self.began[EVENTS, p] |= dict.fromkeys(
                range(before.get((EVENTS, p), 0), after.get((EVENTS, p), 0)), version
            )
        self.versions[version] = dict(before)
        self.world.committed = after

    def _write(self, write: Callable[[Path, Any], None], path: Path, thing: Any) -> None:
        write(path, thing)
        if self._spoiled_write is not None:
            self._spoiled_write -= 1
            if not self._spoiled_write:
                path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
                self.seen["crashed in a save"] += 1
                raise Crash


def _fits(kind: str, name: str, after: bool, forgets: bool) -> bool:
    if kind == "delete" and forgets:
        return name == "begin_transaction"
    if kind == "late":
        return name == "commit_transaction" and not after
    return kind in KINDS[:4] or (name == "commit_transaction" and after)


def subscription(id: int, kind: int) -> Any:
    document: dict[str, Any] = {"subscriber": SUBSCRIBERS[(id + kind) % 3], "pattern": PATTERNS[kind % len(PATTERNS)]}
    if kind == 4:
        return None
    if kind == 5:
        return document | {"paused": True}
    if kind == 6:
        return document | {"expires_at": "1970-01-01T00:00:02Z"}
    if kind == 7:
        return document | {"pattern": {"x": 5}}  # refused
    return document


def at_random(history: History, seed: int, steps: int) -> None:
    """A history of so many steps that is the same for the same seed."""
    r = Random(seed)

    def faults() -> list[Fault]:
        return [Fault(r.randint(1, 9), r.random() < 0.5, r.choice(KINDS)) for _ in range(r.choice([0, 0, 1, 2]))]

    def write() -> None:
        changes = [(r.randrange(6), r.randrange(8)) for _ in range(r.randrange(5))]
        history.write(changes, [(r.randrange(2), r.randrange(4)) for _ in range(r.randrange(5))])

    def batch() -> None:
        history.batch(r.randrange(3), r.randint(1, 4), r.randrange(3), r.randint(1, 4), faults())

    ways: list[Callable[[], None]] = [
        *[write] * 5,
        *[batch] * 8,
        *[lambda: history.start(r.choice([0, 0, 0, 1, 2]), faults())] * 4,
        *[lambda: history.beside(r.randrange(3), r.choice([0, 0, 1, 2]))] * 2,
        *(lambda: history.crash(r.randrange(3)), lambda: history.stop(r.randrange(3)), history.expire),
        *(lambda: history.spoil(r.randrange(3)), lambda: history.delete(r.randrange(3))),
    ]
    for _ in range(steps):
        r.choice(ways)()
