"""Memory and processor time of processes by role."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import psutil

EVERY_S = 5.0
MB = 1e6

JOB = ("driver JVM", "driver Python", "Python workers")


@dataclass
class Taken:
    """Memory and processor time of one kind of process."""

    memory_mb: float = 0.0  # resident; what several share counts for each
    cpu_s: float = 0.0


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
            mb = [taken.get(name, Taken()).memory_mb for _, taken in self.samples]
            at = np.array([time for time, _ in self.samples[half:]])
            rise = np.polyfit(at - at[0], mb[half:], 1)[0] * (at[-1] - at[0]) if len(at) > 1 else 0.0
            points = {"start": mb[0], "middle": mb[half], "end": mb[-1], "growth_in_second_half": float(rise)}
            memory[name] = {point: round(value, 1) for point, value in points.items()}
        return memory

    def cpu_s(self) -> dict[str, float]:
        """Processor seconds, with those of processes that have ended, as far as they were seen."""
        last = {name: taken for _, sample in self.samples for name, taken in sample.items()}
        return {
            name: round(taken.cpu_s - self.samples[0][1].get(name, Taken()).cpu_s, 1) for name, taken in last.items()
        }

    def _watch(self) -> None:
        while not self._ended.wait(EVERY_S):
            self._look()
        self._look()

    def _look(self) -> None:
        usage: dict[str, Taken] = {}
        others = {pid: name for name, pid in self.others.items()}
        for process in (*_tree(self.job), *(process for pid in others for process in _tree(pid)[:1])):
            with suppress(psutil.NoSuchProcess), process.oneshot():
                below = JOB[1] if process.pid == self.job else JOB[0] if process.name() == "java" else JOB[2]
                name = others.get(process.pid, below)
                times, memory = process.cpu_times(), process.memory_info()
                taken = usage.setdefault(name, Taken())
                taken.memory_mb += memory.rss / MB
                # Workers come and go: the processor time of a finished worker is counted in its parent.
                ended = times.children_user + times.children_system if name == JOB[2] else 0.0
                taken.cpu_s += times.user + times.system + ended
        self.samples.append((time.monotonic(), usage))


def _tree(pid: int) -> list[psutil.Process]:
    """A process and all below it; nothing if it has ended."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
