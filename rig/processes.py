"""The processes of the running job by role."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import psutil

from streaming.worker.executor import PRELOAD

DAEMON = "streaming.worker.daemon"  # the module that forks Spark's Python workers
GONE = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


@dataclass(frozen=True)
class Process:
    handle: psutil.Process  # names it for ever: a later process with its pid is another one
    parent: int
    session: int
    command: str

    @property
    def pid(self) -> int:
        return int(self.handle.pid)

    def alive(self) -> bool:
        """Whether more is left of it than its exit code."""
        try:
            return self.handle.is_running() and self.handle.status() not in GONE
        except psutil.NoSuchProcess:
            return False

    def send(self, number: int) -> None:
        """Nothing happens if it has ended."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.handle.send_signal(number)


def of_pid(pid: int) -> Process | None:
    """None if there is none, or only its exit code is left."""
    try:
        handle = psutil.Process(pid)
        with handle.oneshot():
            words = " ".join(handle.cmdline()).split(" ")  # a process that was renamed has them in one string
            process = Process(handle, handle.ppid(), os.getsid(pid), "\0".join(words))
            return None if handle.status() in GONE else process
    except (psutil.NoSuchProcess, ProcessLookupError):
        return None


def below(pid: int) -> list[Process]:
    """Return all descendants of a process, parents first, also those that lost their own parent."""
    return _below({pid}, [process for other in psutil.pids() if other != pid and (process := of_pid(other))])


def _below(parents: set[int], there: Sequence[Process]) -> list[Process]:
    found: list[Process] = []
    while parents:
        children = [p for p in there if (p.parent in parents or p.session in parents) and p not in found]
        found += children
        parents = {child.pid for child in children}
    return found


@dataclass(frozen=True)
class ProcessTree:
    """The processes of one supervised job; each list is empty while there is none of it."""

    everything: list[Process]
    fork_servers: list[Process]  # from which the supervisor forks drivers
    jobs: list[Process]  # drivers, and all that they have started
    drivers: list[Process]  # Python
    jvms: list[Process]  # of a driver
    daemons: list[Process]  # that fork Spark's Python workers
    workers: list[Process]
    pool: list[Process]  # of the driver, for what is done beside the batches: loading and compaction

    @classmethod
    def of(cls, supervisor: int, executors: Sequence[Process] = ()) -> ProcessTree:
        """Return the job's processes, with those of `executors` where these are not the driver's JVM."""
        found = below(supervisor)
        named = [p for p in found if "\0--lineage\0" in p.command]
        drivers = [p for p in named if p.parent not in _pids(named)]
        fork_servers = [p for p in found if p.parent == supervisor and "'commands.loaded'" in p.command]
        started = _below(_pids(drivers), found)
        jobs = [p for p in found if p in drivers or p in started]
        jvms = [p for p in found if p.parent in _pids(drivers) and "java" in p.command.split("\0")[0]]
        tasks = [*found, *executors]
        java = _pids(p for p in tasks if "java" in p.command.split("\0")[0])
        daemons, workers = daemons_and_workers([p for p in tasks if p.pid not in java])
        pool = [p for p in found if p.parent in _pids(drivers) and "multiprocessing.spawn" in p.command]
        return cls(found, fork_servers, jobs, drivers, jvms, daemons, workers, pool)


def daemons_and_workers(processes: Sequence[Process], module: str = DAEMON) -> tuple[list[Process], list[Process]]:
    """Return the parents of Spark's Python workers, and the workers. What Spark starts is a parent itself, or has
    handed over to a process of the driver, from which the parent is forked."""
    of_spark = [p for p in processes if f"\0{module}\0" in p.command]
    top = [p for p in of_spark if p.parent not in _pids(of_spark)]
    preloaded = [p for p in top if f"\0{PRELOAD}\0" in p.command]
    daemons = [p for p in of_spark if p.parent in _pids(preloaded)] or [p for p in top if p not in preloaded]
    return daemons, [p for p in of_spark if p.parent in _pids(daemons)]


def kill(processes: Iterable[Process]) -> None:
    for process in processes:
        process.send(signal.SIGKILL)


def ended(processes: Iterable[Process], timeout_s: float) -> bool:
    """Whether all have by then."""
    left, deadline = list(processes), time.monotonic() + timeout_s
    while left := [process for process in left if process.alive()]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _pids(processes: Iterable[Process]) -> set[int]:
    return {process.pid for process in processes}
