"""Between two batches the job waits within Spark's callback for as long as there is nothing to read."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from streaming.driver import batches as between
from streaming.driver.assembly import _read_to_the_end, read_more
from streaming.driver.batches import SparkBatches
from streaming.driver.pipeline import Pipeline
from streaming.errors import JobError
from streaming.monitoring.reporting import Report, Stage
from streaming.publishing.contract import TopicPartition
from streaming.rows import EVENTS, SUBSCRIPTIONS
from streaming.source_topics import SourceTopics
from tests.support.doubles.spark_double import Frame
from tests.support.doubles.stage import NAMES, ListSink, Reports, event, pipeline, state
from tests.support.patience import PATIENCE_S


def frame(p: Pipeline, *rows: dict[str, Any]) -> Any:
    slots: Any = p.slots
    return Frame.of(rows, 10, slots.stage)


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(between, "ASK_EVERY_S", 0.001)


def test_it_waits_until_there_is_more_and_takes_what_was_done_beside_the_batches() -> None:
    p = pipeline(ListSink())
    p.state.pending_index = Future()
    p.state.pending_index.set_result(("counting", {}))
    answers = iter([True, True, False])
    SparkBatches(p, lambda number: next(answers))(frame(p), 0)
    assert next(answers, None) is None
    assert p.state.snapshot.algorithm == "counting"


def test_it_does_not_wait_where_there_is_more() -> None:
    p = pipeline(ListSink())
    p.state.step = lambda: pytest.fail("there is no time for it")  # type: ignore[method-assign]
    SparkBatches(p, lambda number: False)(frame(p), 0)


def test_offsets_are_committed_again_though_there_is_always_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers forget those of quiet partitions."""
    monkeypatch.setattr("streaming.driver.pipeline.KEEP_EVERY_S", -1.0)
    kept: list[int] = []
    owner: Any = ListSink()
    owner.keep = lambda: kept.append(len(kept))
    p = pipeline(owner)
    for number in range(2):
        SparkBatches(p, lambda number: False)(frame(p), number)
    assert kept == [0, 1]


def test_counts_of_a_batch_without_rows_come_with_the_next_that_has_some() -> None:
    p = pipeline(ListSink())
    p.observer = reports = Reports()
    run = p.run

    def lost(pipeline: Pipeline, number: int, report: Report) -> Any:
        report.counts["workers_lost"] += 1
        return SimpleNamespace(pieces=lambda batch: (), is_open=lambda batch: True, awaited=lambda batch: None)

    p.run = lost
    for number in range(2):
        p(None, number)
    assert reports.seen == []
    p.run = run
    for offset in range(2):
        SparkBatches(p)(frame(p, event(offset, {"x": 1})), offset)
    assert [report.counts["workers_lost"] for report in reports.seen] == [2, 0]


def test_a_topic_that_is_found_twice_is_read_once() -> None:
    p = pipeline(ListSink())
    before = dict(p.names.sources.names), p.state.positions
    read_more(p, {"events": [(0, 0, 5)]})
    assert (dict(p.names.sources.names), p.state.positions) == before


def test_events_of_a_found_topic_that_were_deleted_before_they_were_read_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    owner: Any = ListSink()
    owner.committed = lambda partitions: {("found", 0): 2}
    p = replace(pipeline(owner), names=replace(NAMES, sources=SourceTopics("subs", ["events"])))
    deleted: list[int] = []
    p.observer.deleted = deleted.append  # type: ignore[method-assign, assignment]
    with caplog.at_level(logging.WARNING, "sluice.job"):
        read_more(p, {"found": [(0, 5, 9)]})
    assert p.state.positions[p.names.sources.sources["found"], 0] == 5
    assert (caplog.messages, deleted) == (["events_deleted"], [3])


def test_a_clock_that_is_set_back_within_a_stage_makes_no_counter_smaller() -> None:
    report = Report(0, 0.0)
    report.stages.append(Stage("prepare", 1_000.0, 990.0, ""))
    assert report.fields()["prepare_ms"] == 0.0


def at_the_end_once_begun(begun: threading.Event, number: int) -> bool:
    begun.set()
    return True


def test_who_stops_the_job_need_not_wait_for_a_record() -> None:
    p, begun = pipeline(ListSink()), threading.Event()
    batches = SparkBatches(p, partial(at_the_end_once_begun, begun))
    waiting = threading.Thread(target=batches, args=(frame(p), 0))
    waiting.start()
    assert begun.wait(PATIENCE_S)
    batches._reject()
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()
    assert batches.failure is None


def test_a_stop_that_waits_for_a_batch_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(between, "SAY_AFTER_S", 0.0)
    batches = SparkBatches(pipeline(ListSink()))
    rejecting = threading.Thread(target=batches._reject)
    with caplog.at_level(logging.WARNING, "sluice.job"), batches.held():
        rejecting.start()
        while not caplog.records:
            time.sleep(0.001)
        assert rejecting.is_alive()
    rejecting.join(PATIENCE_S)
    assert caplog.messages == ["batch_awaited"]
    assert batches._finished


def test_who_ends_the_job_waits_for_the_batch_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = SparkBatches(pipeline(ListSink()))
    ending = threading.Thread(target=batches.abandon)
    with batches.held():
        ending.start()
        while not batches._finished:
            time.sleep(0.001)
        assert ending.is_alive()
        monkeypatch.setattr(between, "ABANDONED_S", 0.0)
        batches.abandon()
    ending.join(PATIENCE_S)
    assert not ending.is_alive()


def test_an_error_of_ours_between_two_batches_is_told_as_it_is() -> None:
    def fails(number: int) -> bool:
        raise ZeroDivisionError

    p = pipeline(ListSink())
    batches = SparkBatches(p, fails)
    with pytest.raises(ZeroDivisionError):
        batches(frame(p), 0)
    assert isinstance(batches.failure, ZeroDivisionError)


class StoppableQuery:
    """A query that can be stopped."""

    stopped = False

    def stop(self) -> None:
        self.stopped = True


def test_a_query_ends_between_two_batches_and_not_within_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(between, "WAIT_FOR_A_BATCH_S", 0.01)
    p, query, begun = pipeline(ListSink()), StoppableQuery(), threading.Event()
    batches = SparkBatches(p, partial(at_the_end_once_begun, begun))
    with batches.held():
        assert not batches.ended(query)  # type: ignore[arg-type]  # a double
    assert not query.stopped
    waiting = threading.Thread(target=batches, args=(frame(p), 0))
    waiting.start()
    assert begun.wait(PATIENCE_S)
    while not batches.ended(query):  # type: ignore[arg-type]  # a double
        pass
    waiting.join(PATIENCE_S)
    assert (query.stopped, waiting.is_alive()) == (True, False)
    with pytest.raises(InterruptedError):
        batches(frame(p), 1)
    batches.failure = JobError("no such option")
    with pytest.raises(JobError):
        batches.ended(query)  # type: ignore[arg-type]  # a double


def test_work_that_fails_while_it_waits_stops_the_job() -> None:
    p = pipeline(ListSink())
    p.state.pending_index = Future()
    p.state.pending_index.set_exception(JobError("no such option"))
    batches = SparkBatches(p, lambda number: True)
    with pytest.raises(JobError):
        batches(frame(p), 0)
    assert isinstance(batches.failure, JobError)


@pytest.mark.parametrize(
    ("told", "at_the_end"),
    [
        ({("events", 0): 5, ("subs", 0): 7}, True),
        ({("events", 0): 6, ("subs", 0): 7}, False),
        ({("events", 0): 5, ("subs", 0): 8}, False),
        ({("events", 0): 5, ("events", 1): 1}, False),
        ({("events", 0): 5, ("events", 1): 0}, True),
        ({("events", 0): 5, ("events", 2): 9}, True),
        ({("events", 0): 5, ("events", 2): 10}, False),
        (None, False),
    ],
    ids=[
        "read",
        "an event",
        "a change",
        "of another partition",
        "which is empty",
        "a marker",
        "more behind it",
        "no answer",
    ],
)
def test_there_is_more_if_a_partition_ends_beyond_the_positions(told: Any, at_the_end: bool) -> None:
    read = state({(EVENTS, 0): 5, (SUBSCRIPTIONS, 0): 7})
    planned = {(EVENTS, 0): 5, (EVENTS, 2): 9}  # records up to offset 8 of partition 2 were aborted
    assert _read_to_the_end(lambda: told, NAMES, read, lambda number: planned, 0) is at_the_end  # type: ignore[arg-type]


def test_an_event_is_done_before_it_waits() -> None:
    sink = ListSink()
    p = pipeline(sink)
    seen: list[int] = []

    def at_the_end(number: int) -> bool:
        seen.append(p.state.positions[EVENTS, 0])
        return False

    SparkBatches(p, at_the_end)(frame(p, event(0, {"x": 1})), 0)
    assert seen == [1]


def test_gaps_that_wait_for_an_answer_of_the_broker_are_counted_at_the_end() -> None:
    """The next job begins behind them."""
    p, at = pipeline(ListSink()), ("events", 0)
    asked: list[list[TopicPartition]] = []

    def firsts(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        asked.append(list(partitions))
        return dict.fromkeys(asked[-1], 0)

    p.deleted.firsts, p.deleted.clock = firsts, lambda: 100.0
    batches = SparkBatches(p)
    for offset in (1, 3):
        p.deleted.read({at: 1}, {at: offset})
        p.deleted.count()
    assert asked == [[at]], "not again so soon"
    batches.end(SimpleNamespace(stop=lambda: None), by_request=True)  # type: ignore[arg-type]  # a double
    assert asked == [[at], [at]]


def test_the_end_of_the_query_may_interrupt_the_wait() -> None:
    waiting = threading.Event()

    def interrupted(number: int) -> bool:
        waiting.set()
        while not batches._finished:
            time.sleep(0.001)
        raise InterruptedError("by the stop of the query")

    def process(batch: Any, number: int) -> None:
        """Do nothing."""

    work: Any = process
    batches = SparkBatches(work, interrupted)
    with ThreadPoolExecutor(1) as stream:
        batch = stream.submit(batches, work, 0)
        assert waiting.wait(PATIENCE_S)
        query: Any = SimpleNamespace(stop=lambda: batch.exception(PATIENCE_S))
        assert batches.ended(query)
    assert isinstance(batch.exception(), InterruptedError)
