"""The driver runs epochs, whose tasks read their records themselves: nothing is lost or twice, whatever ends them.

Connections to brokers, requests and answers are real; Spark, slots, sockets, brokers and the clock are not.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from streaming.driver import attempts, epoch_batches, sources
from streaming.driver.epoch_batches import EpochBatches
from streaming.driver.limits.quotas import DeliveryQuota
from streaming.driver.limits.time_limit import TimeLimit
from streaming.driver.runs import epoch_run, task_count
from streaming.driver.runs.epoch_run import EpochPlan, EpochReading, EpochRun
from streaming.errors import JobError, OffsetsBeyondEnd, TopicMissing
from streaming.monitoring.reporting import Report
from streaming.publishing.connection.client import Client
from streaming.rows import EVENTS, SUBSCRIPTIONS, ConsumerRecord, SourcePartition
from streaming.state.state import State
from streaming.worker import epoch as reading
from streaming.worker import matching, publishing
from streaming.worker.compiling import ChangeRecords, CompiledChanges, compile_changes
from streaming.worker.events.matches import EventMatching, Matches
from tests.support.doubles.fetch_brokers import FetchBrokers, Log
from tests.support.doubles.fetched_batches import marker
from tests.support.doubles.spark_double import EpochSession
from tests.support.doubles.stage import ALICE, BOB, NAMES, ListSink, Reports, headers_of, pipeline, published, slots_of
from tests.support.doubles.wire import HOSTS, PORT, Wire
from tests.support.patience import PATIENCE_S

TOPICS = NAMES.sources.names
ADDRESS = ",".join(f"{host}:{PORT}" for host in HOSTS.values())
A, B, C = (EVENTS, 0), (EVENTS, 1), (SUBSCRIPTIONS, 0)
SHORT, LONG = EpochPlan(1.0), EpochPlan(60.0)


class Died(BaseException):
    """A worker did."""


class Stage:
    """A pipeline of epochs over two partitions of events and one of changes."""

    def __init__(self, patch: pytest.MonkeyPatch, absent: set[str] | None = None) -> None:
        self.brokers, self.sink = FetchBrokers(), ListSink()
        self.logs = {A: Log(0), B: Log(1), C: Log(0)}
        self.brokers.partition_logs |= {(TOPICS[source], p): log for (source, p), log in self.logs.items()}
        self.wire = Wire(self.brokers)
        self.wire.install(patch)
        for module in (reading, epoch_batches, attempts):
            patch.setattr(module, "time", self.brokers)
        self.pipeline = pipeline(self.sink, absent)
        self.pipeline.state.positions = dict.fromkeys(self.logs, 0)
        self.slots = slots_of(self.pipeline)
        self.reports = Reports()
        self.pipeline.observer = self.reports
        self.tasks_of_jobs: list[int] = []
        limits = {"most_events": 100_000, "most_changes": 20_000}
        spark: Any = EpochSession(self._run)
        self.pipeline.run = partial(
            EpochRun, reading=EpochReading(spark, NAMES.sources, lambda: Client(ADDRESS, {}), **limits)
        )
        patch.setattr(reading, "_address", lambda settings: (ADDRESS, ()))

    def _run(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        self.tasks_of_jobs.append(len(tasks))
        try:
            return self.slots.stage(tasks)
        except Died as died:
            raise PySparkException("java.io.EOFException") from died

    def event(self, at: SourcePartition, *values: Any) -> None:
        log = self.logs[at]
        found = [ConsumerRecord(0, log.end + n, 1_000, None, json.dumps(v).encode()) for n, v in enumerate(values)]
        log.append(found)

    def markers(self, at: SourcePartition, n: int) -> None:
        """Offsets without records."""
        log = self.logs[at]
        for offset in range(log.end, log.end + n):
            log.append_bytes(marker(offset, 1, commit=True), offset, offset + 1)

    def change(self, id: str, document: Mapping[str, Any] | None) -> None:
        value = None if document is None else json.dumps({"id": id, **document}).encode()
        self.logs[C].append([ConsumerRecord(0, self.logs[C].end, 1_000, id.encode(), value)])

    def step(self, plan: EpochPlan = SHORT) -> list[str]:
        """Run an epoch; the deliveries, statuses and dead letters, as "topic id" with the id of the event."""
        before = len(self.sink.transactions)
        self.pipeline(plan, 0)
        return self.seen(before)

    def seen(self, before: int = 0) -> list[str]:
        sent = [record for records, _ in self.sink.transactions[before:] for record in records]
        return [f"{r.topic} {headers_of(r).get('ce_id', r.key or b'').decode()}" for r in sent]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    reading._fetcher.cache_clear()
    yield Stage(monkeypatch)
    if reading._fetcher.cache_info().currsize:
        reading._fetcher(ADDRESS, ()).close()
        reading._fetcher.cache_clear()


def poison(patch: pytest.MonkeyPatch, *values: bytes) -> None:
    """Let these events kill the process that matches them."""
    match = EventMatching.__call__

    def deadly(self: EventMatching, rows: pa.RecordBatch) -> Matches:
        if {*values} & {*rows["value"].to_pylist()}:
            raise Died
        return match(self, rows)

    patch.setattr(EventMatching, "__call__", deadly)


def test_events_meet_the_state_before_the_changes_of_their_epoch(stage: Stage) -> None:
    stage.change("a", ALICE)
    stage.event(A, {"x": 1})
    assert stage.step(LONG) == ["status a"]
    stage.event(B, {"x": 1}, {"x": 2})
    assert stage.step() == ["to.alice events-1-0"]
    assert stage.pipeline.state.positions == {A: 1, B: 2, C: 1}
    assert [report.events for report in stage.reports.seen] == [1, 2]


def test_how_long_events_have_waited_is_unknown_while_a_partition_may_hold_older_ones(stage: Stage) -> None:
    state = stage.pipeline.state
    state.waited_ms = inf
    stage.wire.down.add(HOSTS[stage.logs[B].leader])
    stage.change("a", ALICE)
    assert stage.step(LONG) == ["status a"]
    assert state.waited_ms == inf
    stage.event(A, {"x": 1})
    assert stage.step() == ["to.alice events-0-0"]
    assert state.waited_ms == inf
    stage.wire.down.clear()
    stage.brokers.now += 5.0  # a broker that was away is asked again after a moment
    stage.step()
    assert state.waited_ms == 0.0  # everything is read


def test_bounded_epochs_know_how_long_events_have_waited_once_they_have_read_some(stage: Stage) -> None:
    state = stage.pipeline.state
    state.waited_ms = inf
    callback = batches(stage, bounded={EVENTS: 1, SUBSCRIPTIONS: 100})
    stage.change("a", ALICE)
    callback._epoch()
    assert state.waited_ms == 0.0  # there is no event
    now_ms = int(1000 * time.time())
    for at in (A, B):
        found = [ConsumerRecord(0, n, now_ms - 3_600_000, None, b"{}") for n in range(3)]
        stage.logs[at].append(found)
    callback._epoch()
    assert 3_600_000 <= state.waited_ms < 3_700_000
    run: Any = stage.pipeline.run(stage.pipeline, 0, Report(0, 0.0))
    assert run.awaited(EpochPlan(0.0, {A: 1, C: 1})) == {A}
    assert run.awaited(EpochPlan(1.0)) == {A, B}
    stage.pipeline.run = lambda *_: SimpleNamespace(
        is_open=lambda _: False, awaited=lambda _: {A}, pieces=lambda _: iter(())
    )
    stage.pipeline(EpochPlan(0.0, {A: 9}), 1)  # only of an aborted transaction
    assert state.waited_ms == inf


def test_sparks_ui_tells_what_the_last_batch_was(stage: Stage) -> None:
    told: list[str] = []
    stage.pipeline.describe = told.append
    stage.change("a", ALICE)
    stage.step(LONG)
    stage.event(A, {"x": 1}, {"x": 2})
    stage.step()
    stage.step()
    assert told == [
        "batch 0: match and publish",
        "batch 0: match and publish; before it 0 events, 0 deliveries",
        "batch 0: match and publish; before it 2 events, 1 deliveries",
    ]


def test_a_change_ends_an_epoch_whatever_its_length(stage: Stage) -> None:
    began = stage.brokers.now
    stage.change("a", ALICE)
    stage.step(LONG)
    assert stage.brokers.now - began < 1.0


def test_partitions_are_dealt_to_as_many_tasks_as_events_come(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.pipeline.tasks = 2
    stage.change("b", BOB)
    stage.step(LONG)
    monkeypatch.setattr(task_count, "EVENTS_PER_TASK_S", 1e-9)
    monkeypatch.setattr(task_count, "EVENTS_PER_PARTITION", 1e-9)
    stage.event(A, {"x": 1})
    stage.event(B, {"x": 1})
    assert sorted(stage.step()) == ["to.bob events-0-0", "to.bob events-1-0"]
    stage.event(A, {"x": 1})
    stage.event(B, {"x": 1})
    assert sorted(stage.step()) == ["to.bob events-0-1", "to.bob events-1-1"]
    assert stage.tasks_of_jobs == [1, 1, 2]


def test_after_a_death_the_epoch_comes_again_and_what_was_committed_does_not(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.change("b", BOB)
    stage.step(LONG)
    deaths = iter([True, False])
    match = EventMatching.__call__

    def dies_once(self: EventMatching, rows: pa.RecordBatch) -> Matches:
        if b'{"x": 2}' in rows["value"].to_pylist() and next(deaths):
            raise Died
        return match(self, rows)

    monkeypatch.setattr(EventMatching, "__call__", dies_once)
    monkeypatch.setattr(epoch_run, "MOST_EVENTS", 1)
    stage.event(A, {"x": 1})
    stage.event(A, {"x": 2})
    assert stage.step() == ["to.bob events-0-0", "to.bob events-0-1"]
    assert stage.reports.seen[-1].counts["workers_lost"] == 1
    assert (stage.reports.seen[-1].events, stage.reports.seen[-1].counts["deliveries"]) == (2, 2)


def test_what_a_task_had_committed_before_it_died_is_never_counted_twice_by_subscriber(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.pipeline.settings = replace(stage.pipeline.settings, counts_subscribers=True)
    stage.change("b", BOB)
    stage.step(LONG)
    dying = iter([False, True, False, False, False])
    publish = publishing.Task.publish

    def dies_once(self: Any, *work: Any) -> Any:
        if next(dying):
            raise Died
        return publish(self, *work)

    monkeypatch.setattr(publishing.Task, "publish", dies_once)
    monkeypatch.setattr(epoch_run, "MOST_EVENTS", 1)
    stage.event(A, {"x": 1}, {"x": 2}, {"x": "long" * 1_000})
    stage.step()
    assert [one.topic for one in published(stage.sink) if one.topic != "status"] == ["to.bob", "to.bob", "dead"]
    (counts,) = stage.reports.counts
    assert (counts.deliveries.tolist(), dict(counts.dead_letters)) == ([1], {"bob": {"oversize": 1}})
    assert counts.size_bytes.tolist() == [published(stage.sink)[1].size()]


def test_events_that_kill_every_worker_are_set_aside(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.change("b", BOB)
    stage.step(LONG)
    poison(monkeypatch, b'{"x": 13}', b'{"x": 26}')
    stage.event(A, *({"x": n} for n in range(20)))
    stage.event(B, *({"x": n} for n in range(20, 40)))
    seen = stage.step()
    assert len(seen) == 40
    assert len(set(seen)) == 39  # two dead letters, and each other event once
    letters = [one for one in published(stage.sink) if one.topic == "dead"]
    assert sorted(letter.value or b"" for letter in letters) == [b'{"x": 13}', b'{"x": 26}']
    assert stage.pipeline.state.positions == {A: 20, B: 20, C: 1}
    stage.event(A, {"x": 1})
    assert stage.step() == ["to.bob events-0-20"]


def test_an_epoch_makes_progress_if_it_reads_a_record_or_offsets_without_one(stage: Stage) -> None:
    def progress(plan: EpochPlan = SHORT) -> bool:
        before = stage.reports.progress
        stage.step(plan)
        return stage.reports.progress > before

    stage.change("b", BOB)
    assert progress(LONG)
    assert not progress()
    stage.event(A, {"x": 1})
    assert progress()
    stage.markers(B, 3)
    assert progress()
    assert not progress()
    stage.markers(B, 3)
    assert progress(EpochPlan(0.0, {B: 6}))


def test_tasks_that_were_cancelled_because_they_hung_are_progress(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the job would be restarted before it has found the event."""
    stage.change("b", BOB)
    stage.step(LONG)
    match, cancelled = EventMatching.__call__, threading.Event()

    def hangs(self: EventMatching, rows: pa.RecordBatch) -> Matches:
        if b'{"x": 13}' in rows["value"].to_pylist():
            assert cancelled.wait(PATIENCE_S)
            raise Died
        return match(self, rows)

    monkeypatch.setattr(EventMatching, "__call__", hangs)
    jobs = SimpleNamespace(begin=cancelled.clear, end=lambda: None, cancel=cancelled.set)
    stage.pipeline.time_limit = TimeLimit(jobs, least_s=0.05)
    monkeypatch.setattr(TimeLimit, "seconds", lambda self: self.least_s)
    stage.event(A, {"x": 13})
    before = stage.reports.progress
    stage.step()
    assert [one.value for one in published(stage.sink) if one.topic == "dead"] == [b'{"x": 13}']
    counts = stage.reports.seen[-1].counts
    assert counts["workers_hung"] == counts["workers_lost"]
    reads = 2  # of the driver: where the record lies, and for its dead letter
    assert stage.reports.progress == before + counts["workers_hung"] + reads + 1


def test_a_change_that_kills_every_worker_is_rejected_for_good(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compile_changes

    def deadly(records: ChangeRecords) -> CompiledChanges:
        if b"poison" in records.keys:
            raise Died
        return compiled(records)

    kept: list[tuple[int, int]] = []
    monkeypatch.setattr(matching, "compile_changes", deadly)
    monkeypatch.setattr(State, "reject", lambda self, changes: kept.extend(changes))
    for id in ("a", "poison", "b"):
        stage.change(id, ALICE)
    assert sorted(stage.step(LONG)) == ["dead poison", "status a", "status b", "status poison"]
    assert kept == [(0, 1)]


@pytest.mark.parametrize("error", [OffsetsBeyondEnd, TopicMissing])
def test_nothing_is_committed_to_a_topic_that_may_have_been_created_again(
    error: type[JobError], stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(self: EpochRun, *_: Any) -> Any:
        raise error("the topic")

    monkeypatch.setattr(EpochRun, "_stage", ended)
    monkeypatch.setattr(type(stage.slots), "settle", lambda *_: pytest.fail("offsets are committed"))
    stage.event(A, {"x": 1})
    with pytest.raises(error):
        stage.step()


def test_an_event_that_comes_while_another_is_set_aside_is_delivered(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.change("b", BOB)
    stage.step(LONG)
    poison(monkeypatch, b'{"x": 13}')
    stage.event(A, {"x": 13})
    only = EpochRun.only

    def late(self: EpochRun, batch: EpochPlan, places: Any) -> EpochPlan:
        if not len(places):
            stage.event(A, {"x": 1})
        return only(self, batch, places)

    monkeypatch.setattr(EpochRun, "only", late)
    assert stage.step() == ["dead "]
    assert stage.step() == ["to.bob events-0-1"]


def test_a_search_for_what_kills_workers_reads_only_so_many_records_of_all_partitions(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epoch_run, "MOST_ISOLATED_IN_ALL", 6)
    for at in (A, B):
        stage.event(at, *({"x": n} for n in range(5)))
    run: Any = stage.pipeline.run(stage.pipeline, 0, Report(0, 0.0))
    before = stage.reports.progress
    assert run.places(SHORT)[:, :3].tolist() == [[*at, offset] for at in (A, B) for offset in range(2)]
    assert stage.reports.progress > before


def test_an_event_that_kills_every_worker_is_found_behind_many_offsets_without_records(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.change("b", BOB)
    stage.step(LONG)
    poison(monkeypatch, b'{"x": 13}')
    monkeypatch.setattr(epoch_run, "MOST_ISOLATED", 2)
    stage.markers(A, 5)
    stage.event(A, {"x": 13}, {"x": 1})
    assert stage.step() == ["dead "]
    assert stage.step() == ["to.bob events-0-6"]


def test_a_change_that_kills_every_worker_is_rejected(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def deadly(changes: Any) -> Any:
        if b"bad" in changes.keys:
            raise Died
        return compile_changes(changes)

    monkeypatch.setattr(matching, "compile_changes", deadly)
    for id in ("a", "bad", "b"):
        stage.change(id, BOB)
    assert sorted(stage.step(LONG)) == ["dead bad", "status a", "status b", "status bad"]
    assert len(stage.pipeline.state.snapshot) == 2


def test_without_a_topic_the_epoch_ends_and_the_rest_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reading._fetcher.cache_clear()
    absent = {"to.alice"}
    stage = Stage(monkeypatch, absent)
    outputs: Any = stage.pipeline.outputs

    def made(topics: Any) -> set[str]:
        absent.clear()
        return set()

    outputs.missing = made
    stage.change("a", ALICE)
    stage.change("b", BOB)
    stage.step(LONG)
    absent.add("to.alice")
    monkeypatch.setattr(epoch_run, "MOST_EVENTS", 1)
    stage.event(A, {"x": 2}, {"x": 1}, {"x": 3})
    assert stage.step() == ["to.bob events-0-0", "to.alice events-0-1", "to.bob events-0-1", "to.bob events-0-2"]
    reading._fetcher(ADDRESS, ()).close()
    reading._fetcher.cache_clear()


def batches(stage: Stage, **options: Any) -> EpochBatches:
    def now() -> dict[tuple[str, int], int]:
        return {(TOPICS[source], p): log.end for (source, p), log in stage.logs.items()}

    def planned(number: int) -> Mapping[SourcePartition, int]:
        return {at: log.end for at, log in stage.logs.items()}

    told: Any = now
    return EpochBatches(stage.pipeline, told, **{"planned": planned, "bounded": None, **options})


def call(callback: EpochBatches) -> None:
    batch: Any = EpochSession(lambda tasks: [])
    callback(batch, 0)


def test_it_goes_on_until_there_is_something_behind_what_spark_has_planned(stage: Stage) -> None:
    callback = batches(stage)
    stage.change("b", BOB)
    stage.event(A, {"x": 1})
    later = iter([62.0, 63.0])
    began, due = stage.brokers.now, next(later)

    def on_fetch() -> None:
        nonlocal due
        if stage.brokers.now - began > due:
            due = next(later, 1e9)
            stage.event(A, {"x": 1})

    stage.brokers.on_fetch = on_fetch
    call(callback)
    assert 62.0 < stage.brokers.now - began < 63.0 + 2 * epoch_batches.SECONDS
    assert stage.seen().count("to.bob events-0-1") == 1
    assert max(report.number for report in stage.reports.seen) >= 2  # epochs have numbers of their own


def test_it_lets_spark_plan_now_and_then_while_events_come(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_batches, "SECONDS", 0.8)
    monkeypatch.setattr(epoch_batches, "SPARK_PLANS_EVERY_S", 2.0)
    callback = batches(stage)
    stage.change("b", BOB)
    stage.brokers.on_fetch = lambda: stage.event(A, {"x": 1})
    began = stage.brokers.now
    call(callback)
    assert 2.0 <= stage.brokers.now - began < 2.0 + 2 * epoch_batches.SECONDS


def test_with_a_quota_the_deliveries_of_a_bounded_epoch_are_counted_first(stage: Stage) -> None:
    stage.change("b", BOB)
    stage.step(LONG)
    stage.pipeline.delivery_quota = DeliveryQuota(2, drop=True)
    stage.event(A, *({"x": n} for n in range(5)))
    callback = batches(stage, bounded={EVENTS: 100, SUBSCRIPTIONS: 100})
    callback._epoch()
    callback._epoch()  # there is nothing more
    assert stage.seen()[1:] == ["to.bob events-0-0", "to.bob events-0-1"]
    assert stage.pipeline.state.looked_at[A] == 5


def test_a_bounded_epoch_has_no_more_than_allowed(stage: Stage) -> None:
    stage.event(A, *({"x": n} for n in range(5)))
    stage.event(B, {"x": 1})
    callback = batches(stage, bounded={EVENTS: 4, SUBSCRIPTIONS: 1})
    for expected in ({A: 2, B: 1}, {A: 4, B: 1}, {A: 5, B: 1}):
        callback._epoch()
        assert stage.pipeline.state.positions == expected | {C: 0}


def test_offsets_without_records_do_not_begin_a_bounded_epoch_again_and_again(stage: Stage) -> None:
    stage.markers(A, 1)
    callback = batches(stage, bounded={EVENTS: 4, SUBSCRIPTIONS: 1})
    for _ in range(3):
        callback._epoch()
    assert len(stage.tasks_of_jobs) == 1


def test_bounded_epochs_go_on_behind_more_offsets_without_records_than_they_have(stage: Stage) -> None:
    stage.change("a", ALICE)
    stage.step(LONG)
    stage.markers(A, 10)
    stage.event(A, {"x": 1})
    callback = batches(stage, bounded={EVENTS: 4, SUBSCRIPTIONS: 1})
    for _ in range(6):
        callback._epoch()
    assert stage.seen()[1:] == ["to.alice events-0-10"]


def test_a_bounded_epoch_has_few_events_while_they_are_matched_without_an_index(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.change("a", ALICE)
    stage.step(LONG)
    stage.pipeline.state.pending_index = Future()
    monkeypatch.setattr(sources, "PAIRS_WITHOUT_INDEX", 1)
    monkeypatch.setattr(sources, "LEAST_EVENTS", 4)
    stage.event(A, *({"x": n} for n in range(5)))
    batches(stage, bounded={EVENTS: 100, SUBSCRIPTIONS: 1})._epoch()
    assert stage.pipeline.state.positions[A] == 2  # half of four: there are two partitions


def test_added_partitions_are_read_from_their_first_record_on(stage: Stage) -> None:
    del stage.pipeline.state.positions[B]
    stage.change("b", BOB)
    stage.event(B, {"x": 1})
    callback = batches(stage)
    callback._epoch()
    callback._epoch()
    assert stage.pipeline.state.positions == {A: 0, B: 1, C: 1}


def test_a_stop_takes_effect_between_two_epochs(stage: Stage) -> None:
    callback = batches(stage)
    epochs = 0

    def on_fetch() -> None:
        nonlocal epochs
        epochs += 1
        callback._finished = epochs >= 3

    stage.brokers.on_fetch = on_fetch
    call(callback)
    assert epochs <= 3 + 2 * epoch_batches.SECONDS / 0.5
    with pytest.raises(InterruptedError):
        call(callback)


def test_the_driver_measures_what_there_is_now(stage: Stage) -> None:
    stage.event(A, {"x": 1}, {"x": 2})
    stage.change("b", BOB)
    report: Any = None
    run: Any = stage.pipeline.run(stage.pipeline, 0, report)
    size = len(b'{"x": 1}')
    places = run.places(SHORT)
    assert places[:2].tolist() == [[EVENTS, 0, 0, size], [EVENTS, 0, 1, size]]
    assert places[2, :3].tolist() == [SUBSCRIPTIONS, 0, 0]
    assert run.only(SHORT, places[1:]).ends == {A: 2, C: 1}
    assert run.places(run.only(SHORT, places[:1])).tolist() == places[:1].tolist()
    assert run.places(run.only(SHORT, places[:0])).dtype == np.int64


def test_a_transaction_may_have_the_more_events_the_more_partitions_it_writes_to(stage: Stage) -> None:
    report: Any = None

    def epoch_of(partitions: int) -> Any:
        stage.pipeline.last = SimpleNamespace(partitions=partitions, events=1, start=0.0, ended=1.0)  # type: ignore[assignment]
        run: Any = stage.pipeline.run(stage.pipeline, 0, report)
        return run.epoch(SHORT, 1)

    assert epoch_of(1).most_events == epoch_run.MOST_EVENTS < epoch_of(1_000).most_events
