"""Run commands in processes of their own that need not import anything: forked from one that has.

A command on its own spends most of its processor time on imports.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import run_stream
from tests.support.patience import PATIENCE_S

PORT, SECRET = "SLUICE_TEST_GATEWAY_PORT", "SLUICE_TEST_GATEWAY_SECRET"  # of a JVM that a job is to use as its own
STREAMS = ("stdin", "stdout", "stderr")  # in the order of their descriptors

MODULES = {module for listed in run_stream.COMMANDS.values() for module, _ in listed.values()}
_processes = get_context("forkserver")
_processes.set_forkserver_preload([__name__, *sorted(MODULES), "streaming.driver.job"])


@dataclass(frozen=True)
class Done:
    code: int
    stdout: str
    stderr: str


def run(arguments: Sequence[str], environment: Mapping[str, str], stdin: str = "") -> Done:
    """`run_stream.py` with these arguments. Raises TimeoutError after PATIENCE_S."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "stdin").write_text(stdin)
        process = _processes.Process(target=_with_files, args=(list(arguments), dict(environment), directory))
        process.start()
        process.join(PATIENCE_S)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutError(f"{' '.join(arguments)}: not done after {PATIENCE_S} s")
        return Done(process.exitcode, *((directory / stream).read_text() for stream in ("stdout", "stderr")))


class Process:
    """`run_stream.py` with these arguments, in a session of its own; what of subprocess.Popen a job needs. `stdout` has
    what it writes to standard error, too."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        output, written = _processes.Pipe(duplex=False)
        self._process = _processes.Process(target=_with_pipe, args=(list(arguments), dict(environment), written))
        self._process.start()
        written.close()
        self.stdout = os.fdopen(os.dup(output.fileno()))
        output.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout_s: float) -> int:
        self._process.join(timeout_s)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout_s)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def _with_files(arguments: list[str], environment: dict[str, str], directory: Path) -> None:
    _command(
        arguments,
        environment,
        [os.open(directory / stream, os.O_APPEND | os.O_CREAT | os.O_RDWR) for stream in STREAMS],
    )


def _with_pipe(arguments: list[str], environment: dict[str, str], written: Connection) -> None:
    os.setsid()
    _command(
        arguments, environment, [os.open(os.devnull, os.O_RDONLY), os.dup(written.fileno()), os.dup(written.fileno())]
    )


def _command(arguments: list[str], environment: dict[str, str], streams: list[int]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, stream in enumerate(streams):
        os.dup2(stream, descriptor)
        os.close(stream)
    sys.stdin = os.fdopen(0, closefd=False)  # multiprocessing has put another in its place
    sys.argv = ["run_stream.py", *arguments]
    if PORT in environment:
        _connect(environment)
    run_stream.main()


def _connect(environment: dict[str, str]) -> None:
    """Connect Spark with the JVM. The variables are Spark's own only meanwhile: in a job's environment they would say
    that spark-submit runs it."""
    from pyspark import SparkContext  # only jobs need it

    spark = {"PYSPARK_GATEWAY_PORT": environment[PORT], "PYSPARK_GATEWAY_SECRET": environment[SECRET]}
    os.environ.update(spark)
    SparkContext._ensure_initialized()
    for name in spark:
        del os.environ[name]
