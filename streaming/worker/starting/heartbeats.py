"""Kill a worker that has stopped running, so that Spark replaces it after seconds.

A thread of each worker writes to a pipe of its parent twice a second. Kernels and waits for the network let that thread
run, so it falls silent only if the process is suspended, gets no processor, or is caught in native code that keeps
Python's lock. Without this, the driver would find out by time alone (`driver.limits.time_limit`).
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

BEAT_S = 0.5
MISSED_BEATS = 10
# A step that keeps Python's lock for long would be ended again and again, so a worker that begins so soon after another
# was killed may miss twice as many beats.
SOON_S = 60.0

_BEAT = struct.Struct("=i")  # the process id
_BUFFER = 1 << 16


@dataclass
class _Worker:
    limit: int
    missed: int = 0


@dataclass
class Heartbeats:
    """The beats of the workers of this process: made in the parent, and inherited by each worker."""

    _workers: dict[int, _Worker] = field(default_factory=dict, init=False)  # by process id
    _killed_at: float = field(default=-SOON_S, init=False)
    _last_limit: int = field(default=MISSED_BEATS, init=False)  # of the worker that was killed then
    _has_begun: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._read, self._written = os.pipe()
        for end in self._read, self._written:
            os.set_blocking(end, False)

    def watch(self) -> None:
        """Look at the beats from now on, in signals of a timer: a thread might hold a lock while a worker is forked.
        A worker does not inherit the timer."""
        signal.signal(signal.SIGALRM, lambda *_: self.look())
        signal.setitimer(signal.ITIMER_REAL, BEAT_S, BEAT_S)

    def begin(self) -> None:
        """Begin to write beats, in a worker. Spark runs a worker anew for each of its tasks; it begins once."""
        if not self._has_begun:
            self._has_begun = True
            os.close(self._read)
            threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def _beat(self) -> None:
        beat = _BEAT.pack(os.getpid())
        while True:
            with suppress(BlockingIOError):  # the parent is suspended
                os.write(self._written, beat)
            time.sleep(BEAT_S)

    def look(self) -> None:
        """Kill the workers that have missed too many beats. Beats are counted, not seconds: while the whole machine is
        suspended, none is missed."""
        beating = self._beating()
        for pid in beating:
            worker = self._workers.setdefault(pid, _Worker(self._limit()))
            worker.missed = 0
        for pid in self._workers.keys() - beating:
            worker = self._workers[pid]
            worker.missed += 1
            if not _is_ours(pid):
                del self._workers[pid]
            elif worker.missed >= worker.limit:
                self._kill(pid)

    def _limit(self) -> int:
        return 2 * self._last_limit if time.monotonic() - self._killed_at < SOON_S else MISSED_BEATS

    def _beating(self) -> set[int]:
        beats = bytearray()
        with suppress(BlockingIOError):
            while part := os.read(self._read, _BUFFER):
                beats += part
        return {pid for (pid,) in _BEAT.iter_unpack(beats)}

    def _kill(self, pid: int) -> None:
        worker = self._workers.pop(pid)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self._killed_at, self._last_limit = time.monotonic(), worker.limit
        sys.stderr.write(f"killed worker {pid}, which has not run for {worker.missed * BEAT_S:g} s\n")
        sys.stderr.flush()


def _is_ours(pid: int) -> bool:
    """Whether the process is there and in our group: after its end another may have its number."""
    try:
        return os.getpgid(pid) == os.getpgrp()
    except OSError:
        return False
