"""Measure processes: memory, threads, descriptors and CPU time, by role."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field

import numpy as np
import psutil

EVERY_S = 5.0
MB = 1e6

JOB = ("driver JVM", "driver Python", "Python workers")


@dataclass
class Taken:
    """The time and memory of all processes of one role."""

    processes: int = 0
    memory_mb: float = 0.0  # what several share counts in equal parts for each (Linux's PSS)
    resident_mb: float = 0.0  # what several share counts for each
    threads: int = 0
    descriptors: int = 0
    cpu_s: float = 0.0

    def as_data(self) -> dict[str, float]:
        return {name: round(value, 2) for name, value in asdict(self).items()}


def taken(pids: Sequence[int], *, full: bool = True, ended_children: bool = False) -> Taken:
    """The present figures of these processes; one that has ended counts as nothing.

    Without `full`, only resident memory, threads and CPU time are read, which is fast. `ended_children` adds the CPU
    time of children that have ended."""
    total = Taken()
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            with process.oneshot():
                memory = process.memory_full_info() if full else process.memory_info()
                times, threads = process.cpu_times(), process.num_threads()
                descriptors = process.num_fds() if full else 0
            total.processes += 1
            total.memory_mb += memory.pss / MB if full else 0.0
            total.resident_mb += memory.rss / MB
            total.threads += threads
            total.descriptors += descriptors
            total.cpu_s += times.user + times.system
            total.cpu_s += times.children_user + times.children_system if ended_children else 0.0
    return total


class Most:
    """`with Most(pids) as most`: at the end `most.memory_mb` is the most that the processes of each role took."""

    def __init__(self, pids: Callable[[], Mapping[str, Sequence[int]]], every_s: float = 1.0) -> None:
        self._pids, self._every_s = pids, every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.memory_mb: dict[str, float] = {}

    def __enter__(self) -> Most:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            for role, pids in self._pids().items():
                self.memory_mb[role] = max(self.memory_mb.get(role, 0.0), round(taken(pids).memory_mb))
            if self._over.wait(self._every_s):
                return


@dataclass
class Usage:
    """`with Usage(job, others) as usage`: measure every five seconds and at the end.

    The processes below `job` are of three kinds: its JVM, the driver's Python, and the Python workers. Each of `others`
    is one process with a name of its own.
    """

    job: int
    others: Mapping[str, int]
    samples: list[tuple[float, dict[str, Taken]]] = field(default_factory=list)

    def __enter__(self) -> Usage:
        self._ended = threading.Event()
        self._look()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def memory_mb(self) -> dict[str, dict[str, float]]:
        """Memory of the processes that still run: at the start, in the middle and at the end, and the rise of a
        straight line through the second half."""
        half = len(self.samples) // 2
        memory = {}
        for name in self.samples[-1][1]:
            mb = [used.get(name, Taken()).resident_mb for _, used in self.samples]
            at = np.array([time for time, _ in self.samples[half:]])
            rise = np.polyfit(at - at[0], mb[half:], 1)[0] * (at[-1] - at[0]) if len(at) > 1 else 0.0
            points = {"start": mb[0], "middle": mb[half], "end": mb[-1], "growth_in_second_half": float(rise)}
            memory[name] = {point: round(value, 1) for point, value in points.items()}
        return memory

    def cpu_s(self) -> dict[str, float]:
        """Processor seconds, with those of processes that have ended, if their parent still runs and waited for them.

        The parent of Spark's Python workers does not: pyspark.daemon ignores SIGCHLD, and then Linux adds the time of a
        child to nothing."""
        last = {name: used for _, sample in self.samples for name, used in sample.items()}
        return {name: round(used.cpu_s - self.samples[0][1].get(name, Taken()).cpu_s, 1) for name, used in last.items()}

    def _watch(self) -> None:
        while not self._ended.wait(EVERY_S):
            self._look()
        self._look()

    def _look(self) -> None:
        usage = {role: taken(pids, full=False, ended_children=True) for role, pids in self._pids().items()}
        self.samples.append((time.monotonic(), {role: used for role, used in usage.items() if used.processes}))

    def _pids(self) -> dict[str, list[int]]:
        roles: dict[str, list[int]] = {}
        with suppress(psutil.NoSuchProcess):
            job = psutil.Process(self.job)
            for process in (job, *job.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    role = JOB[0] if process.name() == "java" else JOB[1] if process == job else JOB[2]
                    roles.setdefault(role, []).append(process.pid)
        return roles | {name: [pid] for name, pid in self.others.items()}
