"""The warm-up of a start."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from streaming.driver import job
from streaming.driver.isolation import WorkersLost
from streaming.driver.limits.time_limit import TaggedJobs
from streaming.driver.starting import warm_up
from streaming.worker.warm_up import WarmUp
from tests.support.doubles.stage import ListSink, pipeline
from tests.support.patience import PATIENCE_S


@pytest.mark.parametrize("is_warm", [False, True])
def test_workers_that_are_killed_while_they_are_warmed_up_do_not_end_the_start(
    monkeypatch: pytest.MonkeyPatch, is_warm: bool
) -> None:
    def lost(*_: object, **__: object) -> None:
        raise WorkersLost("Python worker exited unexpectedly", again=True)

    monkeypatch.setattr(warm_up, "state" if is_warm else "workers", lost)
    job._warm(None, pipeline(ListSink()), is_warm=is_warm, reading=True)  # type: ignore[arg-type]  # no session is used


def session(monkeypatch: pytest.MonkeyPatch, collect: Any) -> Any:
    for name in ("begin", "end"):
        monkeypatch.setattr(TaggedJobs, name, lambda self: None)
    rdd = SimpleNamespace(mapPartitions=lambda work: SimpleNamespace(collect=collect))
    context = SimpleNamespace(defaultParallelism=1, setJobDescription=lambda _: None, parallelize=lambda *_: rdd)
    return SimpleNamespace(sparkContext=context)


def test_killed_workers_are_told_from_errors_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(reason: str) -> None:
        raise PySparkException(reason)

    nothing = WarmUp([], [], reads=True)
    with pytest.raises(WorkersLost, match="exited"):
        warm_up._run(session(monkeypatch, lambda: fail("Python worker exited unexpectedly")), nothing, "")
    with pytest.raises(PySparkException, match="Traceback"):
        warm_up._run(session(monkeypatch, lambda: fail("Traceback (most recent call last): …")), nothing, "")


def test_workers_that_hang_are_killed_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(TaggedJobs, "cancel", lambda self: ended.set())
    monkeypatch.setattr(warm_up, "WARM_WITHIN_S", 0.01)

    def hang() -> None:
        assert ended.wait(PATIENCE_S)
        raise PySparkException("Job 1 cancelled")

    with pytest.raises(WorkersLost, match="workers did not answer in time and were killed"):
        warm_up._run(session(monkeypatch, hang), WarmUp([], [], reads=True), "")


def test_a_worker_that_is_lost_while_it_loads_an_index_does_not_end_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = iter(["Python worker exited unexpectedly", None])
    tried = []

    def load() -> None:
        tried.append(reason := next(reasons))
        if reason:
            raise PySparkException(reason)

    here = session(monkeypatch, None)
    rows = SimpleNamespace(mapInArrow=lambda *_: SimpleNamespace(toArrow=load))
    here.createDataFrame = lambda _: SimpleNamespace(coalesce=lambda _: rows)
    warm_up.index(here, "scan", {})
    assert len(tried) == 2

    reasons = iter(["Traceback (most recent call last): …"])
    with pytest.raises(PySparkException, match="Traceback"):
        warm_up.index(here, "scan", {})
