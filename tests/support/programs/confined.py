"""Give processes a share of a processor core, with Linux's control groups, and count the time that they take."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PERIOD_US = 100_000
OLD, NEW = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")  # of versions 1 and 2 of control groups


@dataclass(frozen=True)
class Group:
    directory: Path

    def take(self, pid: int) -> None:
        """Put a process into the group; its children go with it from now on."""
        (self.directory / "cgroup.procs").write_text(str(pid))


@contextmanager
def group(name: str, cores: float) -> Iterator[Group]:
    """A group whose processes together get so many cores at most. Needs the right to make groups. Raises OSError."""
    parent = OLD if OLD.is_dir() else NEW
    directory = parent / name
    directory.mkdir()
    try:
        quota_us = round(cores * PERIOD_US)
        if parent == OLD:
            (directory / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (directory / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (directory / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        yield Group(directory)
    finally:
        _delete(directory, parent)


def _delete(group: Path, parent: Path) -> None:
    """A group with processes cannot be deleted, and processes may start others while they are moved."""
    for left in range(20, -1, -1):
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):
                (parent / "cgroup.procs").write_text(pid)
        try:
            group.rmdir()
            return
        except OSError:
            if not left:
                raise
            time.sleep(0.1)


def cpu_s(pid: int) -> float:
    """The processor time of a process and of its children that have ended; 0 if it has ended itself."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    return sum(map(int, text[text.rindex(")") + 2 :].split()[11:15])) / os.sysconf("SC_CLK_TCK")
