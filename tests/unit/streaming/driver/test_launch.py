"""A job's code loads while Spark starts."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from config.model import Settings
from streaming.driver import launch
from streaming.driver.starting.beside import beside
from streaming.errors import ProcessLost
from tests.support.patience import PATIENCE_S


def test_a_context_is_entered_in_a_thread_and_ends_with_the_one_that_waits_for_it() -> None:
    steps: list[str] = []
    goes_on = threading.Event()

    @contextmanager
    def context() -> Iterator[int]:
        assert goes_on.wait(PATIENCE_S)
        steps.append("entered")
        try:
            yield 7
        finally:
            steps.append("ended")

    with beside(context()) as waited:
        steps.append("meanwhile")
        goes_on.set()
        with waited as value:
            assert value == 7
            steps.append("used")
        steps.append("after")
    assert steps == ["meanwhile", "entered", "used", "ended", "after"]


def test_a_context_that_nobody_waits_for_ends_too() -> None:
    ended = threading.Event()

    @contextmanager
    def context() -> Iterator[None]:
        yield
        ended.set()

    with beside(context()):
        pass
    assert ended.is_set()


def test_a_context_that_nobody_waits_for_is_given_up() -> None:
    steps: list[str] = []
    given_up = threading.Event()

    @contextmanager
    def context() -> Iterator[None]:
        assert given_up.wait(PATIENCE_S)
        raise OSError("no JVM")
        yield

    def give_up() -> None:
        steps.append("given up")
        given_up.set()

    with beside(context(), give_up):
        steps.append("meanwhile")
    assert steps[:2] == ["meanwhile", "given up"]
    given_up.clear()
    with beside(nullcontext(7), given_up.set) as waited, waited as value:
        assert value == 7
    assert not given_up.is_set()


def test_the_error_of_a_context_comes_where_it_is_waited_for() -> None:
    @contextmanager
    def context() -> Iterator[None]:
        raise OSError("no JVM")
        yield

    with beside(context()):
        pass
    with pytest.raises(OSError, match="no JVM"), beside(context()) as waited, waited:
        pass


def test_a_stop_whose_time_is_up_says_so_and_the_next_one_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()

    def run(settings: Any, opens: Any, stop: threading.Event, lineage: str, running: Any) -> None:
        running(None)
        assert stop.wait(PATIENCE_S)
        assert done.wait(PATIENCE_S)

    monkeypatch.setattr(launch, "run", run)
    monkeypatch.setattr(launch, "InheritableThread", threading.Thread)
    handle = launch.Handle(None, None)  # type: ignore[arg-type]  # `run` uses neither
    assert not handle.stop(timeout_s=0.01)
    done.set()
    assert handle.stop(timeout_s=PATIENCE_S)
    assert handle.await_termination(0)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "no process, memory or file descriptor"),
        (MemoryError("unable to allocate 8 GiB"), "no memory left: .*8 GiB"),
    ],
)
def test_a_lack_of_processes_or_memory_is_passing(tmp_path: Path, error: Exception, reason: str) -> None:
    def opens(scratch: Path) -> Any:
        raise error

    settings = Settings.model_validate({"query": {"checkpoint": str(tmp_path)}})
    with pytest.raises(ProcessLost, match=reason):
        launch.run(settings, opens, threading.Event(), "")
