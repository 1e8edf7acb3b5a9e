"""Run the job as separate processes, as a user runs it, and read its log."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import orjson

from rig.child import HOME
from rig.processes import ProcessTree, below, ended, kill
from rig.starting import interrupts_held
from streaming.errors import JobError
from streaming.process import checkpoint
from streaming.process.child import die_with_parent

# The first start on a machine writes the archive of Java's classes at its end; after a standstill of the broker a
# transaction has to be ended.
STOP_TIMEOUT_S = 600.0
LINES = 60  # of a log, that are shown


class LoggedProcess:
    """`with LoggedProcess(name, command, log) as process`: it has started; at the end it and all below it are killed.

    The file `log` gets all that they print. Their temporary files go below `scratch`, by default beside the log. They
    have the variables of this process and those of `environment`.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        scratch: Path | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.log = log
        self._name = name
        self._command = command
        self._scratch = scratch or log.parent
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._started.pid

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def start(self) -> None:
        with self.log.open("ab") as log, interrupts_held():
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # by which its processes are found after their parent has ended
                env={**os.environ, **self._environment, "TMPDIR": str(self._scratch)},
                preexec_fn=die_with_parent,
            )

    def kill(self) -> None:
        """Kill all its processes with signal 9, those too that are started meanwhile."""
        if self._process is None:
            return
        left = below(self.pid)
        self._process.kill()
        self._process.wait()
        while left := [*left, *below(self.pid)]:
            kill(left)
            if not ended(left, STOP_TIMEOUT_S):
                break
            left = []

    def exit_code(self) -> int | None:
        return self._started.poll()

    def check(self) -> None:
        """Raises JobError if it has ended; one that is supervised, for good."""
        if (code := self.exit_code()) is not None:
            raise JobError(f"{self._name} ended with exit code {code}:\n{self.last_lines()}")

    def wait_for(self, what: str, condition: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise JobError(f"not {what} within {timeout_s:.0f} s:\n{self.last_lines()}")
            time.sleep(0.05)  # some processes live for a quarter of a second

    def last_lines(self) -> str:
        """The last lines of its log, without the reports of batches."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join([line[:1_000] for line in lines if '"event":"batch_finished"' not in line][-LINES:])


class JobProcess(LoggedProcess):
    """The job. `flags` are settings by dotted name, a local query.checkpoint among them; they override those of the
    TOML file `config`. The code is that of `home`. Where it is `supervised`, it restarts itself. One that `stands_by`
    waits while another runs on its checkpoint."""

    def __init__(
        self,
        flags: Mapping[str, str],
        log: Path,
        *,
        home: Path = HOME,
        supervised: bool = False,
        stands_by: bool = False,
        scratch: Path | None = None,
        config: Path | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        arguments = {**flags, "log.format": "json"}
        assignments = [part for name, value in arguments.items() for part in ("--set", f"{name}={value}")]
        supervise = ["--supervise"] if supervised else []
        standby = ["--standby"] if stands_by else []
        file = ["--config", str(config)] if config else []
        command = [sys.executable, str(home / "run_stream.py"), "run", *supervise, *standby, *file, *assignments]
        super().__init__("the job", command, log, scratch, environment)
        self.flags = flags
        self.checkpoint = Path(flags["query.checkpoint"])
        self._runs = 0  # that earlier processes have logged
        self._offset = 0  # in the log, up to where `new_lines` has read it
        self._asked = False  # to stop

    def __exit__(self, *_: object) -> None:
        self.kill()
        with contextlib.suppress(FileNotFoundError):
            checkpoint.clear(str(self.checkpoint))

    def tree(self) -> ProcessTree:
        """The processes below the supervisor."""
        return ProcessTree.of(self.pid)

    def wait_until_running(self, quiet_s: float) -> None:
        """Wait until it has logged that it runs, since it was started. Raises JobError once it has logged nothing for
        that long, and after ten times as long: on a busy machine a start takes its time."""
        until = time.monotonic() + 10 * quiet_s
        while True:
            size = self.log.stat().st_size
            if len(self.lines("job_started")) > self._runs:
                return
            if time.monotonic() > until:
                raise JobError(f"not running within {10 * quiet_s:.0f} s:\n{self.last_lines()}")
            self.wait_for("running", partial(self._has_logged_more_than, size), quiet_s)

    def _has_logged_more_than(self, size: int) -> bool:
        return self.log.stat().st_size > size

    def ask_to_stop(self) -> None:
        """Ask it to end after the current batch. It is asked once: a second signal would not wait."""
        if not self._asked:
            self._asked = True
            self._started.terminate()

    def stopped(self) -> int:
        """Stop it in order; returns its exit code. Raises JobError if it does not end."""
        self.ask_to_stop()
        try:
            return self._started.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise JobError(f"the job did not stop within {STOP_TIMEOUT_S:.0f} s:\n{self.last_lines()}") from None

    def stop(self) -> None:
        """Stop it in order. Raises JobError unless it does."""
        if code := self.stopped():
            raise JobError(f"stopped, the job ended with exit code {code}:\n{self.last_lines()}")

    def kill_and_restart(self, quiet_s: float) -> None:
        """Kill all its processes with signal 9, and wait until it runs again, as `wait_until_running` does."""
        self._runs = len(self.lines("job_started"))
        self.kill()
        self.start()
        self.wait_until_running(quiet_s)

    def lines(self, event: str) -> list[dict[str, Any]]:
        """The lines of its log so far that are about an event."""
        wanted = f'"event":"{event}"'.encode()
        return list(_parsed(line for line in self.log.read_bytes().splitlines() if wanted in line))

    def new_lines(self) -> Iterator[dict[str, Any]]:
        """The lines of its log since the last call."""
        with self.log.open("rb") as file:
            file.seek(self._offset)
            whole = [line for line in file if line.endswith(b"\n")]
        self._offset += sum(map(len, whole))
        yield from _parsed(whole)


def _parsed(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        with contextlib.suppress(orjson.JSONDecodeError):  # a line of Java's, or half a line
            yield orjson.loads(line)
