"""Workers that have stopped running are killed, and no others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial

import pytest

from streaming.worker.starting import heartbeats
from streaming.worker.starting.heartbeats import _BEAT, MISSED_BEATS, PATIENCE, Heartbeats
from tests.support.patience import PATIENCE_S, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are watched there only")

Worker = subprocess.Popen[bytes]


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    with ExitStack() as stack:
        started = [stack.enter_context(subprocess.Popen(["sleep", "1000"])) for _ in range(2)]
        for one in started:
            stack.callback(one.kill)
        yield started


@pytest.fixture
def cpu_s(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """The processor time of each process, which a test sets."""
    of: dict[int, float] = {}
    monkeypatch.setattr(heartbeats, "_cpu_s", lambda pid: of.get(pid, 1.0))
    return of


@pytest.fixture
def beats(cpu_s: dict[int, float]) -> Iterator[Heartbeats]:
    made = Heartbeats()
    yield made
    os.close(made._read)
    os.close(made._written)


def look(beats: Heartbeats, *beating: Worker) -> None:
    for worker in beating:
        os.write(beats._written, _BEAT.pack(worker.pid))
    beats.look()


def test_a_worker_that_misses_too_many_beats_is_killed(
    beats: Heartbeats, workers: list[Worker], capfd: pytest.CaptureFixture[str]
) -> None:
    hanging, busy = workers
    look(beats, hanging, busy)
    for _ in range(MISSED_BEATS - 1):
        look(beats, busy)
    assert hanging.poll() is None
    look(beats, busy)
    assert hanging.wait(PATIENCE_S) == -9
    assert busy.poll() is None
    assert capfd.readouterr().err == f"killed worker {hanging.pid}, which did nothing for 5 s\n"


def test_one_that_goes_on_in_time_is_not(beats: Heartbeats, workers: list[Worker]) -> None:
    for _ in range(3):
        look(beats, *workers)
        for _ in range(MISSED_BEATS - 1):
            look(beats)
    assert [one.poll() for one in workers] == [None, None]


@pytest.mark.parametrize("is_old", [False, True])
def test_one_that_falls_silent_soon_after_another_was_killed_may_miss_four_times_as_many(
    beats: Heartbeats, workers: list[Worker], monkeypatch: pytest.MonkeyPatch, is_old: bool
) -> None:
    first, second = workers
    look(beats, first)
    for _ in range(MISSED_BEATS):
        look(beats, *[second] * is_old)
    look(beats, second)
    for _ in range(PATIENCE * MISSED_BEATS - 1):
        look(beats)
    assert second.poll() is None
    look(beats)
    assert second.wait(PATIENCE_S) == -9
    assert beats._limit() == PATIENCE**2 * MISSED_BEATS
    monkeypatch.setattr(heartbeats, "SOON_S", 0.0)
    assert beats._limit() == MISSED_BEATS


def test_one_that_uses_the_processor_is_not(beats: Heartbeats, workers: list[Worker], cpu_s: dict[int, float]) -> None:
    worker, _ = workers
    look(beats, worker)
    for _ in range(3):
        cpu_s[worker.pid] = cpu_s.get(worker.pid, 1.0) + 1e-6
        for _ in range(MISSED_BEATS):
            look(beats)
    assert worker.poll() is None
    look(beats)
    assert worker.wait(PATIENCE_S) == -9


def test_the_processor_time_of_a_process_grows_while_it_works() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as working:
        before = heartbeats._cpu_s(working.pid)
        until(lambda: heartbeats._cpu_s(working.pid) > before + 0.1)
        working.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, working.pid, os.WSTOPPED)
        stopped = heartbeats._cpu_s(working.pid)
        time.sleep(0.1)
        assert heartbeats._cpu_s(working.pid) == stopped
        working.kill()
    assert heartbeats._cpu_s(working.pid) == 0.0


def test_two_that_hang_at_once_are_both_killed_in_time(beats: Heartbeats, workers: list[Worker]) -> None:
    first, second = workers
    look(beats, first, second)
    look(beats, second)
    for _ in range(MISSED_BEATS):
        look(beats)
    assert [one.wait(PATIENCE_S) for one in workers] == [-9, -9]


def test_one_that_has_ended_is_forgotten(
    beats: Heartbeats, workers: list[Worker], capfd: pytest.CaptureFixture[str]
) -> None:
    ended, alive = workers
    look(beats, ended, alive)
    ended.kill()
    ended.wait()
    for _ in range(MISSED_BEATS):
        look(beats, alive)
    assert beats._workers.keys() == {alive.pid}
    assert capfd.readouterr().err == ""


def test_a_process_of_another_group_that_has_the_number_of_a_worker_is_left_alone(beats: Heartbeats) -> None:
    with subprocess.Popen(["sleep", "1000"], preexec_fn=partial(os.setpgid, 0, 0)) as other:
        look(beats, other)
        for _ in range(MISSED_BEATS):
            look(beats)
        assert other.poll() is None
        other.kill()


def test_beats_that_nobody_reads_are_dropped(beats: Heartbeats, workers: list[Worker]) -> None:
    with suppress(BlockingIOError):
        while True:
            os.write(beats._written, _BEAT.pack(workers[0].pid))
    beats.look()
    assert beats._workers.keys() == {workers[0].pid}
    assert beats._beating() == set()


def test_a_worker_that_runs_several_tasks_begins_once() -> None:
    program = """
import os, threading
from streaming.worker.starting.heartbeats import Heartbeats
beats = Heartbeats()
of_parent = os.dup(beats._read)
beats.begin()
beats.begin()
print([thread.name for thread in threading.enumerate()])
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "['MainThread', 'heartbeat']\n"
