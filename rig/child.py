"""Run a module as a process: its task arrives as JSON, its progress leaves as JSON lines."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from streaming.errors import JobError
from streaming.process.child import die_with_parent

HOME = Path(__file__).resolve().parents[1]
STOP_TIMEOUT_S = 600.0


def tell(**what: Any) -> None:
    """Report to the process that started this one; called in a child."""
    print(orjson.dumps(what).decode(), flush=True)  # noqa: T201


class Child:
    """`with Child("rig.generator", task) as child`; it ends when its standard input does, and with us in any
    case."""

    def __init__(self, module: str, task: Mapping[str, Any]) -> None:
        self._name = module.rpartition(".")[2]
        self._command = [sys.executable, "-m", module, orjson.dumps(task).decode()]
        self.report: dict[str, Any] = {}  # the last word on each thing

    def __enter__(self) -> Child:
        self._process = subprocess.Popen(
            self._command,
            cwd=HOME,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches us first, and we stop it in order
            preexec_fn=die_with_parent,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdin is not None
        self._process.stdin.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def go(self) -> None:
        """Send the line that the child waits for, if it waits."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def wait_for(self, what: str) -> Any:
        """Wait until the child reports `what`."""
        while what not in self.report:
            self.check()
            time.sleep(0.05)
        return self.report[what]

    def end(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Close its standard input, wait until it ends, and read its last reports."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise JobError(f"the {self._name} did not end within {timeout_s:.0f} s") from None
        self._reader.join()
        if self._process.returncode:
            self._failed()

    def check(self) -> None:
        """Raises JobError if it failed."""
        if self._process.poll():
            self._failed()

    def _failed(self) -> None:
        raise JobError(f"the {self._name} ended with exit code {self._process.returncode}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                self.report.update(orjson.loads(line))
