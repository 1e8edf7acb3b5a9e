"""The supervisor restarts the job, or does not."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rig.processes import of_pid
from streaming.process import supervision
from streaming.process.supervision import RestartHistory, Started
from tests.support.logged import fields_of
from tests.support.patience import PATIENCE_S, until

# Each start adds a line to the file and then does what that line of the plan says.
SCRIPT = """
import os, signal, sys, time
progress, log, *plan = sys.argv[1:]
with open(log, "a") as file:
    file.write(f"{os.getpid()}\\n")
what = plan[len(open(log).readlines()) - 1]
if what == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if what == "terminate":
    os.kill(os.getpid(), signal.SIGTERM)
if what == "child":
    if os.fork() == 0:
        time.sleep(600)
    os.kill(os.getpid(), signal.SIGKILL)
if what == "progress":
    os.write(int(progress), b"+")
    os.kill(os.getpid(), signal.SIGKILL)
if what == "work":
    os.write(int(progress), b"+")
if what == "stop":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with open(log, "a") as file:
        file.write("0\\n")
    time.sleep(600)
if what in ("wait", "work"):
    time.sleep(600)
sys.exit(int(what))
"""


def starts(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def run(log: Path, *plan: str, stop: threading.Event | None = None) -> int:
    return supervision.supervise(partial(command, log, *plan), stop or threading.Event())


def command(log: Path, *plan_and_past: Any) -> Started:
    *plan, _, progress = plan_and_past
    return supervision.executed([sys.executable, "-c", SCRIPT, str(progress), str(log), *plan], progress)


@pytest.mark.parametrize(
    ("plan", "code"),
    [
        (("0",), 0),
        (("1",), 1),  # a bug, or a job that another has taken over from
        (("2",), 2),  # a wrong setting
        (("kill", "0"), 0),
        (("kill", "kill", "kill", "1"), 1),
        (("75", "0"), 0),
    ],
)
def test_it_starts_again_what_was_killed_or_may_work_later(tmp_path: Path, plan: tuple[str, ...], code: int) -> None:
    assert run(tmp_path / "log", *plan) == code
    assert len(starts(tmp_path / "log")) == len(plan)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a process takes its time to start."""
    monkeypatch.setattr(supervision, "HEAD_START_S", PATIENCE_S)
    monkeypatch.setattr(supervision, "STEADY_S", PATIENCE_S)


def test_each_is_told_of_those_before_it(tmp_path: Path) -> None:
    plan = ["75", "kill", "kill", "0"]
    told = []

    def telling(past: RestartHistory, progress: int) -> Started:
        told.append((past.restarts, past.exit_code))
        return command(tmp_path / "log", *plan, past, progress)

    assert supervision.supervise(telling, threading.Event()) == 0
    assert told == [(0, None), (1, 75), (2, -9), (3, -9)]


def test_of_two_processes_each_is_told_of_the_restarts_of_both(tmp_path: Path, slow: None) -> None:
    steps, told = iter(["kill", "kill", "0"]), []

    def telling(past: RestartHistory, progress: int) -> Started:
        told.append((past.restarts, past.exit_code))
        return command(tmp_path / f"log{len(told)}", next(steps), past, progress)

    assert supervision.supervise(telling, threading.Event(), processes=2) == 0
    assert told == [(0, None), (1, None), (2, -9)]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_nothing_of_the_last_one_is_left_when_the_next_one_starts(tmp_path: Path) -> None:
    assert run(tmp_path / "log", "child", "0") == 0
    (first, _) = starts(tmp_path / "log")
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # another process has ended meanwhile
            state, _, group, *_ = stat.read_text().rpartition(")")[2].split()
            assert int(group) != first or state in "ZX"


class Pauses(threading.Event):
    """Pauses of a supervisor, which end at once."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        if timeout != supervision.POLL_S:
            self.seen.append(timeout)
            return False
        return super().wait(timeout)


@pytest.mark.parametrize(
    ("plan", "pauses"),
    [
        (("75", "75", "75", "kill", "0"), [1, 2, 4, 8]),
        (("75", "75", "progress", "75", "progress", "kill", "75", "0"), [1, 2, 0, 1, 0, 0, 1]),
    ],
)
def test_pauses_grow_while_nothing_is_done(
    tmp_path: Path, plan: tuple[str, ...], pauses: list[float], slow: None
) -> None:
    stop = Pauses()
    assert run(tmp_path / "log", *plan, stop=stop) == 0
    assert stop.seen == pauses


def test_what_ran_long_is_restarted_without_a_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "STEADY_S", 0.0)
    stop = Pauses()
    assert run(tmp_path / "log", "75", "75", "0", stop=stop) == 0
    assert stop.seen == [0, 0]


def test_who_is_told_to_stop_tells_the_job(tmp_path: Path) -> None:
    stop, codes = threading.Event(), list[int]()
    thread = threading.Thread(target=lambda: codes.append(run(tmp_path / "log", "wait", stop=stop)))
    thread.start()
    until(lambda: starts(tmp_path / "log"))
    stop.set()
    thread.join(PATIENCE_S)
    assert codes == [0], "it ended before it had a handler for the signal, which is no failure"
    assert len(starts(tmp_path / "log")) == 1


def test_while_a_disk_is_full_nothing_is_started_and_once_there_is_room_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However long the pauses had become. What is in the way is said once."""
    monkeypatch.setattr(supervision, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(logging.getLogger("sluice"), "propagate", True)
    caplog.set_level(logging.INFO, "sluice")
    log, looks, started = tmp_path / "log", iter(["", "full", "full", "full", "full", ""]), list[int]()

    def obstacle() -> str:
        started.append(len(starts(log)))
        return next(looks)

    assert supervision.supervise(partial(command, log, "75", "75", "0"), threading.Event(), obstacle) == 0
    assert started == [1, 2, 2, 2, 2, 2]
    assert len(starts(log)) == 3
    assert [record.message for record in caplog.records] == [
        "job_restarted",
        "job_blocked",
        "job_unblocked",
    ]
    assert fields_of(caplog.records[1])["obstacle"] == "full"


def test_after_a_kill_the_next_process_starts_without_a_look_at_the_disk(tmp_path: Path) -> None:
    def obstacle() -> str:
        raise AssertionError("this takes time in which nobody delivers")

    assert supervision.supervise(partial(command, tmp_path / "log", "kill", "0"), threading.Event(), obstacle) == 0
    assert len(starts(tmp_path / "log")) == 2


def test_a_supervisor_that_waits_for_room_can_be_stopped(tmp_path: Path) -> None:
    stop = threading.Event()
    looks = 0

    def obstacle() -> str:
        nonlocal looks
        looks += 1
        if looks == 3:
            stop.set()
        return "full"

    assert supervision.supervise(partial(command, tmp_path / "log", "75"), stop, obstacle) == 75
    assert len(starts(tmp_path / "log")) == 1


def test_of_two_processes_each_is_restarted_and_both_end_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "HEAD_START_S", 0.0)
    logs = iter([tmp_path / "first", tmp_path / "second"])
    plans = {tmp_path / "first": ["kill", "75", "1"], tmp_path / "second": ["wait"]}
    of_restarts: dict[int, Path] = {}

    def starting(past: RestartHistory, progress: int) -> Started:
        log = next(logs, tmp_path / "first")  # the second one never ends by itself
        of_restarts[len(of_restarts)] = log
        return command(log, *plans[log], past, progress)

    assert supervision.supervise(starting, threading.Event(), processes=2) == 1
    assert [log.name for log in of_restarts.values()] == ["first", "second", "first", "first"]
    assert len(starts(tmp_path / "first")) == 3


def test_two_processes_are_told_to_stop_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "HEAD_START_S", 0.0)
    stop, codes = threading.Event(), list[int]()
    log = tmp_path / "log"
    plan = partial(command, log, "wait", "wait")
    thread = threading.Thread(target=lambda: codes.append(supervision.supervise(plan, stop, processes=2)))
    thread.start()
    until(lambda: len(starts(log)) >= 2)
    stop.set()
    thread.join(PATIENCE_S)
    assert codes == [0]


def test_the_second_process_starts_after_the_first_and_then_the_next_start_is_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "HEAD_START_S", PATIENCE_S)
    stop, log, begun = threading.Event(), tmp_path / "log", list[int]()

    def starting(past: RestartHistory, progress: int) -> Started:
        begun.append(len(starts(log)))
        return command(log, "work", "work", past, progress)

    def prepare() -> None:
        begun.append(len(starts(log)))
        stop.set()

    assert supervision.supervise(starting, stop, processes=2, prepare=prepare) == 0
    assert begun == [0, 1, 2]


def test_the_second_process_starts_in_the_end_whatever_the_first_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "HEAD_START_S", 0.5)
    plans = {tmp_path / "first": "wait", tmp_path / "second": "0"}
    logs = iter(plans)

    def starting(past: RestartHistory, progress: int) -> Started:
        if (log := next(logs)) == tmp_path / "second":
            until(lambda: starts(tmp_path / "first"))  # it takes a while to say so
        return command(log, plans[log], past, progress)

    assert supervision.supervise(starting, threading.Event(), processes=2) == 0
    assert [len(starts(log)) for log in plans] == [1, 1]


@pytest.mark.parametrize(
    ("plan", "processes", "alone"),
    [(("kill", "0"), 1, [True, True]), (("work", "kill", "75", "1"), 2, [True, False, False, False])],
)
def test_a_start_while_no_other_process_runs_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: tuple[str, ...], processes: int, alone: list[bool]
) -> None:
    monkeypatch.setattr(supervision, "HEAD_START_S", PATIENCE_S)
    steps, seen = iter(plan), list[bool]()

    def starting(is_alone: bool, past: RestartHistory, progress: int) -> Started:
        seen.append(is_alone)
        return command(tmp_path / f"log{len(seen)}", next(steps), past, progress)

    start, start_alone = partial(starting, False), partial(starting, True)
    code = supervision.supervise(start, threading.Event(), processes=processes, start_alone=start_alone)
    assert code == int(plan[-1])
    assert seen == alone


def test_a_start_that_the_system_refuses_is_tried_again_and_ends_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "HEAD_START_S", 0.0)
    steps, alive = iter(["work", "", "0"]), list[bool]()

    def starting(past: RestartHistory, progress: int) -> Started:
        if not (step := next(steps)):
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        if step != "work":
            until(lambda: starts(tmp_path / "work"))  # it takes a while to say so
        alive.extend(of_pid(pid) is not None for pid in starts(tmp_path / "work"))
        return command(tmp_path / (step if step == "work" else "other"), step, past, progress)

    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    assert supervision.supervise(starting, threading.Event(), processes=2) == 0
    assert alive == [True]
    assert not before or len(os.listdir("/proc/self/fd")) == before


def test_a_start_that_cannot_work_is_not_tried_again() -> None:
    def starting(past: RestartHistory, progress: int) -> Started:
        raise FileNotFoundError("no such interpreter")

    with pytest.raises(FileNotFoundError):
        supervision.supervise(starting, threading.Event())


def test_a_stop_after_a_kill_ends_with_a_code_that_a_process_can_have(tmp_path: Path, slow: None) -> None:
    class Stopping(Pauses):
        def wait(self, timeout: float | None = None) -> bool:
            super().wait(timeout)
            if len(self.seen) == 2:
                self.set()
            return self.is_set()

    stop = Stopping()
    assert run(tmp_path / "log", "75", "kill", stop=stop) == 75
    assert stop.seen == [1, 2]


def test_of_two_that_are_killed_a_moment_apart_the_first_to_start_again_starts_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "BESIDE_S", PATIENCE_S)
    steps, seen = iter(["work", "work", "0"]), list[bool]()
    logs = [tmp_path / f"log{n}" for n in range(3)]

    def starting(is_alone: bool, past: RestartHistory, progress: int) -> Started:
        seen.append(is_alone)
        return command(logs[len(seen) - 1], next(steps), past, progress)

    def kill_both() -> None:
        until(lambda: all(map(starts, logs[:2])))
        for log in logs[:2]:
            os.kill(starts(log)[0], signal.SIGKILL)
            time.sleep(10 * supervision.POLL_S)

    thread = threading.Thread(target=kill_both)
    thread.start()
    start, start_alone = partial(starting, False), partial(starting, True)
    assert supervision.supervise(start, threading.Event(), processes=2, start_alone=start_alone) == 0
    thread.join()
    assert seen == [True, False, True]


@pytest.mark.parametrize("code", [0, 1])
def test_after_the_first_process_has_ended_for_good_the_second_does_not_start(
    tmp_path: Path, code: int, slow: None
) -> None:
    plan = partial(command, tmp_path / "log", str(code), "wait")
    assert supervision.supervise(plan, threading.Event(), processes=2) == code
    assert len(starts(tmp_path / "log")) == 1


def test_one_that_waits_for_its_start_has_not_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop comes after both processes were killed, while one starts again and the other waits for its turn."""
    monkeypatch.setattr(supervision, "HEAD_START_S", PATIENCE_S)
    stop, steps, begun = threading.Event(), iter(["kill", "kill", "stop"]), list[int | None]()
    log = tmp_path / "log3"

    def starting(past: RestartHistory, progress: int) -> Started:
        begun.append(past.exit_code)
        return command(tmp_path / f"log{len(begun)}", next(steps), past, progress)

    def stop_later() -> None:
        until(lambda: len(starts(log)) == 2)
        stop.set()

    thread = threading.Thread(target=stop_later)
    thread.start()
    assert supervision.supervise(starting, stop, processes=2) == 0
    thread.join()
    assert begun == [None, None, -9]


def test_of_two_processes_one_that_is_killed_again_and_again_does_not_keep_the_other_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "HEAD_START_S", PATIENCE_S)
    steps, begun = iter(["kill", "terminate", "1"]), list[int | None]()

    def starting(past: RestartHistory, progress: int) -> Started:
        begun.append(past.exit_code)
        return command(tmp_path / f"log{len(begun)}", next(steps), past, progress)

    assert supervision.supervise(starting, threading.Event(), processes=2) == 1
    assert begun == [None, None, -9], "the second one has taken the turn of the first"


def test_while_one_of_two_processes_is_gone_nothing_takes_the_cores_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "HEAD_START_S", PATIENCE_S)
    steps, prepared = iter(["work", "75", "0"]), list[None]()

    def starting(past: RestartHistory, progress: int) -> Started:
        step = next(steps)
        return command(tmp_path / step, step, past, progress)

    prepare = partial(prepared.append, None)
    assert supervision.supervise(starting, threading.Event(), processes=2, prepare=prepare) == 0
    assert not prepared


def test_the_start_of_one_that_makes_no_progress_is_prepared_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "HEAD_START_S", 0.5)
    stop, log, prepared_s = threading.Event(), tmp_path / "log", list[float]()

    def prepare() -> None:
        prepared_s.append(time.monotonic())
        stop.set()

    began_s = time.monotonic()
    assert supervision.supervise(partial(command, log, "wait"), stop, prepare=prepare) == 0
    assert prepared_s[0] - began_s >= 0.5
