"""Between two batches the job waits within Spark's callback for as long as there is nothing to read."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from streaming.driver import batches as between
from streaming.driver.assembly import _read_to_the_end
from streaming.driver.batches import SparkBatches
from streaming.driver.pipeline import Pipeline
from streaming.errors import JobError
from streaming.publishing.contract import TopicPartition
from streaming.rows import EVENTS, SUBSCRIPTIONS
from tests.support.doubles.spark_double import Frame
from tests.support.doubles.stage import NAMES, ListSink, event, pipeline, state
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
    SparkBatches(p, lambda: next(answers))(frame(p), 0)
    assert next(answers, None) is None
    assert p.state.snapshot.algorithm == "counting"


def test_it_does_not_wait_where_there_is_more() -> None:
    p = pipeline(ListSink())
    p.state.step = lambda: pytest.fail("there is no time for it")  # type: ignore[method-assign]
    SparkBatches(p, lambda: False)(frame(p), 0)


def test_who_stops_the_job_need_not_wait_for_a_record() -> None:
    p = pipeline(ListSink())
    batches = SparkBatches(p, lambda: True)
    waiting = threading.Thread(target=batches, args=(frame(p), 0))
    waiting.start()
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
    def fails() -> bool:
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
    p, query = pipeline(ListSink()), StoppableQuery()
    batches = SparkBatches(p, lambda: True)
    with batches.held():
        assert not batches.ended(query)  # type: ignore[arg-type]  # a double
    assert not query.stopped
    waiting = threading.Thread(target=batches, args=(frame(p), 0))
    waiting.start()
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
    batches = SparkBatches(p, lambda: True)
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
        (None, False),
    ],
    ids=["read", "an event", "a change", "of another partition", "which is empty", "no answer"],
)
def test_there_is_more_if_a_partition_ends_beyond_the_positions(told: Any, at_the_end: bool) -> None:
    read = state({(EVENTS, 0): 5, (SUBSCRIPTIONS, 0): 7})
    assert _read_to_the_end(lambda: told, NAMES, read) is at_the_end  # type: ignore[arg-type]  # a double


def test_an_event_is_done_before_it_waits() -> None:
    sink = ListSink()
    p = pipeline(sink)
    seen: list[int] = []

    def at_the_end() -> bool:
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
