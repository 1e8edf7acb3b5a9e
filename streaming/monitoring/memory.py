"""Measure the memory of this process's descendants by role."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

import psutil

WORKERS = "streaming.worker.daemon"


def resident_bytes(pid: int) -> Mapping[str, int]:
    """Resident bytes by kind of process: "jvm" is Spark, "workers" its children and the process that loads code for
    them, "other" the driver's other children.

    Shared memory counts in each.
    """
    kinds = {pid: ""}
    resident: Counter[str] = Counter()
    for child in psutil.Process(pid).children(recursive=True):  # parents first
        with suppress(psutil.NoSuchProcess), child.oneshot():
            of_parent = kinds.get(child.ppid(), "")
            if of_parent in ("jvm", "workers"):
                kind = "workers"
            elif child.name() == "java":
                kind = "jvm"
            else:
                kind = "workers" if WORKERS in " ".join(child.cmdline()) else "other"
            kinds[child.pid] = kind
            resident[kind] += child.memory_info().rss
    return resident
