"""A process of the rig ends with all that it started."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.job import LoggedProcess
from rig.processes import below
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
