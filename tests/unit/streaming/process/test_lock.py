"""The lock of a checkpoint: one process runs, one stands by, and the others wait to stand by."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest

from streaming.process import lock
from tests.support.patience import PATIENCE_S

HOLDER = """
import sys, pathlib
from streaming.process import lock
with lock.opened(pathlib.Path(sys.argv[1])) as own:
    print(own.acquire(), flush=True)
    sys.stdin.read()
"""


def test_one_process_runs_and_one_stands_by_and_a_third_waits(tmp_path: Path) -> None:
    stop, soon = threading.Event(), threading.Timer(0.1, lambda: stop.set())
    with lock.opened(tmp_path) as first, lock.opened(tmp_path) as second, lock.opened(tmp_path) as third:
        assert first.reserve(stop)
        assert first.held
        first.started()
        assert second.reserve(stop)
        assert not second.held
        assert not lock.is_standby_ready(tmp_path)
        assert not lock.is_standby_ready(tmp_path / "deleted")
        second.stands_ready()
        assert lock.is_standby_ready(tmp_path)
        soon.start()
        assert not third.reserve(stop)
        second.leave_standby()
        assert not lock.is_standby_ready(tmp_path)
        assert third.reserve(threading.Event())
        assert not third.held
        with second.watched():
            assert not second.wait(threading.Event(), 0.1)


def test_two_looks_at_the_same_time_see_no_standby_that_is_not_there(tmp_path: Path) -> None:
    with lock.opened(tmp_path), (tmp_path / lock.READY).open() as other:
        fcntl.flock(other, fcntl.LOCK_SH)  # in the middle of another look
        assert not lock.is_standby_ready(tmp_path)


def test_a_process_stands_by_once_the_job_has_started(tmp_path: Path) -> None:
    with lock.opened(tmp_path) as first, lock.opened(tmp_path) as second, ThreadPoolExecutor(1) as pool:
        assert first.acquire()
        reserved = pool.submit(second.reserve, threading.Event())
        with pytest.raises(TimeoutError):
            reserved.result(0.2)
        first.started()
        assert reserved.result(PATIENCE_S)
        assert not second.held


def test_a_process_runs_at_once_if_the_job_ends_before_it_has_started_and_another_may_stand_by(tmp_path: Path) -> None:
    with lock.opened(tmp_path) as second, lock.opened(tmp_path) as third, ThreadPoolExecutor(1) as pool:
        with lock.opened(tmp_path) as first:
            assert first.acquire()
            reserved = pool.submit(second.reserve, threading.Event())
            with pytest.raises(TimeoutError):
                reserved.result(0.2)
        assert reserved.result(PATIENCE_S)
        assert second.held
        second.started()
        assert third.reserve(threading.Event())
        assert not third.held


def test_a_process_that_prepares_itself_comes_before_one_that_starts_later(tmp_path: Path) -> None:
    with lock.opened(tmp_path) as second, lock.opened(tmp_path) as third, ExitStack() as first_ends:
        first = first_ends.enter_context(lock.opened(tmp_path))
        assert first.acquire()
        first.started()
        assert second.reserve(threading.Event())
        with second.watched():
            first_ends.close()
            assert second.wait(threading.Event(), PATIENCE_S)
            assert not third.acquire()


def test_a_lock_is_free_once_its_process_is_killed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process, lock.opened(tmp_path) as own:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert not own.acquire()
        process.kill()
        with own.watched():
            assert own.wait(threading.Event(), PATIENCE_S)
        assert own.held


def test_a_standby_that_is_told_to_stop_does_not_hold_the_lock(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with lock.opened(tmp_path) as first, lock.opened(tmp_path) as second:
        assert first.acquire()
        first.started()
        assert second.reserve(threading.Event())
        with second.watched():
            assert not second.wait(stop, PATIENCE_S)


def test_a_file_system_that_fails_for_a_moment_does_not_end_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures, locked = [OSError(errno.ESTALE, "Stale file handle")], lock._locked

    def failing(file: IO[str]) -> bool:
        if failures:
            raise failures.pop()
        return locked(file)

    with lock.opened(tmp_path) as own:
        monkeypatch.setattr(lock, "_locked", failing)
        with own.watched():
            assert own.wait(threading.Event(), PATIENCE_S)
