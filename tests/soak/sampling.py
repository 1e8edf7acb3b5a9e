"""The processes of a run by kind, and its bytes on disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rig.processes import ProcessTree, below
from rig.usage import MB

JOB = ("driver", "JVM", "workers", "compaction", "supervisor")


def kinds(supervisor: int, broker: int, generator: int, reader: int) -> dict[str, list[int]]:
    """The processes of a run by kind."""
    tree = ProcessTree.of(supervisor)
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
