"""Measure the memory of this process's descendants by role."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

import psutil


def resident_bytes(pid: int) -> Mapping[str, int]:
    """Resident bytes by kind of process: "jvm" is Spark, "workers" its children, "other" the driver's other children.

    Shared memory counts in each.
    """
    kinds = {pid: ""}
    resident: Counter[str] = Counter()
    for child in psutil.Process(pid).children(recursive=True):  # parents first
        with suppress(psutil.NoSuchProcess), child.oneshot():
            of_parent = kinds.get(child.ppid(), "")
            kind = "workers" if of_parent in ("jvm", "workers") else "jvm" if child.name() == "java" else "other"
            kinds[child.pid] = kind
            resident[kind] += child.memory_info().rss
    return resident
