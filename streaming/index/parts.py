"""Send the parts of a snapshot to the workers: small ones in a broadcast, large ones in mapped files."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pyspark import SparkContext
from pyspark.core.broadcast import Broadcast

from matchers.index.snapshot import FieldPlan, Part
from streaming.index import packing


class SharedFile(Broadcast[Path]):
    """The bytes of a file, in a file on every executor that needs them.

    Spark transfers them when a task first needs them, from us or from an executor that has them, and deletes them
    everywhere when they are destroyed. An executor that starts later gets only files that are not destroyed by then.
    The JVMs of both sides hold all the bytes, compressed, in memory during the transfer.
    """

    def __init__(self, context: SparkContext, path: Path) -> None:
        super().__init__(context, path, context._pickled_broadcast_vars)

    def dump(self, value: Path, f: BinaryIO) -> None:
        with value.open("rb") as file, f:
            shutil.copyfileobj(file, f)


@dataclass(frozen=True)
class Handle:
    """Opens a part in a worker. No two parts have the same name."""

    name: str
    broadcast: Any = None  # of its bytes, or a SharedFile; None: workers see our files
    path: str = ""  # of its file; empty if it is in no file

    def open(self) -> Part:
        if self.broadcast is None:
            return packing.read(Path(self.path), Part)
        if self.path:
            return packing.read(Path(self.broadcast._path), Part)  # where Spark put it
        return packing.from_bytes(self.broadcast.value, Part)

    def close(self) -> None:
        """Destroy the part: no worker will open it any more."""
        if self.broadcast is not None:
            self.broadcast.destroy()


_open: dict[int, tuple[dict[str, Part], FieldPlan]] = {}  # what this worker used last of each shard


def opened(handles: tuple[Handle, ...], shard: int) -> tuple[list[Part], FieldPlan]:
    """The parts and their field plan. A process keeps a part open as long as every batch uses it."""
    before, plan = _open.get(shard, ({}, None))
    parts = {handle.name: before.get(handle.name) or handle.open() for handle in handles}
    if plan is None or list(parts) != list(before):
        plan = FieldPlan.of(list(parts.values()), plan)
        _open[shard] = parts, plan
    return list(parts.values()), plan


def forget() -> None:
    """Close all parts of this process."""
    _open.clear()
