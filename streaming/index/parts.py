"""Send the parts of a snapshot to the workers: small ones in a broadcast, large ones in files that they map."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from py4j.protocol import Py4JError
from pyspark import SparkContext, SparkFiles
from pyspark.core.broadcast import Broadcast

from matchers.index.snapshot import FieldPlan, Part
from streaming.index import packing

OF_ALL = "default"  # the key of files that tasks of all sessions need


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
class RemoteFile:
    """A file of a file system that all hosts reach, in a file on every executor that needs it.

    Before its next task an executor brings it from there itself, so nothing passes the driver. Spark keeps a table of
    such files (`SparkContext.addFile`), but offers nothing to take one out of it; and `addFile` would bring the file to
    the driver too. So we write this table. Workers delete what they do not need any more (`forget_files`).
    """

    url: str
    table: Any = field(default=None, compare=False)  # on the driver, Spark's: URL -> milliseconds when it was added
    destroyed: Callable[[], None] = field(default=lambda: None, compare=False)  # called then, on the driver

    @classmethod
    def added(cls, context: SparkContext, url: str, destroyed: Callable[[], None]) -> RemoteFile:
        jvm: Any = context._jvm
        tables: Any = context._jsc.sc().addedFiles()  # by session; ours has none of its own
        if not tables.contains(OF_ALL):
            made = jvm.java.util.concurrent.ConcurrentHashMap()
            tables.put(OF_ALL, jvm.scala.jdk.javaapi.CollectionConverters.asScala(made))
        table = tables.apply(OF_ALL)
        table.put(url, int(1000 * time.time()))
        return cls(url, table, destroyed)

    @property
    def path(self) -> Path:
        """The file's place on a worker."""
        return _fetched(self.url.rpartition("/")[2])

    def destroy(self) -> None:
        with suppress(Py4JError, ConnectionError):  # of a JVM that has ended: its executors fetch nothing any more
            self.table.remove(self.url)
        self.destroyed()

    def __reduce__(self) -> tuple[type[RemoteFile], tuple[str]]:
        return RemoteFile, (self.url,)


def forget_files(names: Iterable[str]) -> None:
    """Delete remote files of which this executor has copies. Workers that have mapped one can go on reading it."""
    for name in names:
        _fetched(name).unlink(missing_ok=True)


def _fetched(name: str) -> Path:
    return Path(SparkFiles.get(name))


@dataclass(frozen=True)
class PartHandle:
    """Opens a part in a worker. No two parts have the same name."""

    name: str
    broadcast: Any = None  # of its bytes, or a SharedFile or RemoteFile; None: workers see our files
    path: str = ""  # of its file; empty if it is in no file

    def open(self) -> Part:
        if self.broadcast is None:
            return packing.read(Path(self.path), Part)
        if isinstance(self.broadcast, RemoteFile):
            return packing.read(self.broadcast.path, Part)
        if self.path:
            return packing.read(Path(self.broadcast._path), Part)  # where Spark put it
        return packing.from_bytes(self.broadcast.value, Part)

    def close(self) -> None:
        """Destroy the part: no worker will open it any more."""
        if self.broadcast is not None:
            self.broadcast.destroy()


_open: dict[int, tuple[dict[str, Part], FieldPlan]] = {}  # what this worker used last of each shard


def opened(handles: tuple[PartHandle, ...], shard: int) -> tuple[list[Part], FieldPlan]:
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
