"""Reject memory beyond what the machine has free, so that a benchmark gets a MemoryError and is not killed."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KB = 1024


@contextmanager
def limited() -> Iterator[None]:
    """Limit the data of this process to what it has and what is available now; on Linux only."""
    available, own = _kb("/proc/meminfo", "MemAvailable"), _kb("/proc/self/status", "VmData")
    if available is None or own is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = (available + own) * KB
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _kb(file: str, name: str) -> int | None:
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), None)
