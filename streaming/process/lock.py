"""The lock of a checkpoint on a local disk: one process runs the job, and one may stand by for it."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

LOOK_EVERY_S = 0.02
READY = "ready.lock"


@dataclass
class Lock:
    """The process with `held` runs the job. The kernel frees its lock when it ends, however it ends."""

    _running: IO[str]
    _started: IO[str]
    _standby: IO[str]
    _ready: IO[str]
    held: bool = False

    def acquire(self) -> bool:
        """Return whether this process holds the lock now."""
        self.held = self.held or _locked(self._running)
        return self.held

    def started(self) -> None:
        """Let another process prepare to stand by: the job runs, so the two do not start at the same time."""
        fcntl.flock(self._started, fcntl.LOCK_EX)

    def reserve(self, stop: threading.Event) -> bool:
        """Wait until this process holds the lock, or is the one that stands by for a job that has started; return False
        if told to stop."""
        stands_by = False
        while not self.acquire():
            stands_by = stands_by or _locked(self._standby)
            if stands_by and _is_locked(self._started):
                return True
            if stop.wait(LOOK_EVERY_S):
                return False
        self.leave_standby()
        return True

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Hold the lock from some milliseconds after the end of the job, so that hardly any process that starts later
        comes first."""
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(done,), name="sluice-lock", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def wait(self, stop: threading.Event, timeout_s: float) -> bool:
        """Wait so long for a watched lock to be held; return whether it is."""
        for _ in range(round(timeout_s / LOOK_EVERY_S)):
            if self.held or stop.wait(LOOK_EVERY_S):
                break
        return self.held

    def stands_ready(self) -> None:
        """Show the job that this process has prepared everything: see `is_standby_ready`."""
        fcntl.flock(self._ready, fcntl.LOCK_EX)

    def leave_standby(self) -> None:
        """Let another process stand by."""
        for file in (self._ready, self._standby):
            fcntl.flock(file, fcntl.LOCK_UN)

    def _watch(self, done: threading.Event) -> None:
        while not done.is_set():
            with suppress(OSError):  # of a file system over the network, for a moment
                if self.acquire():
                    return
            done.wait(LOOK_EVERY_S)


@contextmanager
def opened(directory: Path) -> Iterator[Lock]:
    """Open the lock; at the end it is free."""
    with (
        (directory / "lock").open("a+") as running,
        (directory / "started.lock").open("a+") as started,
        (directory / "standby.lock").open("a+") as standby,
        (directory / READY).open("a+") as ready,
    ):
        yield Lock(running, started, standby, ready)


def is_standby_ready(directory: Path) -> bool:
    """Whether a process stands by that has prepared everything. False too if the directory cannot be read: whoever
    asks for the health of the job needs an answer then, too."""
    with suppress(OSError), (directory / READY).open() as file:
        return _is_locked(file)
    return False


def _locked(file: IO[str], how: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_locked(file: IO[str]) -> bool:
    if not _locked(file, fcntl.LOCK_SH):  # others may look at the same time
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False
