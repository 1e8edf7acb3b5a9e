"""Histories of jobs whose tasks publish: drivers, tasks and brokers that stop, die, wake up and lose answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors
from pyspark.errors import PySparkException

from config.model import DeadLetters, Deliveries, Events, Kafka, Query, Settings, Subscriptions, TenantSettings
from matchers.index.snapshot import Snapshot
from streaming.driver import assembly, attempts
from streaming.driver import pipeline as pipeline_module
from streaming.driver.pipeline import Pipeline
from streaming.driver.runs import epoch_run
from streaming.driver.runs.epoch_run import EpochPlan, EpochReading, EpochRun
from streaming.driver.runs.source_run import SourceRun
from streaming.driver.slots import Slots
from streaming.errors import Fenced, JobError, Unsettled
from streaming.index import packing
from streaming.monitoring import reporting
from streaming.publishing.connection.client import Client
from streaming.publishing.encode import record_batches
from streaming.publishing.ownership import Owner
from streaming.rows import EVENTS, SourcePartition, of_source
from streaming.source_topics import SourceTopics
from streaming.state.first_load import Slice
from streaming.state.restore import Restored
from streaming.state.store import Store
from streaming.worker import epoch, publishing
from tests.support.doubles.brokers import LATE, Brokers
from tests.support.doubles.spark_double import EpochSession, Frame, FrameRun, WithoutSpark, traceback_of
from tests.support.doubles.stage import NAMES, AtOnce, Reports, Value
from tests.support.histories.actors import ENDED, PARKED, Actor, Actors, Dead
from tests.support.histories.histories import SUBSCRIBERS, Fault, Ledger
from tests.support.histories.log_fetcher import LogFetcher

# What can happen at a request. To a task: it is slow and the others go on; it seems lost, and Spark tries it again. To
# a task and a driver: the process dies, or sleeps until the history wakes it; the connection is lost and with it the
# request or its answer, or the request arrives later; the broker says that it is busy.
KINDS = ("die", "sleep", "slow", "lose", "cut", "cut", "late", "busy", "expire", "delete", "reject")
DRIVERS = 3  # at once
ZOMBIES = 6
MOST_TASKS = 3

BUSY = {
    "InitProducerId": (errors.ConcurrentTransactionsError, errors.NotCoordinatorError),
    "AddPartitionsToTxn": (errors.ConcurrentTransactionsError, errors.CoordinatorLoadInProgressError),
    "AddOffsetsToTxn": (errors.ConcurrentTransactionsError, errors.CoordinatorNotAvailableError),
    "Produce": (errors.NotLeaderForPartitionError,),
    "TxnOffsetCommit": (errors.ConcurrentTransactionsError, errors.NotCoordinatorError),
    "EndTxn": (errors.ConcurrentTransactionsError, errors.NotCoordinatorError),
    "OffsetFetch": (errors.UnstableOffsetCommitError,),
}
REJECTIONS = (errors.TopicAuthorizationFailedError, errors.MessageSizeTooLargeError, errors.InvalidRecordError)


@dataclass
class Plan:
    """Planned events during the work of a process, and those that happened."""

    faults: list[Fault]
    calls: int = 0
    happened: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Driver:
    """A process; a supervisor gives its `lineage` to the next one. `actor` is at work, or sleeps in it; `pipeline` is
    there once it has started."""

    lineage: str
    directory: Path
    began: int  # how many commits there were; before the first of its lineage
    owns: bool = False  # its checkpoint
    opened: int = 0
    is_open: bool = False
    pipeline: Pipeline | None = None
    actor: Actor | None = None
    then: Callable[[], None] = lambda: None  # when its work is done


@dataclass
class Facts:
    """The facts about an actor."""

    driver: Driver
    plan: Plan
    task: int | None = None  # its number in the stage
    attempt: int = 0


ACME = TenantSettings(
    topic="acme",
    status_topic="acme.status",
    subscribers=["alice", "bob"],
    pattern={"x": [{"numeric": ["<", 3]}]},
    max_subscriptions=1,
)


class SlotHistory(Ledger):
    """Steps, each of which may come at any time. After each `check` holds, and `finish` runs a job to the end."""

    def __init__(
        self,
        directory: Path,
        patch: pytest.MonkeyPatch,
        *,
        version: int = 2,
        create: bool = True,
        shards: int = 1,
        at_once: int = 200_000,
        piece_bytes: int = 16 << 20,
        tenant: bool = False,
    ) -> None:
        self.directory = directory
        self.empty = Snapshot(algorithm="scan", most=4, shards=shards)
        self.settings = Settings(
            query=Query(name="job"),
            kafka=Kafka(client={"compression.type": "none"}),
            events=Events(topic=NAMES.sources.names[EVENTS]),
            subscriptions=Subscriptions(
                topic=NAMES.subscriptions, status_topic=NAMES.statuses, tenants={"acme": ACME} if tenant else {}
            ),
            deliveries=Deliveries(prefix="to.", create_topics=create),
            dead_letters=DeadLetters(topic=NAMES.dead_letters),
        )
        sources = SourceTopics.of(self.settings)
        ids = dict.fromkeys(sources.tenants, "")
        names = replace(NAMES, query="job", sources=sources, subscriptions_ids=ids)
        super().__init__(names, Brokers(version), patch, ACME.max_subscriptions if tenant else 0, create)
        self.drivers: list[Driver] = []
        self.zombies: list[Actor] = []
        self.ended: list[Driver] = []
        self._actors = Actors()
        self._directories = 0
        self._next: tuple[str, bool, bool, Callable[[Actor], object]] | None = None
        self.broker.point = self._request
        self.broker.owner = lambda: self._actors.running.facts.driver
        self._install(patch)
        patch.setattr(publishing, "MATCHES_AT_ONCE", at_once)
        patch.setattr(record_batches, "PIECE_BYTES", piece_bytes)

    def _install(self, patch: pytest.MonkeyPatch) -> None:
        self.broker.install(patch)
        patch.setattr(assembly, "Pipeline", WithoutSpark)
        patch.setattr(SourceRun, "tasks", lambda run, batch: run.pipeline.tasks)
        patch.setattr(pipeline_module, "time", self.broker)
        patch.setattr(attempts, "time", self.broker)
        patch.setattr(reporting, "time", self.broker)
        patch.setattr(publishing, "TaskContext", SimpleNamespace(get=self._context))
        patch.setattr(EpochRun, "tasks", lambda run, plan: min(run.pipeline.tasks, len(self.world.topics) - 1))
        patch.setattr(epoch, "time", self.broker)
        patch.setattr(epoch, "TaskContext", SimpleNamespace(get=self._context))
        patch.setattr(epoch, "_fetcher", _Fetchers(self))
        patch.setattr(epoch_run, "Fetcher", partial(LogFetcher, self.world.topics, 3, self.broker.sleep))
        patch.setattr(publishing, "_client", lambda servers, options: Client(servers, dict(options)))  # each its own

    # Steps

    def start(self, cores: int = 1, again: bool = False, faults: Sequence[Fault] = ()) -> None:
        """Another driver. `again`: the supervisor of one that has ended starts it."""
        if len(self.drivers) >= DRIVERS:
            return
        self._directories += 1
        directory = self.directory / f"{self._directories}"
        one = Driver(f"lineage{self._directories}", directory, len(self.commits))
        if again and self.ended:
            self.seen["started again"] += 1
            one = self.ended.pop()
            one = Driver(one.lineage, directory, one.began, one.owns)
        self.seen["started beside another"] += bool(self.drivers)
        self.drivers.append(one)
        self._run(one, lambda: self._start(one, cores), faults)

    def batch(
        self,
        which: int = 0,
        most: int = 4,
        again: int = 0,
        rows: int = 100,
        order: int = 0,
        faults: Sequence[Fault] = (),
    ) -> None:
        """Process at most `most` new rows of each partition, after some that were committed before; `rows` in an Arrow
        batch. The order of partitions decides which task gets which."""
        one = self._idle(which)
        if one is None:
            return
        assert one.pipeline is not None
        positions = one.pipeline.state.positions
        partitions: dict[SourcePartition, list[dict[str, Any]]] = {}
        new = 0
        for at, log in self.world.topics.items():
            begin = positions.get(at, 0)
            partitions[at] = log[max(0, begin - again) : begin + most]
            new += len(log[begin : begin + most])
        places = list(partitions)
        Random(order).shuffle(places)
        frame: Any = Frame(partitions, places, rows, self._stage)
        pipeline = one.pipeline
        ends = {at: rows[-1]["offset"] + 1 if rows else 0 for at, rows in partitions.items()}
        pipeline.run = partial(FrameRun, planned=lambda number: ends, reading=self._reading(0, 0))
        all_counted = self._all_counted(pipeline)

        def done() -> None:
            self.broker.sleep(0.0)  # what is decided happens
            all_counted()
            for at, end in ends.items():
                assert pipeline.state.positions.get(at, 0) >= end, "a batch is not done"
            assert all(self.world.committed.get(at, 0) >= to for at, to in pipeline.state.positions.items())
            self.compare(pipeline.state)

        one.then = done
        self._run(one, lambda: pipeline(frame, 0), faults)

    def epoch(
        self, which: int = 0, most: int = 4, rows: int = 100, bounded: bool = False, faults: Sequence[Fault] = ()
    ) -> None:
        """An epoch of what is there, or of at most so many new rows of each partition; `rows` in a transaction."""
        one = self._idle(which)
        if one is None:
            return
        assert one.pipeline is not None
        pipeline, topics = one.pipeline, self.world.topics
        positions = {**dict.fromkeys(topics, 0), **pipeline.state.positions}
        pipeline.state.positions = positions
        pipeline.run = partial(EpochRun, reading=self._reading(rows, most))
        ends = {at: min(len(log), positions[at] + most) for at, log in topics.items()}
        bounded |= self.empty.shards > 1
        all_counted = self._all_counted(pipeline)

        def done() -> None:
            self.broker.sleep(0.0)  # what is decided happens
            all_counted()
            for at, end in ends.items() if bounded else ():
                assert pipeline.state.positions[at] >= end, "an epoch is not done"
            assert all(self.world.committed.get(at, 0) >= to for at, to in pipeline.state.positions.items())
            self.compare(pipeline.state)
            self.seen["a bounded epoch" if bounded else "an epoch"] += 1

        one.then = done
        self._run(one, lambda: pipeline(EpochPlan(1.0, ends if bounded else None), 0), faults)

    def _reading(self, most_events: int, most_changes: int) -> EpochReading:
        spark: Any = EpochSession(self._stage)
        client: Any = None
        return EpochReading(spark, self.world.names.sources, client, most_events, most_changes)

    def _all_counted(self, pipeline: Pipeline) -> Callable[[], None]:
        """A check, for after the next batch, that each event that it has passed is in its report, whatever died."""
        reports = Reports()
        pipeline.observer = reports
        before = of_source(pipeline.state.positions, EVENTS)

        def check() -> None:
            after = of_source(pipeline.state.positions, EVENTS)
            passed = sum(to - before.get(p, 0) for p, to in after.items())
            assert sum(report.events for report in reports.seen) == passed, "an event is not counted, or twice"
            matches = sum(report.counts["matches"] for report in reports.seen)
            of_subscribers = sum(int(counts.matches.sum()) for counts in reports.counts)
            assert of_subscribers <= matches, "by subscriber, a match is counted twice"
            self.seen["counted by subscriber"] += 0 < of_subscribers == matches

        return check

    def wake(self, which: int = 0, faults: Sequence[Fault] = ()) -> None:
        """A driver that sleeps goes on."""
        if sleeping := self.sleeping:
            self.seen["woke up"] += 1
            self._go(sleeping[-1 - which % len(sleeping)], Plan(list(faults)))

    def wake_task(self, which: int = 0, faults: Sequence[Fault] = ()) -> None:
        """A task goes on whose stage has failed, or whose driver is dead."""
        if self.zombies:
            task = self.zombies.pop(-1 - which % len(self.zombies))
            before = len(self.commits)
            task.facts.plan = Plan(list(faults))
            task.go()
            self.seen["a zombie goes on"] += 1
            self.seen["a zombie commits"] += len(self.commits) > before
            if task.state == PARKED:
                self.zombies.append(task)
            else:
                self._check_error(task.error)

    def crash(self, which: int = 0) -> None:
        """A driver dies, and its tasks may go on for a while."""
        if self.drivers:
            one = self.drivers[-1 - which % len(self.drivers)]
            self.seen["crashed"] += 1
            if one.actor is not None:
                one.actor.kill()
            self._ended(one)

    def reject(self, subscriber: int = 0, why: int = 0) -> None:
        """A topic takes no more records, or does again."""
        topic = NAMES.delivery_topic(SUBSCRIBERS[subscriber % len(SUBSCRIBERS)])
        if self.broker.rejecting.pop(topic, None) is None:
            self.broker.rejecting[topic] = REJECTIONS[why % len(REJECTIONS)].errno
            self.world.rejected_topics.add(topic)
            self.seen["rejected"] += 1

    def at(self, name: str, after: bool, happen: Callable[[Actor], object], *, driver: bool = False) -> None:
        """Before or after the effect of the next request of that name, with `driver` the next of a driver; called with
        who does it."""
        self._next = name, after, driver, happen

    def die(self, actor: Actor) -> None:
        """The machine of a task, with its driver."""
        driver = actor.facts.driver.actor
        if driver is not None and driver is not actor:
            driver.doom()
        actor.die()

    def finish(self) -> None:
        """Let suspended processes continue; then a new job does all that is left."""
        for _ in range(2):
            while self.zombies:
                self.wake_task()
            for one in list(self.drivers):
                while one in self.drivers and one.actor is not None:
                    self._go(one, Plan([]))
            for _ in self.batches():
                for one in list(self.drivers):
                    if one in self.drivers and one.pipeline is not None and self.left(one.pipeline.state):
                        self.batch(-1 - self.drivers.index(one))
        self.close()
        self.start(MOST_TASKS)
        (one,) = self.drivers
        assert one.pipeline is not None
        for _ in self.batches():
            if self.left(one.pipeline.state):
                self.batch()
        ends = {at: len(log) for at, log in self.world.topics.items()}
        assert dict.fromkeys(ends, 0) | self.world.committed == ends
        self.check()

    def close(self) -> None:
        """Nobody goes on."""
        for task in self.zombies:
            task.kill()
        self.zombies = []
        for _ in list(self.drivers):
            self.crash()
        for task in self.zombies:
            task.kill()
        self.zombies = []

    # A driver

    def _start(self, one: Driver, cores: int) -> None:
        settings, world = self.settings, self.world
        topics: Any = _Topics(self)
        places = [(world.names.sources.names[source], p) for source, p in world.topics]
        client = Client("", settings.kafka.client)
        owner = Owner(client, "job", one.lineage, places, again=one.owns)
        slots = Slots(owner, places, world.names.sources)
        slots.take_over()
        restored, *_ = assembly.restored(settings, world.names, self.empty, topics, owner, Store(one.directory))
        if not restored.first_start:  # then it has claimed what was committed
            self.replaced = max(self.replaced, one.opened)
        one.pipeline = self._pipeline(one, restored, slots, topics, cores)
        self.replaced = max(self.replaced, one.opened)
        one.owns = True

    def _pipeline(self, one: Driver, restored: Restored, slots: Slots, topics: Any, cores: int) -> Pipeline:
        settings, names = self.settings, self.world.names
        context: Any = SimpleNamespace(
            broadcast=Value, master="local[*]", defaultParallelism=cores, setJobDescription=lambda text: None
        )
        session: Any = SimpleNamespace(sparkContext=context)
        state = assembly.state(settings, restored, Store(one.directory), AtOnce(), context, None)
        pipeline = assembly.pipeline(
            settings,
            names,
            state,
            slots,
            topics,
            session,
            observer=reporting.Observer(),
            planned=lambda number: {},
        )
        pipeline.careful, pipeline.time_limit = False, None
        if restored.first_start:
            slices = [packing.read(path, Slice) for path in restored.slices]
            pipeline.adopt(slices, restored.chosen, restored.positions)
        restored.forget_slices()
        if one.opened >= self.replaced:  # else its state may be of no version, and it commits nothing
            self.compare(state)
        return pipeline

    @property
    def sleeping(self) -> list[Driver]:
        return [one for one in self.drivers if one.actor is not None]

    def _idle(self, which: int) -> Driver | None:
        idle = [one for one in self.drivers if one.actor is None]
        return idle[-1 - which % len(idle)] if idle else None

    def _run(self, one: Driver, work: Callable[[], Any], faults: Sequence[Fault]) -> None:
        plan = Plan(list(faults))
        one.actor = Actor(self._actors, Facts(one, plan), work)
        self._go(one, plan)

    def _go(self, one: Driver, plan: Plan) -> None:
        """Let a driver go on until it is done, ends, or sleeps again."""
        actor = one.actor
        assert actor is not None
        actor.facts.plan.happened |= {"slept"} if actor.state == PARKED else set()
        plan.happened |= actor.facts.plan.happened
        actor.facts.plan = plan
        actor.go()
        if actor.state == PARKED:
            return
        one.actor = None
        if actor.error is None:
            then, one.then = one.then, lambda: None
            then()
            return
        self._ended(one)
        if isinstance(actor.error, Fenced):
            others = [who for who in self.commits[one.began :] if who.lineage != one.lineage]
            assert others, "fenced, and none has taken over"
            self.seen["superseded"] += 1
        # One that was opened later may have left a transaction open.
        elif isinstance(actor.error, JobError) and (plan.happened or self.drivers or self.opened > one.opened):
            if not actor.error.retry:
                raise actor.error
            self.seen[type(actor.error).__name__] += 1
        elif not isinstance(actor.error, Dead):
            raise actor.error

    def _ended(self, one: Driver) -> None:
        self.drivers.remove(one)
        self.ended.append(one)

    # Its tasks

    def _stage(self, works: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run the tasks of a stage as Spark does. Raises PySparkException as soon as one has failed: the others may
        still be at work, or begin later."""
        driver = self._actors.running
        one, plan = driver.facts.driver, driver.facts.plan
        tasks = [Actor(self._actors, Facts(one, plan, number), work) for number, work in enumerate(works)]
        attempts, waiting = list(tasks), deque(tasks)
        try:
            while waiting:
                task = waiting.popleft()
                task.facts.plan = driver.facts.plan
                task.go()
                if task.state == PARKED and task.why == "lose":
                    number = task.facts.task
                    tasks[number] = Actor(self._actors, replace(task.facts, attempt=1), works[number])
                    attempts.append(tasks[number])
                    waiting.appendleft(tasks[number])
                    self.seen["second attempt"] += 1
                elif task.state == PARKED:
                    if task.why == "sleep":
                        driver.park("sleep")
                    waiting.append(task)
                elif task.facts.attempt:
                    self._check_attempt(task)
                if task.error is not None:
                    raise PySparkException(_said(task.error))
        finally:
            self.zombies += [task for task in attempts if task.state != ENDED]
            for task in self.zombies[:-ZOMBIES]:
                task.kill()
            self.zombies = self.zombies[-ZOMBIES:]
        return [task.result for task in tasks]

    def _check_attempt(self, task: Actor) -> None:
        assert isinstance(task.error, Unsettled), "a second attempt publishes"

    def _check_error(self, error: BaseException | None) -> None:
        """Check that a task may raise this error."""
        if error is not None and not isinstance(error, JobError | Dead):
            raise error

    def _context(self) -> Any:
        facts = self._actors.running.facts
        return SimpleNamespace(partitionId=lambda: facts.task, attemptNumber=lambda: facts.attempt)

    # What happens at a request

    def _request(self, name: str, after: bool) -> int:
        """Before and after the effect of a request. Raises what its client gets; returns the code of an answer."""
        actor = self._actors.running
        driver = actor.facts.task is None
        if driver and after:
            self.told(actor.facts.driver, name)
        if driver and not after and name == "EndTxn":
            self.broker.sleep(0.0)  # `look` tells versions by the order of commits
        code = self._point(actor, name, after)
        if self._next is not None and self._next[:2] == (name, after) and (driver or not self._next[2]):
            (*_, happen), self._next = self._next, None
            happen(actor)
        return code

    def _point(self, actor: Actor, name: str, after: bool) -> int:
        fault = self._due(actor, after, KINDS)
        if fault is None:
            return 0
        kind = fault.kind
        if kind in ("cut", "late"):
            if kind == "late" and name == "EndTxn" and fault.call % 2:  # it is decided, and done later
                self.broker.late = not after
                return 0
            if kind == "late" and not after:
                return LATE
            raise errors.KafkaConnectionError("cut by the test")
        if kind == "busy":
            kinds = BUSY[name]
            return 0 if after else kinds[fault.call % len(kinds)].errno
        self._happen(actor, fault)
        return 0

    def _due(self, actor: Actor, after: bool, kinds: Sequence[str]) -> Fault | None:
        actor.check()
        plan: Plan = actor.facts.plan
        plan.calls += not after
        due = [f for f in plan.faults if f.call <= plan.calls and f.after == after and f.kind in kinds]
        if not due:
            return None
        plan.faults.remove(due[0])
        plan.happened.add(due[0].kind)
        self.seen[due[0].kind] += 1
        return due[0]

    def _happen(self, actor: Actor, fault: Fault) -> None:
        kind = fault.kind
        if kind == "die":
            actor.die()
        elif kind in ("sleep", "slow", "lose"):
            actor.park("sleep" if actor.facts.task is None or actor.facts.attempt else kind)
        elif kind == "expire":
            self.expire()
        elif kind == "delete":
            self.delete(fault.call)
        else:
            self.reject(fault.call, fault.call)


class _Topics:
    """As `kafka.topics.Topics`."""

    def __init__(self, history: SlotHistory) -> None:
        self._history = history
        self.partitions = history.broker.partitions
        self.create = history.broker.create

    def counts(self, names: Any) -> dict[str, int]:
        return {name: sum(source == EVENTS for source, _ in self._history.began) for name in names}

    def bounds(self, names: Any) -> dict[str, list[tuple[int, int, int]]]:
        world = self._history.world
        logs = sorted(world.topics.items())
        return {
            name: [(p, 0, len(log)) for (s, p), log in logs if s == world.names.sources.sources[name]] for name in names
        }

    def firsts(self, partitions: Any, timeout_s: float) -> Mapping[tuple[str, int], int]:
        return dict.fromkeys(partitions, 0)


class _Fetchers:
    """The fetcher of each task: a worker has one task at a time."""

    def __init__(self, history: SlotHistory) -> None:
        self._history = history
        self._of: dict[int, LogFetcher] = {}

    def __call__(self, *_: object) -> LogFetcher:
        actor = self._history._actors.running
        logs, sleep = self._history.world.topics, self._history.broker.sleep
        return self._of.setdefault(id(actor), LogFetcher(logs, 3, sleep))

    def cache_clear(self) -> None: ...


def _said(error: BaseException) -> str:
    """Return the error as Spark reports it."""
    if isinstance(error, Dead):
        return "Job aborted due to stage failure\nCaused by: java.io.EOFException"
    return traceback_of(error)


def at_random(history: SlotHistory, seed: int, steps: int) -> None:
    """A history of so many steps that is the same for the same seed."""
    r = Random(seed)

    def faults() -> list[Fault]:
        return [Fault(r.randint(1, 12), r.random() < 0.5, r.choice(KINDS)) for _ in range(r.choice([0, 1, 1, 2]))]

    def write() -> None:
        changes = [(r.randrange(6), r.randrange(8)) for _ in range(r.randrange(4))]
        history.write(changes, [(r.randrange(3), r.randrange(4)) for _ in range(r.randrange(6))])

    def batch() -> None:
        history.batch(r.randrange(3), r.randint(1, 4), r.randrange(3), r.randint(1, 4), r.randrange(24), faults())

    def epoch() -> None:
        history.epoch(r.randrange(3), r.randint(1, 4), r.randint(1, 4), r.random() < 0.3, faults())

    ways: list[Callable[[], None]] = [
        *[write] * 5,
        *[batch] * 5,
        *[epoch] * 5,
        *[lambda: history.start(r.randint(1, MOST_TASKS), r.random() < 0.5, faults())] * 2,
        *[lambda: history.wake(r.randrange(3), faults())] * 3,
        *[lambda: history.wake_task(r.randrange(3), faults())] * 3,
        *(lambda: history.crash(r.randrange(3)), lambda: history.expire(), lambda: history.add_partition()),
        *(lambda: history.delete(r.randrange(3)), lambda: history.reject(r.randrange(3), r.randrange(3))),
    ]
    for _ in range(steps):
        r.choice(ways)()
        history.check()
