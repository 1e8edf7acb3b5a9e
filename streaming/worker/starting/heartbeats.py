"""Kill a worker that has stopped running, so that Spark replaces it after seconds.

A thread of each worker writes to a pipe of its parent twice a second. Kernels and waits for the network let that thread
run; native code that keeps Python's lock does not, but uses the processor. So a worker that does neither is suspended,
or waits while it keeps that lock. Without this, the driver would find out by time alone (`driver.limits.time_limit`).
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
# A disk that does not answer can stop a worker while it keeps Python's lock, and the next one, too. So a worker that
# falls silent so soon after a kill may miss so many times as many beats.
SOON_S, PATIENCE = 60.0, 4

_BEAT = struct.Struct("=i")  # the process id
_BUFFER = 1 << 16


@dataclass
class _Worker:
    """A worker since its last beat."""

    cpu_s: float
    limit: int  # of missed beats
    missed: int = 0  # since it was last seen to use the processor


@dataclass
class Heartbeats:
    """The beats of the workers of this process: made in the parent, and inherited by each worker."""

    _workers: dict[int, _Worker] = field(default_factory=dict, init=False)  # by process id
    _killed_at: float = field(default=-SOON_S, init=False)
    _next_limit: int = field(default=MISSED_BEATS, init=False)  # soon after that kill
    _has_begun: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._read, self._written = os.pipe()
        for end in self._read, self._written:
            os.set_blocking(end, False)

    def watch(self) -> None:
        """Look at the beats from now on, on Linux. A timer's signals start each look: a thread might hold a lock while
        a worker is forked. A worker does not inherit the timer."""
        if sys.platform != "linux":
            return  # `_cpu_s` is Linux's

        def on_alarm(*_: object) -> None:
            self.look()
            signal.setitimer(signal.ITIMER_REAL, BEAT_S)  # not before: looks must not interrupt each other

        signal.signal(signal.SIGALRM, on_alarm)
        on_alarm()

    def leave(self) -> None:
        """Look at no more beats."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def begin(self) -> None:
        """Begin to write beats, in a worker. Spark runs a worker anew for each of its tasks; it begins once."""
        if not self._has_begun:
            self._has_begun = True
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
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
        for pid in self._workers.keys() - beating:
            worker, cpu_s = self._workers[pid], _cpu_s(pid)
            worker.missed = 0 if cpu_s > worker.cpu_s else worker.missed + 1
            worker.cpu_s = cpu_s
            if not _is_ours(pid):
                del self._workers[pid]
            elif worker.missed >= worker.limit:
                self._kill(pid)
        for pid in beating:
            self._workers[pid] = _Worker(_cpu_s(pid), self._limit())

    def _limit(self) -> int:
        return self._next_limit if time.monotonic() - self._killed_at < SOON_S else MISSED_BEATS

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
        self._next_limit = max(self._limit(), PATIENCE * worker.limit)
        self._killed_at = time.monotonic()
        with suppress(OSError):
            os.write(2, f"killed worker {pid}, which did nothing for {worker.missed * BEAT_S:g} s\n".encode())


def _is_ours(pid: int) -> bool:
    """Whether the process is there and in our group: after its end another may have its number."""
    try:
        return os.getpgid(pid) == os.getpgrp()
    except OSError:
        return False


def _cpu_s(pid: int) -> float:
    """The processor time of a process; 0.0 if it has ended."""
    try:
        return time.clock_gettime(~pid << 3 | 2)  # clock_getcpuclockid(3), which Python lacks
    except OSError:
        return 0.0
