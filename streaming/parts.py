"""Parts of a snapshot on their way to the workers: small ones in a broadcast, large ones in files that are mapped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkFiles

from matchers.snapshot import Part, Reading
from streaming import packing


@dataclass(frozen=True)
class Handle:
    """Opens a part in a worker. No two parts have the same name."""

    name: str
    broadcast: Any = None  # of its bytes; None: it is in a file
    path: str = ""
    shipped: bool = False  # the file is not at this path but where Spark put it (`SparkContext.addFile`)

    def open(self) -> Part:
        part: Part
        if self.broadcast is not None:
            part = packing.from_bytes(self.broadcast.value)
        else:
            part = packing.read(Path(SparkFiles.get(Path(self.path).name) if self.shipped else self.path))
        return part

    def close(self) -> None:
        """No worker will open it any more."""
        if self.broadcast is not None:
            self.broadcast.destroy()


_open: dict[int, tuple[dict[str, Part], Reading]] = {}  # what this worker used last of each shard


def opened(handles: tuple[Handle, ...], shard: int) -> tuple[list[Part], Reading]:
    """The parts, each opened once in a process for as long as batch after batch uses it; and what to read for them."""
    before, reading = _open.get(shard, ({}, None))
    parts = {handle.name: before.get(handle.name) or handle.open() for handle in handles}
    if reading is None or list(parts) != list(before):
        reading = Reading.of(list(parts.values()), reading)
        _open[shard] = parts, reading
    return list(parts.values()), reading
