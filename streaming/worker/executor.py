"""Find the Spark executor for which this process works."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

PROC = Path("/proc")
FLAG = b"--executor-id"  # of every executor's JVM but that of a local master, which is the driver's
PRELOAD = "--preload"  # of the process from which the daemon of a local master is forked (`starting.preloaded`)
DRIVER, UNKNOWN = "driver", "unknown"
ANCESTORS = 4  # a worker's parent is the daemon, whose parent is the JVM or that process


def on_cluster(master: str | None) -> bool:
    """Whether executors run elsewhere. Spark's `local-cluster[...]` is a cluster on this host."""
    return master != "local" and not str(master).startswith("local[")


@cache
def executor() -> str:
    """Spark's id of the executor; `driver` with a local master, `unknown` where /proc cannot be read."""
    return executor_of(os.getppid())


def executor_of(process: int, proc: Path = PROC) -> str:
    """The id in the command line of the nearest JVM among a process and its ancestors."""
    try:
        for _ in range(ANCESTORS):
            command = (proc / str(process) / "cmdline").read_bytes()
            words = command.replace(b" ", b"\0").split(b"\0")  # a process that was renamed has it in one string
            if FLAG in words:
                return words[words.index(FLAG) + 1].decode()
            if PRELOAD.encode() in words or any(word.startswith(b"org.apache.spark.deploy.") for word in words):
                return DRIVER
            after_name = (proc / str(process) / "stat").read_text().rpartition(")")[2]
            process = int(after_name.split()[1])  # its parent
    except (OSError, ValueError, IndexError):
        return UNKNOWN
    return UNKNOWN
