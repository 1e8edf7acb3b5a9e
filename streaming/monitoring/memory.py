"""Measure the memory of this process's descendants by role."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(pid: int, proc: Path = PROC) -> Mapping[str, int]:
    """Resident bytes by kind of process: "jvm" is Spark, "workers" its children, "beside" the driver's other children.

    Shared memory counts in each. Empty where there is no /proc.
    """
    below: dict[int, list[tuple[int, str, int]]] = {}
    for stat in proc.glob("[0-9]*/stat"):
        try:
            head, _, rest = stat.read_text(errors="replace").rpartition(")")
        except OSError:  # it has ended
            continue
        of, _, name = head.partition(" (")
        numbers = rest.split()
        below.setdefault(int(numbers[1]), []).append((int(of), name, int(numbers[21]) * _PAGE))
    resident: Counter[str] = Counter()
    open_ends = [(pid, "")]
    while open_ends:
        parent, of_parent = open_ends.pop()
        for child, name, size in below.get(parent, ()):
            kind = "workers" if of_parent in ("jvm", "workers") else "jvm" if name == "java" else "beside"
            resident[kind] += size
            open_ends.append((child, kind))
    return resident
