"""The job under its own supervisor, as a user runs it; nothing else restarts it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from rig.processes import Tree, below, ended, kill
from streaming.process import checkpoint
from streaming.process.child import die_with_parent
from tests.support.release import HOME

STOP_TIMEOUT_S = 120.0  # the first start on a machine writes the archive of Java's classes at its end
LINES = 60  # of a log, that are shown


class Failed(Exception):
    """The system did not come back; the text has the last lines of the job's log."""


class SupervisedJob:
    """`with SupervisedJob(flags, log, scratch) as job`; nothing is left of it. `flags` are settings, by dotted name;
    temporary files go below `scratch`; the code is that of `home`.
    """

    def __init__(self, flags: Mapping[str, str], log: Path, scratch: Path, home: Path = HOME) -> None:
        self.flags = flags
        given = {**flags, "log.format": "json"}
        assignments = [part for name, value in given.items() for part in ("--set", f"{name}={value}")]
        self._command = [sys.executable, str(home / "run_stream.py"), "run", "--supervise", *assignments]
        self.checkpoint = Path(flags["query.checkpoint"])
        self.log = log
        self._scratch = scratch

    def __enter__(self) -> SupervisedJob:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "TMPDIR": str(self._scratch)},
                preexec_fn=die_with_parent,
            )
        return self

    def __exit__(self, *_: object) -> None:
        mine = below(self._process.pid)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        kill(mine)
        ended(mine, STOP_TIMEOUT_S)
        with contextlib.suppress(FileNotFoundError):
            checkpoint.clear(str(self.checkpoint))
        shutil.rmtree(self.checkpoint, ignore_errors=True)

    @property
    def pid(self) -> int:
        """Of the supervisor."""
        return self._process.pid

    def tree(self) -> Tree:
        return Tree.of(self._process.pid)

    def exit_code(self) -> int | None:
        return self._process.poll()

    def stopped(self) -> int:
        """Ask it to end in order; returns its exit code."""
        self._process.terminate()
        try:
            return self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"the job did not stop within {STOP_TIMEOUT_S:.0f} s:\n{self.last_lines()}") from None

    def stop(self) -> None:
        """Ask it to end in order. Raises Failed unless it does."""
        if code := self.stopped():
            raise Failed(f"told to stop, the job ended with exit code {code}:\n{self.last_lines()}")

    def check(self) -> None:
        """Raises Failed if even its supervisor has ended."""
        if (code := self.exit_code()) is not None:
            raise Failed(f"the supervisor ended with exit code {code}:\n{self.last_lines()}")

    def wait_for(self, what: str, condition: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise Failed(f"not {what} within {timeout_s:.0f} s:\n{self.last_lines()}")
            time.sleep(0.01)  # some processes live for a quarter of a second

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Of its log, so far."""
        found = []
        wanted = f'"event":"{event}"'.encode()
        for line in self.log.read_bytes().splitlines():
            if wanted in line:
                with contextlib.suppress(orjson.JSONDecodeError):
                    found.append(orjson.loads(line))
        return found

    def last_lines(self) -> str:
        """Without the reports of batches."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join([line[:1_000] for line in lines if '"event":"batch"' not in line][-LINES:])
