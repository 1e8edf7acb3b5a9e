"""Memory and processor time of processes by role, from Linux's /proc."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

PROC = Path("/proc")
EVERY_S = 5.0
MB = 1e6
_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")

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
        processes = _processes()
        parent = {pid: process.parent for pid, process in processes.items()}
        usage: dict[str, Taken] = {}
        for pid, process in processes.items():
            name = next((name for name, other in self.others.items() if other == pid), None)
            if name is None and _below(pid, self.job, parent):
                name = JOB[1] if pid == self.job else JOB[0] if process.command == "java" else JOB[2]
            if name is None:
                continue
            taken = usage.setdefault(name, Taken())
            taken.memory_mb += process.memory_mb
            # Workers come and go: the processor time of a finished worker is counted in its parent.
            taken.cpu_s += process.cpu_s + (process.cpu_of_children_s if name == JOB[2] else 0.0)
        self.samples.append((time.monotonic(), usage))


@dataclass(frozen=True)
class _Process:
    command: str
    parent: int
    memory_mb: float
    cpu_s: float
    cpu_of_children_s: float


def _processes() -> dict[int, _Process]:
    processes = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue  # it has just ended
            command, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
            user, system, children_user, children_system = (int(ticks) / _TICKS for ticks in fields[11:15])
            memory = int(fields[21]) * _PAGE / MB
            processes[int(entry.name)] = _Process(
                command, int(fields[1]), memory, user + system, children_user + children_system
            )
    return processes


def _below(pid: int, ancestor: int, parent: Mapping[int, int]) -> bool:
    while pid != ancestor and pid in parent:
        pid = parent[pid]
    return pid == ancestor
