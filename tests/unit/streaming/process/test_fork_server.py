"""Processes that are forked from one that has loaded their code."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rig.processes import of_pid
from streaming.process.fork_server import ForkServer
from tests.support.patience import PATIENCE_S, until

HOME = Path(__file__).resolve().parents[4]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="supervisors fork there only")

# A supervisor of processes that are all forked, and write their own and their parent's process id to a file.
PROGRAM = """
import os, sys, time
from contextlib import suppress
from commands.shared.signals import stop_on_signals
from streaming.process import fork_server, supervision
from streaming.process.fork_server import ForkServer
from tests.unit.streaming.process.test_fork_server import plan

log, *steps = sys.argv[1:]
fork_server.START_EVERY_S = 0.0
server = ForkServer("tests.support.patience", plan, {"PYTHONPATH": os.getcwd(), "PYTHONSAFEPATH": "1"})

def start(past, progress):
    if steps[past.restarts] == "ready":
        time.sleep(0.5)
        sys.exit(10 + server.is_ready)
    while True:
        server.load()
        time.sleep(0.01)
        with suppress(OSError, EOFError):
            if server.is_ready:
                return server.start([log, steps[past.restarts]], progress)

sys.exit(supervision.supervise(start, stop_on_signals()))
"""


def plan(command: list[str]) -> None:
    """Do the last step of a plan, in the forked process."""
    log, step, progress = command
    if step == "wait":
        signal.signal(signal.SIGTERM, lambda *_: Path(f"{log}.told").touch())  # and goes on, as one amid a long batch
    with Path(log).open("a") as file:
        file.write(f"{os.getpid()} {os.getppid()} {os.getsid(0)}\n")
    assert os.write(int(progress.removeprefix("--progress=")), b"+") == 1
    if step == "environment":
        sys.exit("PYTHONSAFEPATH" in os.environ)
    if step == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if step == "wait":
        time.sleep(600)
    sys.exit(int(step))


def supervisor(log: Path, *steps: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(log), *steps], cwd=HOME)


def forked(log: Path, n: int) -> list[list[int]]:
    """Wait for n processes; returns pid, parent and session of each."""
    until(lambda: log.exists() and len(log.read_text().splitlines()) >= n)
    return [[int(word) for word in line.split()] for line in log.read_text().splitlines()]


def test_a_forked_process_has_its_own_session_and_its_exit_code_reaches_the_supervisor(tmp_path: Path) -> None:
    with supervisor(tmp_path / "log", "kill", "75", "3") as process:
        assert process.wait(PATIENCE_S) == 3
    processes = forked(tmp_path / "log", 3)
    assert len(processes) == 3
    assert len({parent for _, parent, _ in processes}) == 1
    assert all(session == pid for pid, _, session in processes)


def test_its_command_line_is_that_of_the_program(tmp_path: Path) -> None:
    with supervisor(tmp_path / "log", "wait") as process:
        ((pid, _, _),) = forked(tmp_path / "log", 1)
        command = Path(f"/proc/{pid}/cmdline").read_text()
        assert command.startswith(f"{sys.executable} {tmp_path / 'log'} wait --progress=")
        process.kill()


def test_if_the_fork_server_is_killed_its_process_ends_and_another_server_forks_the_next_one(tmp_path: Path) -> None:
    with supervisor(tmp_path / "log", "wait", "4") as process:
        ((pid, server, _),) = forked(tmp_path / "log", 1)
        os.kill(server, signal.SIGKILL)
        assert process.wait(PATIENCE_S) == 4
        assert of_pid(pid) is None
        _, (_, other, _) = forked(tmp_path / "log", 2)
        assert other != server


def test_a_fork_server_that_was_killed_is_not_ready(tmp_path: Path) -> None:
    """To load another one would take longer than a start without it."""
    with supervisor(tmp_path / "log", "kill", "ready") as process:
        assert process.wait(PATIENCE_S) == 11
    with supervisor(tmp_path / "other", "wait", "ready") as process:
        ((_, server, _),) = forked(tmp_path / "other", 1)
        os.kill(server, signal.SIGKILL)
        assert process.wait(PATIENCE_S) == 10


def test_a_second_signal_ends_what_was_forked_at_once(tmp_path: Path) -> None:
    with supervisor(tmp_path / "log", "wait") as process:
        ((pid, _, _),) = forked(tmp_path / "log", 1)
        process.terminate()
        until((tmp_path / "log.told").exists)  # two at once would be one
        process.terminate()
        process.wait(PATIENCE_S)
        until(lambda: of_pid(pid) is None)


def test_a_signal_to_the_group_of_the_supervisor_is_not_for_what_was_forked(tmp_path: Path) -> None:
    with supervisor(tmp_path / "log", "wait") as process:
        ((_, server, session),) = forked(tmp_path / "log", 1)
        assert len({os.getpgid(process.pid), os.getpgid(server), session}) == 3
        process.kill()


def test_it_has_the_environment_of_the_supervisor(tmp_path: Path) -> None:
    with supervisor(tmp_path / "log", "environment") as process:
        assert process.wait(PATIENCE_S) == 0


def test_a_module_that_cannot_be_loaded_makes_no_fork_server() -> None:
    program = """
from streaming.process.fork_server import ForkServer
server = ForkServer("tests.no_such_module", print, {})
server.load()
server._asking.join()
assert not server.is_ready
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=HOME, check=True, stderr=subprocess.PIPE)
    assert b"restart_unprepared" in done.stderr


def test_a_supervisor_forks_from_all_code_of_a_job() -> None:
    program = "import sys, commands.loaded; sys.exit(not {'run_stream', 'commands.job'} <= sys.modules.keys())"
    subprocess.run([sys.executable, "-c", program], cwd=HOME, check=True)


def test_without_room_for_it_the_supervisor_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("multiprocessing.forkserver.ensure_running", full)
    monkeypatch.setattr(logging.getLogger("sluice"), "propagate", True)
    server = ForkServer("tests.support.patience", plan, {})
    server.load()
    assert not server.is_ready
    assert "restart_unprepared" in caplog.text


def test_a_supervisor_that_is_killed_takes_all_with_it(tmp_path: Path) -> None:
    with supervisor(tmp_path / "log", "wait") as process:
        ((pid, server, _),) = forked(tmp_path / "log", 1)
        process.kill()
        until(lambda: of_pid(pid) is None and of_pid(server) is None)
