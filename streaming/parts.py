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


_open: dict[str, Part] = {}  # what this worker used last
_reading = Reading.of(())


def opened(handles: tuple[Handle, ...]) -> tuple[list[Part], Reading]:
    """The parts, each opened once in a process for as long as batch after batch uses it; and what to read for them."""
    global _reading
    wanted = {handle.name: _open.get(handle.name) or handle.open() for handle in handles}
    if wanted.keys() != _open.keys():
        _reading = Reading.of(list(wanted.values()), _reading)
        _open.clear()
        _open.update(wanted)
    return list(wanted.values()), _reading
