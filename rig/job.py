"""Run the job as a separate process, and read its log lines."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from streaming.errors import JobError
from streaming.process import checkpoint
from streaming.process.child import die_with_parent

STOP_TIMEOUT_S = 120.0  # after a standstill of the broker it has a transaction to end


class JobProcess:
    """`with JobProcess(...) as job`: entered when the job is `running`; at the end all its processes are killed.

    `flags` are settings by dotted name, a local query.checkpoint among them. `on_line` gets every log line, in a thread
    of ours; `log` keeps them all.
    """

    def __init__(
        self,
        home: Path,
        flags: Mapping[str, str],
        log: Path,
        on_line: Callable[[dict[str, Any]], None],
        start_timeout_s: float = 120.0,
    ) -> None:
        arguments = {**flags, "log.format": "json"}
        assignments = [part for name, value in arguments.items() for part in ("--set", f"{name}={value}")]
        self._command = [sys.executable, str(home / "run_stream.py"), "run", *assignments]
        self._checkpoint = flags["query.checkpoint"]
        self._log = log
        self._on_line = on_line
        self._start_timeout_s = start_timeout_s
        self._asked = False  # to stop

    def __enter__(self) -> JobProcess:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_TIMEOUT_S)
        self._kill()
        checkpoint.clear(self._checkpoint)

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """Ask the job to stop; it ends after the current batch. It is asked once: a second signal would not wait."""
        if not self._asked:
            self._asked = True
            self._process.terminate()

    def stopped(self) -> int:
        """Ask the job to stop, and wait until all its lines are read; returns its exit code. Raises JobError if it does
        not end."""
        self.stop()
        try:
            code = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise JobError(f"the job did not stop within {STOP_TIMEOUT_S:.0f} s") from None
        self._reader.join(STOP_TIMEOUT_S)
        return code

    def kill_and_restart(self) -> None:
        self._kill()
        self._start()

    def check(self) -> None:
        """Raises JobError if it has ended."""
        if self._process.poll() is not None:
            last = self._log.read_text(errors="replace")[-2_000:]
            raise JobError(f"the job exited with code {self._process.returncode}:\n{last}")

    def _kill(self) -> None:
        """Kill the driver and its children with signal 9."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()

    def _start(self) -> None:
        running = threading.Event()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that kill -9 takes all of it
            preexec_fn=die_with_parent,
        )
        self._reader = threading.Thread(target=self._follow, args=(running,), daemon=True)
        self._reader.start()
        deadline = time.monotonic() + self._start_timeout_s
        while not running.wait(0.1):
            self.check()
            if time.monotonic() > deadline:
                raise JobError(f"the job did not start within {self._start_timeout_s:.0f} s")

    def _follow(self, running: threading.Event) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output, self._log.open("ab") as copy:
            for line in output:
                copy.write(line)
                copy.flush()
                try:
                    record = orjson.loads(line)
                except orjson.JSONDecodeError:
                    continue  # Spark's own lines
                self._on_line(record)
                if record.get("event") == "running":
                    running.set()
