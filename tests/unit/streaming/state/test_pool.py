"""Background processes beside the driver, and their work when they are killed."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from pathlib import Path
from typing import Any

import pytest

from streaming.state import pool
from streaming.state.pool import RestartingExecutor, processes
from tests.support.patience import PATIENCE_S

N = 6  # pieces of work


def killed_once(marker: Path, number: int) -> int:
    """The process is killed the first time that it does this."""
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def killed(marker: Path) -> None:
    with marker.open("a") as file:
        file.write("killed\n")
    os.kill(os.getpid(), signal.SIGKILL)


def slept() -> None:
    time.sleep(600)


def test_the_work_of_a_process_that_was_killed_is_done_again(tmp_path: Path) -> None:
    before = set(multiprocessing.active_children())  # of other tests
    with processes(2) as pool:
        begun = {pool.submit(killed_once, tmp_path / "marker", n): n for n in range(N)}
        assert sorted(task.result() for task in as_completed(begun, PATIENCE_S)) == list(range(N))
        assert (tmp_path / "marker").exists()
    assert not set(multiprocessing.active_children()) - before


def test_work_comes_to_its_end_though_an_idle_process_was_killed(tmp_path: Path) -> None:
    (tmp_path / "marker").touch()
    with processes(1) as pool:
        for n in range(2):
            assert pool.submit(killed_once, tmp_path / "marker", n).result(PATIENCE_S) == n
            for child in multiprocessing.active_children():
                child.kill()
                child.join()
        assert pool.submit(killed_once, tmp_path / "marker", N).result(PATIENCE_S) == N


def test_work_that_is_killed_again_and_again_fails(tmp_path: Path) -> None:
    """The work may be what kills the process, as when it needs more memory than the machine has."""
    with processes(1) as executor, pytest.raises(BrokenExecutor):
        executor.submit(killed, tmp_path / "marker").result(PATIENCE_S)
    assert len((tmp_path / "marker").read_text().split()) == pool.EXECUTOR_TRIES


def test_what_is_not_done_at_the_end_is_given_up() -> None:
    threads = set(threading.enumerate())
    with processes(1) as executor:
        begun = [executor.submit(slept) for _ in range(3)]
    for task in begun:
        assert task.exception(PATIENCE_S) if not task.cancelled() else task.done()
    assert not multiprocessing.active_children()
    assert set(threading.enumerate()) <= threads


def test_other_processes_of_the_program_are_left_alone_and_a_suspended_one_of_the_pool_ends() -> None:
    with processes(1) as executor:
        begun = executor.submit(os.getpid)
        suspended = begun.result(PATIENCE_S)
        other = multiprocessing.get_context("spawn").Process(target=slept)
        other.start()
        executor.submit(slept)
        os.kill(suspended, signal.SIGSTOP)
    assert other.is_alive()
    assert suspended not in {child.pid for child in multiprocessing.active_children()}
    other.kill()
    other.join()


class Breaking(Executor):
    """Breaks if the next entry of `plan` says so, else does what it is told."""

    def __init__(self, plan: list[bool]) -> None:
        self.plan = plan

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.plan.pop(0):
            future.set_exception(BrokenExecutor("killed"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


@pytest.mark.parametrize(
    ("plan", "fails"),
    [
        ([True, True, False], [False]),
        ([True, True, True], [True]),
        ([True, True, False, True, True, False], [False, False]),  # what comes to its end begins a new row
    ],
)
def test_only_breaks_in_a_row_are_counted(plan: list[bool], fails: list[bool]) -> None:
    executor = RestartingExecutor(lambda: Breaking(plan))
    found = [executor.submit(str, n).exception() is not None for n in range(len(fails))]
    assert found == fails
    assert plan == []


class Refused(Executor):
    """The system has no process for it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


def refused() -> Executor:
    raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.parametrize("second", [Refused, refused])
def test_work_of_a_killed_process_that_no_other_can_repeat_fails(second: Callable[[], Executor]) -> None:
    executors = iter([lambda: Breaking([True]), second])
    executor = RestartingExecutor(lambda: next(executors)())
    assert isinstance(executor.submit(str, 1).exception(PATIENCE_S), OSError)
