"""What the processes of a run take: memory, threads, descriptors, processor time; and the bytes on disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from rig.processes import Tree, below

MB = 1e6
JOB = ("driver", "JVM", "workers", "compaction", "supervisor")


@dataclass
class Taken:
    """By all processes of one kind. What several share counts in equal parts for each (Linux's PSS)."""

    processes: int = 0
    memory_mb: float = 0.0
    resident_mb: float = 0.0  # what several share counts for each
    threads: int = 0
    descriptors: int = 0
    cpu_s: float = 0.0  # of those that run now

    def as_data(self) -> dict[str, float]:
        return {name: round(value, 2) for name, value in asdict(self).items()}


def kinds(supervisor: int, broker: int, generator: int, reader: int) -> dict[str, list[int]]:
    """The processes of a run by kind."""
    tree = Tree.of(supervisor)
    job = {
        "driver": [p.pid for p in tree.drivers],
        "JVM": [p.pid for p in tree.jvms],
        "workers": [p.pid for p in (*tree.daemons, *tree.workers)],
        "compaction": [p.pid for p in tree.pool],
    }
    known = {pid for pids in job.values() for pid in pids}
    rest = [supervisor, *(p.pid for p in tree.everything if p.pid not in known)]
    check = [p.pid for p in below(reader)]
    return {**job, "supervisor": rest, "broker": [broker], "generator": [generator], "reader": [reader], "check": check}


def taken(pids: Sequence[int]) -> Taken:
    """One that has ended meanwhile takes nothing."""
    total = Taken()
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            memory, descriptors, times = process.memory_full_info(), process.num_fds(), process.cpu_times()
            threads = process.num_threads()
            total.processes += 1
            total.memory_mb += memory.pss / MB
            total.resident_mb += memory.rss / MB
            total.threads += threads
            total.descriptors += descriptors
            total.cpu_s += times.user + times.system
    return total


class Most:
    """`with Most(pids) as most`: at the end `most.memory_mb` is the most that the processes of each kind took."""

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
            for kind, pids in self._pids().items():
                self.memory_mb[kind] = max(self.memory_mb.get(kind, 0.0), round(taken(pids).memory_mb))
            if self._over.wait(self._every_s):
                return


def on_disk(directory: Path) -> float:
    """MB of blocks of all files in it; what is written sparsely counts as far as it was written."""
    blocks = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                blocks += (Path(folder) / name).lstat().st_blocks
            except OSError:
                continue  # it has just been deleted
    return blocks * 512 / MB


def logs_on_disk(data: Path, groups: Mapping[str, str]) -> dict[str, float]:
    """MB of a broker's partitions by the first of `groups`, prefixes by name, that fits; what fits none is `broker`."""
    found = dict.fromkeys([*groups, "broker"], 0.0)
    for entry in data.iterdir():
        name = next((name for name, prefix in groups.items() if entry.name.startswith(prefix)), "broker")
        found[name] += on_disk(entry) if entry.is_dir() else 0.0
    return found
