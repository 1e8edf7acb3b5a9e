"""The saved state in one of Hadoop's file systems: HDFS, S3A, ABFS, GS and others that Spark can use.

    <checkpoint>/query.json               the query that the checkpoint belongs to
    <checkpoint>/state/owner-<random>     the process that may write; another one that takes over replaces it
    <checkpoint>/state/part-<name>        copies of the files in the local directory of `store`: its parts,
    <checkpoint>/state/version-<number>-<checksum>    its manifests,
    <checkpoint>/state/rejected-<random>  and its rejections

A file gets a new name instead of new content, and a manifest is written after the parts it names and deleted before
them. So nothing depends on renames, which object stores do not have. A file that a crash left half-written is noticed
by its checksum, or no manifest names it; another file has the whole rejections.
"""

from __future__ import annotations

import json
import threading
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from matchers.errors import MatchingError
from streaming.errors import Fenced, JobError, StorageFailed
from streaming.log import error_fields, logger
from streaming.process.checkpoint import check_owner
from streaming.state import rejections

log = logger("sluice.state")

OWNER, VERSION, REJECTED = "owner-", "version-", "rejected-"
MISSING_PACKAGE = ("UnsupportedFileSystem", "ClassNotFound", "NoClassDefFound")  # Java: there is no package
DOWNLOADS_AT_ONCE = 8  # an object store answers each of them slowly


class Files(Protocol):
    """The files of a directory. A file is written once."""

    url: str

    def names(self) -> set[str]: ...

    def put(self, file: Path, name: str) -> None: ...

    def get(self, name: str, file: Path) -> None: ...

    def delete(self, name: str) -> None: ...


class Directory:
    """`Files` of a directory by its URL. Raises StorageFailed, and JobError if Spark has no such file system."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self.url = url.rstrip("/")
        self._jvm: Any = spark._jvm
        self._hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
        with self._failing():
            self._files: Any = self._path("").getFileSystem(self._hadoop)
            self._files.mkdirs(self._path(""))

    def names(self) -> set[str]:
        with self._failing():
            return {status.getPath().getName() for status in self._files.listStatus(self._path("")) if status.isFile()}

    def put(self, file: Path, name: str) -> None:
        with self._failing():
            self._files.copyFromLocalFile(False, True, self._local(file), self._path(name))

    def get(self, name: str, file: Path) -> None:
        with self._failing():
            self._files.copyToLocalFile(False, self._path(name), self._local(file), True)

    def delete(self, name: str) -> None:
        with self._failing():
            self._files.delete(self._path(name), False)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.url}/{name}")

    def _local(self, file: Path) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(file.resolve().as_uri())

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            reason = error.java_exception.toString()
            if any(sign in reason for sign in MISSING_PACKAGE):
                raise JobError(
                    f"query.checkpoint = {self.url}: {reason}; add the package of this file system and its "
                    "dependencies to Spark: for s3a:// the jars that `make s3` puts into jars/s3, or hadoop-aws, "
                    "Amazon's bundle and software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3 "
                    "(docs/how-to/checkpoint-by-url.md)"
                ) from None
            raise StorageFailed(f"{self.url}: {reason}") from None
        except (Py4JError, ConnectionError) as error:
            raise StorageFailed(f"{self.url}: Spark's JVM has ended: {error}") from None


def _without_checksum(manifest: Path) -> None:
    """Give a manifest its local name. There may be two of a version, of which a crash left one half-written."""
    name, _, checksum = manifest.name.rpartition("-")
    if checksum == _checksum(manifest):
        manifest.replace(manifest.with_name(name))
    else:
        manifest.unlink()


def _checksum(file: Path) -> str:
    return f"{zlib.crc32(file.read_bytes()):08x}"


class Copy:
    """A copy of a local directory of the saved state. One process at a time writes it: the last one that took over.

    A process that was replaced before it came here deletes the file of its successor. So a process whose file is gone
    puts it back if it still `owns` the query. Raises StorageFailed, and Fenced if another process has taken over.
    """

    def __init__(self, directory: Files, local: Path, owns: Callable[[], bool] = lambda: False) -> None:
        """Take over, and bring the files that are there to `local`, which is empty. `owns` raises JobError."""
        self._directory = directory
        self._local = local
        self._owns = owns
        self._owner = f"{OWNER}{uuid.uuid4().hex}"
        names = self._claimed()
        self._there = _of_versions(names)
        with ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as downloads:
            downloaded = {name: downloads.submit(directory.get, name, local / name) for name in self._there}
        self._leave_out({name: download.exception() for name, download in downloaded.items()}, local)
        for manifest in local.glob(f"{VERSION}*"):
            _without_checksum(manifest)
        self._rejected = self._whole_rejections(names, local / "rejected")
        self._rejecting = threading.Lock()
        self._writing = threading.Lock()  # parts and manifests, one after the other
        self._lent: set[str] = set()
        self._deciding = threading.Lock()  # what is deleted; held for a moment only

    def _leave_out(self, errors: Mapping[str, BaseException | None], local: Path) -> None:
        """Leave out files that could not be read: a version that names one is not used. Raises the error if that is so
        for all, or if it is not the file system's."""
        failed = {name: error for name, error in errors.items() if error is not None}
        for name, error in failed.items():
            if len(failed) == len(errors) or not isinstance(error, StorageFailed):
                raise error
            log.warning("saved_state_rejected", file=name, **error_fields(error))
            (local / name).unlink(missing_ok=True)

    def lend(self, part: Path) -> None:
        """Keep a part there until it is taken `back`. Copies it first if it is not there."""
        if self.lent(part.name) is None:
            with self._deciding:
                self._lent.add(part.name)
            try:
                with self._writing:
                    self._send(part.name, part)
            except BaseException:
                self.back(part.name)
                raise

    def lent(self, part: str) -> str | None:
        """The URL of the part of this name, which is kept there until it is taken `back`; None if it is not there yet.
        Never waits."""
        with self._deciding:
            if part not in self._there:
                return None
            self._lent.add(part)
        return f"{self._directory.url}/{part}"

    def back(self, part: str) -> None:
        """Let the next `update` delete the part of this name."""
        with self._deciding:
            self._lent.discard(part)

    def reject(self, rejected: Path) -> None:
        """Copy the rejections, if they are others now. May be called during an `update`, which takes longer."""
        with self._rejecting:
            content = rejected.read_bytes()
            if content == self._rejected:
                return
            names = self._checked()
            self._directory.put(rejected, f"{REJECTED}{uuid.uuid4().hex}")
            for old in _of_kind(REJECTED, names):
                self._directory.delete(old)
            self._rejected = content

    def update(self, parts: Iterable[Path], manifests: Iterable[Path]) -> None:
        """Make these the parts and manifests that are there, and those that are in use."""
        with self._writing:
            names = self._checked()
            with self._deciding:
                self._there &= names
            named = {file.name: file for file in parts}
            named |= {f"{file.name}-{_checksum(file)}": file for file in manifests}
            for name, file in named.items():
                self._send(name, file)
            for name in sorted(_of_versions(names) - named.keys(), reverse=True):  # manifests before parts
                with self._deciding:
                    if name in self._lent:
                        continue
                    self._there.discard(name)
                self._directory.delete(name)

    def _send(self, name: str, file: Path) -> None:
        if name not in self._there:
            self._directory.put(file, name)
            self._there.add(name)

    def _whole_rejections(self, names: set[str], file: Path) -> bytes:
        """Bring the rejections of all whole files to one; returns its content. If none is whole, there is no file."""
        places: set[rejections.Place] | None = None
        for name in _of_kind(REJECTED, names):
            with suppress(MatchingError, StorageFailed):
                self._directory.get(name, file)
                places = (places or set()) | rejections.read(file)
        file.unlink(missing_ok=True)
        if places is None:
            return b""
        rejections.write(file, places)
        return file.read_bytes()

    def _checked(self) -> set[str]:
        """The names of all files. Raises Fenced if another process has taken over."""
        names = self._directory.names()
        if self._owner in names:
            return names
        if not self._owns():
            raise Fenced("another job has taken over the checkpoint")
        self._rejected = b""  # the other process may have deleted them, or left its own
        return self._claimed()

    def _claimed(self) -> set[str]:
        """Put our file in the place of all others of its kind; returns the names of all files."""
        empty = self._local / f"empty-{uuid.uuid4().hex}"
        empty.touch()
        self._directory.put(empty, self._owner)
        empty.unlink()
        names = self._directory.names()
        for other in _of_kind(OWNER, names) - {self._owner}:
            self._directory.delete(other)
        return names


def _of_kind(kind: str, names: set[str]) -> set[str]:
    """The owners, or the rejections, among these."""
    return {name for name in names if name.startswith(kind)}


def _of_versions(names: set[str]) -> set[str]:
    """The parts and manifests among these."""
    return {name for name in names if not name.startswith((OWNER, REJECTED))}


def opened(spark: SparkSession, location: str, query: str, local: Path, owns: Callable[[], bool]) -> Copy:
    """The copy below a checkpoint's URL, whose files are then in `local`, for a process that `owns` the query. Raises
    StorageFailed, and CheckpointInUse if it belongs to another query."""
    local.mkdir(parents=True)
    home = Directory(spark, location)
    file = local / "query.json"
    if file.name in home.names():
        home.get(file.name, file)
        check_owner(file.read_bytes(), location, query)
    file.write_text(json.dumps({"query": query}) + "\n")
    home.put(file, file.name)
    file.unlink()
    return Copy(Directory(spark, f"{location.rstrip('/')}/state"), local, owns)
