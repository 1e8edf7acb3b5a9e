"""Workers that have stopped running are killed, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial

import pytest

from streaming.worker.starting import heartbeats
from streaming.worker.starting.heartbeats import _BEAT, MISSED_BEATS, Heartbeats
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Spark forks no workers there")

Worker = subprocess.Popen[bytes]


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    with ExitStack() as stack:
        started = [stack.enter_context(subprocess.Popen(["sleep", "1000"])) for _ in range(2)]
        for one in started:
            stack.callback(one.kill)
        yield started


@pytest.fixture
def beats() -> Iterator[Heartbeats]:
    made = Heartbeats()
    yield made
    os.close(made._read)
    os.close(made._written)


def look(beats: Heartbeats, *beating: Worker) -> None:
    for worker in beating:
        os.write(beats._written, _BEAT.pack(worker.pid))
    beats.look()


def test_a_worker_that_misses_too_many_beats_is_killed(
    beats: Heartbeats, workers: list[Worker], capsys: pytest.CaptureFixture[str]
) -> None:
    hanging, busy = workers
    look(beats, hanging, busy)
    for _ in range(MISSED_BEATS - 1):
        look(beats, busy)
    assert hanging.poll() is None
    look(beats, busy)
    assert hanging.wait(PATIENCE_S) == -9
    assert busy.poll() is None
    assert capsys.readouterr().err == f"killed worker {hanging.pid}, which has not run for 5 s\n"


def test_one_that_goes_on_in_time_is_not(beats: Heartbeats, workers: list[Worker]) -> None:
    for _ in range(3):
        look(beats, *workers)
        for _ in range(MISSED_BEATS - 1):
            look(beats)
    assert [one.poll() for one in workers] == [None, None]


def test_one_that_begins_soon_after_another_was_killed_may_miss_twice_as_many(
    beats: Heartbeats, workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = workers
    look(beats, first)
    for _ in range(MISSED_BEATS):
        look(beats)
    look(beats, second)
    for _ in range(2 * MISSED_BEATS - 1):
        look(beats)
    assert second.poll() is None
    look(beats)
    assert second.wait(PATIENCE_S) == -9
    assert beats._limit() == 4 * MISSED_BEATS
    monkeypatch.setattr(heartbeats, "SOON_S", 0.0)
    assert beats._limit() == MISSED_BEATS


def test_two_that_hang_at_once_are_both_killed_in_time(beats: Heartbeats, workers: list[Worker]) -> None:
    first, second = workers
    look(beats, first, second)
    look(beats, second)
    for _ in range(MISSED_BEATS):
        look(beats)
    assert [one.wait(PATIENCE_S) for one in workers] == [-9, -9]


def test_one_that_has_ended_is_forgotten(
    beats: Heartbeats, workers: list[Worker], capsys: pytest.CaptureFixture[str]
) -> None:
    ended, alive = workers
    look(beats, ended, alive)
    ended.kill()
    ended.wait()
    for _ in range(MISSED_BEATS):
        look(beats, alive)
    assert beats._workers.keys() == {alive.pid}
    assert capsys.readouterr().err == ""


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
import threading
from streaming.worker.starting.heartbeats import Heartbeats
beats = Heartbeats()
beats.begin()
beats.begin()
print([thread.name for thread in threading.enumerate()])
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "['MainThread', 'heartbeat']\n"
