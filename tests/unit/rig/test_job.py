"""A process of the rig ends with all that it started."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from rig.job import JobProcess, LoggedProcess
from rig.processes import below
from streaming.errors import JobError
from tests.support.patience import PATIENCE_S

STARTS_MORE = """
import subprocess, time
while True:
    subprocess.Popen(["sleep", "600"])
    print("started", flush=True)
    time.sleep(0.01)
"""


def test_what_is_started_while_it_is_killed_is_killed_too(tmp_path: Path) -> None:
    with LoggedProcess("starter", [sys.executable, "-c", STARTS_MORE], tmp_path / "log") as process:
        process.wait_for("started", lambda: "started" in process.last_lines(), PATIENCE_S)
    assert below(process.pid) == []


@pytest.fixture
def interruptible() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_amid_its_start_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def between_fork_and_exec() -> None:
        os.kill(os.getppid(), signal.SIGINT)

    monkeypatch.setattr("rig.job.die_with_parent", between_fork_and_exec)
    process = LoggedProcess("sleeper", ["sleep", "600"], tmp_path / "log")
    with pytest.raises(KeyboardInterrupt), process:
        pass
    assert process.exit_code() == -signal.SIGKILL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def waited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> None:
    """Wait for a job that logs a line every 200 s."""
    log, clock = tmp_path / "log", [0.0]

    def sleep(_: float) -> None:
        clock[0] += 200.0
        with log.open("a") as file:
            file.writelines(f"{line}\n" for line in lines[:1])
        del lines[:1]

    monkeypatch.setattr("rig.job.time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    (tmp_path / "run_stream.py").write_text("import time\ntime.sleep(600)\n")
    with JobProcess({"query.checkpoint": str(tmp_path / "checkpoint")}, log, home=tmp_path) as job:
        job.wait_until_running(300.0)


def test_a_slow_start_is_waited_for_as_long_as_it_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited(tmp_path, monkeypatch, ['{"event":"kernels_compiling"}', "not of ours", '{"event":"job_started"}'])


def test_a_start_that_logs_nothing_more_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobError, match=r"(?s)not running within 300 s:.*kernels_compiling"):
        waited(tmp_path, monkeypatch, ['{"event":"kernels_compiling"}'])


def test_a_start_that_logs_again_and_again_is_given_up_at_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobError, match="not running within 3000 s"):
        waited(tmp_path, monkeypatch, ['{"event":"job_restarted"}'] * 100)
