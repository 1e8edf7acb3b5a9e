"""Histories of jobs that crash, are suspended, replaced or disconnected, and the properties that must hold."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Protocol

import pytest
from kafka import errors

from matchers.index.snapshot import Snapshot
from streaming.documents.records import Record
from streaming.errors import BrokerUnreachable, ClaimFailed, Fenced
from streaming.index import packing
from streaming.kafka.outputs import OutputTopics
from streaming.publishing.connection.client import Client
from streaming.publishing.ownership import Owner
from streaming.source_topics import SourceTopics
from tests.support.doubles.stage import NAMES, AtOnce, SlotsOn
from tests.support.histories.histories import Fault, Ledger
from tests.support.histories.living import Crash, Job

# What can happen at a request; the last two at the end of the next transaction.
KINDS = ("crash", "timeout", "replace", "delete", "lost", "late")
JOBS = 3  # at once

Offsets = Mapping[tuple[str, int], int]


class AnyBroker(Protocol):
    """A double or a real one."""

    point: Callable[[str, bool], int]  # called before and after the effect of each request, with its name
    owner: Callable[[], Any]  # who is at work
    on_commit: Callable[[Any], None]  # called with who began a transaction when its offsets count
    late: bool  # the next commit takes effect later
    forgets: bool  # whether records of an open transaction are gone, for `read`, with a topic that is deleted

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let clients tell of their requests."""

    def committed(self, group: str) -> Offsets: ...

    def read(self) -> list[Record]:
        """Return all committed records in the order of each topic, those of deleted topics too."""

    def sleep(self, s: float) -> None:
        """Wait; what is decided happens."""

    def expire(self) -> None:
        """Wait until open transactions have timed out."""

    def partitions(self) -> dict[str, int]: ...

    def create(self, topics: Any) -> dict[str, str]: ...

    def delete(self, topics: Any) -> None: ...


@dataclass(eq=False)
class Running:
    """A process: a job, or what is about to be one."""

    directory: Path
    began: int  # how many commits there were
    opened: int = 0
    is_open: bool = False
    job: Job | None = None


class SinkHistory(Ledger):
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
            sources=SourceTopics(f"{prefix}subs", [f"{prefix}events"]),
            statuses=f"{prefix}status",
            dead_letters=f"{prefix}dead",
            delivery_topic=lambda subscriber: f"{prefix}to.{subscriber}",
            query=f"{prefix}job",
        )
        super().__init__(names, broker, patch, quota, create)
        self.directory = directory
        self.options = dict(options or {})
        self.empty = Snapshot(algorithm=algorithm, most=4)
        self.running: list[Running] = []
        self.directories: list[Path] = []
        self._acting: Running | None = None
        self._faults: list[Fault] = []
        self._calls = 0
        self._fired: set[str] = set()
        self._spoiled_write: int | None = None
        self.clients: list[Client] = []
        broker.owner = lambda: self._acting
        broker.point = self._told
        broker.install(patch)
        write = packing.write
        patch.setattr(packing, "write", lambda path, thing: self._write(write, path, thing))

    # Steps

    def start(self, of: int = 0, faults: Sequence[Fault] = ()) -> None:
        """Another process: on the state that a former one left or has by now, or on none."""
        if len(self.running) >= (1 if self.world.quota else JOBS):  # what a quota rejected is in a directory only
            return
        directory = self.directory / f"{len(self.directories)}"
        newest = self.commits[-1].directory if self.commits else None
        known = [newest] if self.world.quota else [None, *self.directories]
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
        """Process at most `most` new rows of each partition, after some that were committed before; `rows` in an Arrow
        batch."""
        one = self._one(which)
        if one is not None and one.job is not None:
            self._batch(one, one.job, most, again, rows, faults)

    def beside(self, which: int = 0, crash: int = 0) -> None:
        """Finish the background work of a job: a compaction, a saved version. It may crash in the n-th file that it
        writes, of which a half is left."""
        one = self._one(which)
        if one is None or one.job is None:
            return
        job = one.job
        executors: Any = (job.compactor._joins, job.compactor._saves)  # a Beside each
        self._spoiled_write = crash or None
        try:
            self._run(one, lambda: [work.work() for work in executors], ())
        finally:
            self._spoiled_write = None

    def crash(self, which: int = 0) -> None:
        if self.running:
            self.seen["crashed"] += 1
            self.running.pop(-1 - which % len(self.running))

    def stop(self, which: int = 0) -> None:
        """Stop in order: the last version is saved."""
        if self.running:
            one = self.running.pop(-1 - which % len(self.running))
            if one.job is not None:
                one.job.state.close()
                self.seen["stopped"] += 1

    def spoil(self, which: int = 0) -> None:
        """The newest saved state of a directory."""
        if self.directories:
            directory = self.directories[-1 - which % len(self.directories)]
            for path in sorted(directory.glob("version-*"))[-1:]:
                path.write_bytes(path.read_bytes()[:-9] + b"spoiled!!")
                self.seen["spoiled"] += 1

    def finish(self) -> None:
        """Let remaining processes finish; then a new job does all that is left."""
        for one in list(self.running):
            for _ in self.batches():
                if one in self.running and one.job is not None and self.left(one.job.state):
                    self._batch(one, one.job)
        self.running.clear()
        for _ in range(2):  # of the second nothing is to be told
            self.start()
            (one,) = self.running
            assert one.job is not None
            for _ in self.batches():
                if self.left(one.job.state):
                    self.batch()
            assert not self.left(one.job.state)
            self.stop()
        ends = {at: len(log) for at, log in self.world.topics.items()}
        assert dict.fromkeys(ends, 0) | self.world.committed == ends
        self.check()

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
            self.compare(job.state)

    def _start(self, one: Running) -> None:
        names = self.world.names
        places = [*names.by_topic(dict.fromkeys(self.world.topics, 0))]
        client = Client(getattr(self.broker, "bootstrap_servers", ""), self.options)
        self.clients.append(client)  # it stays open: the process may be one that sleeps
        owner = Owner(client, self.world.group, uuid.uuid4().hex, places)
        found = owner.committed(places)
        committed = names.by_source(found)
        outputs = OutputTopics(self.broker, 1, 1, self.create)
        slots = SlotsOn(owner, sources=names.sources, broker=self.broker)
        job = Job(self.world, self.empty, one.directory, committed, owner, outputs, slots, AtOnce())
        one.job = job
        self.broker.sleep(0.0)  # what is decided happens
        self.replaced = max(self.replaced, one.opened)
        if one.opened == self.replaced:  # else its state may be of no version, and it commits nothing
            self.compare(job.state)
        self.seen["from a saved state"] += any(job.compactor.file(part) for part in job.state.snapshot.parts)

    def _run(self, one: Running, call: Callable[[], Any], faults: Sequence[Fault]) -> bool:
        """Whether it came to its end. What may stop a job is what happened to it."""
        outer = self._acting, self._faults, self._calls, self._fired
        self._acting, self._faults, self._calls, self._fired = one, list(faults), 0, set()
        try:
            call()
            self.broker.sleep(0.0)  # what is decided happens
            return True
        except Crash:
            self.seen["crashed within"] += 1
        except Fenced:
            assert [who for who in self.commits[one.began :] if who is not one], "fenced, and none has taken over"
            self.seen["superseded"] += 1
        except ClaimFailed:
            assert one.job is None
            assert "timeout" in self._fired or len(self.running) > 1, "nobody has fenced it"
            self.seen["claim failed"] += 1
        except BrokerUnreachable:
            assert self._fired or one.directory != self.directories[-1], "nothing has happened that would stop it"
            self.seen["unreachable"] += 1
        finally:
            self._acting, self._faults, self._calls, self._fired = outer
        if one in self.running:
            self.running.remove(one)
        return False

    def _told(self, name: str, after: bool) -> int:
        if after and self._acting is not None:
            self.told(self._acting, name)
        if name == "OffsetFetch":
            return 0
        if not after:
            self._calls += 1
            if name == "EndTxn":
                self.broker.sleep(0.0)  # `look` tells versions by the order of commits
        ready = [f for f in self._faults if f.call <= self._calls and f.after == after]
        due = [f for f in ready if _fits(f.kind, name, after, self.broker.forgets)]
        for fault in due[:1]:
            self._faults.remove(fault)
            self._happen(fault.kind)
        return 0

    def _happen(self, kind: str) -> None:
        self.seen[kind] += 1
        self._fired.add(kind)
        if kind == "crash":
            raise Crash
        if kind == "lost":
            raise errors.KafkaConnectionError("cut by the test")
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
        return name == "Produce" and not after
    if kind == "late":
        return name == "EndTxn" and not after
    return kind in KINDS[:4] or (name == "EndTxn" and after)


def at_random(history: SinkHistory, seed: int, steps: int) -> None:
    """A history of so many steps that is the same for the same seed."""
    r = Random(seed)

    def faults() -> list[Fault]:
        return [Fault(r.randint(1, 6), r.random() < 0.5, r.choice(KINDS)) for _ in range(r.choice([0, 0, 1, 2]))]

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
