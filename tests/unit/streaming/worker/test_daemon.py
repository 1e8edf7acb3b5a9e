"""Spark's Python workers, as far as the process that forks them is concerned."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from rig.processes import of_pid
from streaming.worker.starting import preloaded
from streaming.worker.starting.heartbeats import BEAT_S
from streaming.worker.starting.preloaded import ADDRESS, served
from tests.support.patience import until

HOME = Path(__file__).resolve().parents[4]
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="daemons are forked there only")


class Daemon:
    """A daemon as Spark starts it, with the address of a process that has loaded its code, or ""."""

    def __init__(self, started: subprocess.Popen[bytes]) -> None:
        assert started.stdin is not None
        assert started.stdout is not None
        assert started.stderr is not None
        self.pid, self.stdin, self.stderr = started.pid, started.stdin, started.stderr
        (length,) = struct.unpack(">i", started.stdout.read(4))
        self._path = started.stdout.read(length)

    @contextmanager
    def worker(self) -> Iterator[int]:
        """Connect with a new worker; gives its process id."""
        with socket.socket(socket.AF_UNIX) as spark:
            spark.connect(self._path)
            yield struct.unpack(">i", spark.recv(4))[0]


@contextmanager
def daemon(preloaded: str) -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory() as sockets:  # the path of a socket may have 107 bytes: `tmp_path` can be longer
        environment = {
            "PYTHON_UNIX_DOMAIN_ENABLED": "true",
            "PYTHON_WORKER_FACTORY_SOCK_DIR": sockets,
            "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
            "SPARK_REUSE_WORKER": "1",
            ADDRESS: preloaded,
        }
        with subprocess.Popen(
            [sys.executable, "-m", "streaming.worker.daemon", "pyspark.worker"],
            cwd=HOME,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as started:
            yield Daemon(started)


def child() -> psutil.Process:
    """The process that has loaded the code."""
    (process,) = (one for one in psutil.Process().children() if "--preload" in one.cmdline())
    return process


@pytest.mark.skipif(sys.platform == "win32", reason="Spark forks no workers there")
@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077"])
def test_a_worker_whose_connection_spark_closes_ends_without_a_trace(master: str) -> None:
    """Spark closes the connection of a worker that was idle for a minute."""
    with served(master, {}) as address, daemon(address) as running:
        with running.worker() as worker:
            pass
        until(lambda: of_pid(worker) is None)
        running.stdin.close()
        assert running.stderr.read() == b""


@on_linux
@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077"])
def test_a_worker_that_is_suspended_is_killed_after_seconds_and_an_idle_one_is_not(master: str) -> None:
    with (
        served(master, {}) as address,
        daemon(address) as running,
        running.worker() as hanging,
        running.worker() as idle,
    ):
        until(lambda: len(os.listdir(f"/proc/{hanging}/task")) == 2)  # the worker, and its heartbeat
        time.sleep(6 * BEAT_S)  # its parent has heard the first one
        os.kill(hanging, signal.SIGSTOP)
        until(lambda: of_pid(hanging) is None)
        assert of_pid(idle) is not None
        running.stdin.close()
        assert running.stderr.read().startswith(b"killed worker %d, which did nothing for " % hanging)


@on_linux
def test_a_daemon_is_forked_from_the_process_that_has_loaded_the_code_and_the_next_one_too() -> None:
    with served("local[2]", {}) as address:
        for _ in range(2):
            with daemon(address) as running, running.worker() as worker:
                parent = psutil.Process(worker).parent()
                assert parent is not None
                assert parent.ppid() == child().pid
                assert parent.pid != running.pid
                parent.kill()  # what Spark has started ends then, and so do the workers
                until(lambda: of_pid(running.pid) is None and of_pid(worker) is None)
        loaded = child()
    assert of_pid(loaded.pid) is None


@on_linux
def test_that_process_has_loaded_the_code_before_spark_starts_anything() -> None:
    with served("local[2]", {}):
        until(lambda: "llvmlite" in Path(f"/proc/{child().pid}/maps").read_text())


@on_linux
def test_a_daemon_ends_when_spark_closes_its_input() -> None:
    with served("local[2]", {}) as address, daemon(address) as running, running.worker() as worker:
        parent = psutil.Process(worker).ppid()
        running.stdin.close()
        until(lambda: not any(of_pid(pid) for pid in (worker, parent, running.pid)))


@on_linux
def test_without_that_process_a_daemon_loads_the_code_itself() -> None:
    with served("local[2]", {}) as address:
        os.kill(child().pid, signal.SIGKILL)
        with daemon(address) as running, running.worker() as worker:
            assert psutil.Process(worker).ppid() == running.pid
            running.stdin.close()


@on_linux
def test_a_job_that_has_loaded_the_code_forks_that_process() -> None:
    program = """
import os, sys
import streaming.worker.starting.loaded
from streaming.worker.starting.preloaded import served
line = os.fdopen(os.dup(0))
lock = open("Makefile")  # any file: what is forked must not hold the driver's lock
sys.stdin.close()  # as multiprocessing does it in what it forks
sys.stdin = open(os.open(os.devnull, os.O_RDONLY), closefd=False)
with served("local[2]", {}) as address:
    print(address, flush=True)
    line.readline()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=HOME, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as job:
        assert job.stdin is not None
        assert job.stdout is not None
        with daemon(job.stdout.readline().strip()) as running, running.worker() as worker:
            forked = psutil.Process(worker).parent()
            assert forked is not None
            until(lambda: "streaming.worker.daemon --preload" in " ".join(forked.cmdline()))
            (loaded,) = psutil.Process(job.pid).children()
            assert forked.ppid() == loaded.pid
            assert not [file for pid in (worker, forked.pid, loaded.pid) for file in psutil.Process(pid).open_files()]
            running.stdin.write(struct.pack(">i", worker))  # Spark has a worker killed
            running.stdin.flush()
            until(lambda: of_pid(worker) is None)
            with running.worker():
                pass
            assert of_pid(forked.pid) is not None
            running.stdin.close()
        job.kill()
        until(lambda: of_pid(loaded.pid) is None)


@on_linux
def test_where_no_process_can_be_started_the_daemon_loads_the_code_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def limited(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", limited)
    with served("local[2]", {}) as address:
        assert address == ""


@pytest.mark.parametrize(
    ("master", "options"),
    [
        ("spark://host:7077", {}),
        ("local-cluster[1,1,1024]", {}),
        ("local[2]", {"spark.pyspark.python": "/usr/bin/python3"}),
        ("local[2]", {"spark.executorEnv.LD_PRELOAD": "libjemalloc.so"}),
    ],
)
def test_other_interpreters_and_environments_are_not_forked(master: str, options: dict[str, str]) -> None:
    with served(master, options) as address:
        assert address == ""


@on_linux
@pytest.mark.parametrize(("directory", "printed"), [(HOME, ""), (HOME / "missing", "FileNotFoundError")])
def test_a_process_that_is_killed_while_it_hands_over_leaves_no_trace(directory: Path, printed: str) -> None:
    """A forked process prints its own errors."""
    read, written = os.pipe()
    with served("local[2]", {}) as address, open(read) as output:
        with socket.socket(socket.AF_UNIX) as spark:
            spark.connect(f"\0{address}")
            socket.send_fds(spark, [preloaded.HERE], [written] * 3)
            request = {"environment": {}, "directory": str(directory), "arguments": [], "command": []}
            spark.sendall(json.dumps(request).encode())
        os.close(written)
        text = output.read()  # up to the end of what was forked
    assert text == printed or (printed and printed in text)


@on_linux
def test_a_fork_that_is_refused_leaves_no_descriptor_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refused)
    spark, here = socket.socketpair()
    with spark, here:
        socket.send_fds(spark, [preloaded.HERE], [0, 1, 2])
        spark.shutdown(socket.SHUT_WR)
        before = os.listdir("/proc/self/fd")
        with pytest.raises(BlockingIOError):
            preloaded._serve(spark, here, lambda: None)
        assert len(os.listdir("/proc/self/fd")) == len(before)
