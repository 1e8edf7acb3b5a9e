"""The checkpoint directory: used by one process at a time and one query only."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streaming.errors import CheckpointInUse, JobError, NotRunning
from streaming.process import lock
from streaming.process.lock import Lock

OWNER = "owner"
SCRATCH = "scratch"  # a link to the directory of the job that runs
STANDBY_SCRATCH = "standby-scratch"  # to that of the process that stands by
TRIES, TRY_AGAIN_S = 10, 0.1  # to delete what a killed job has left
MONITORING = "monitoring"  # where that job answers
URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/")  # hdfs:/a is one too
ROOM_BYTES = 1 << 20  # with less, a start is not worth a try


def is_local(location: str) -> bool:
    """Whether it is a path: the URL of a directory here is one by now (`config.model`)."""
    return URL.match(location) is None


def obstacle(location: str) -> str:
    """The reason that no job can start on this checkpoint for now, as far as the checkpoint or the directory of
    temporary files shows it; empty if there is none."""
    try:
        if is_local(location):
            _directory(location).mkdir(parents=True, exist_ok=True)
            _try_to_write(_directory(location))
        _try_to_write(Path(tempfile.gettempdir()))
    except OSError as error:
        return failure(error, location)
    return ""


def _try_to_write(directory: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(bytes(ROOM_BYTES))
            file.flush()
            os.fsync(file.fileno())  # some file systems report only then that they are full
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(directory)) from error


def failure(error: OSError, directory: str | Path) -> str:
    """The fault of a directory, with its remedy."""
    advice = {
        errno.ENOSPC: "make room there, or set query.checkpoint to a directory on another disk",
        errno.EDQUOT: "make room there, or raise the quota of the user that the job runs as",
        errno.EROFS: "mount it writable, or set query.checkpoint to a directory that the job may write",
        errno.EACCES: "let the user that the job runs as write there, or set query.checkpoint to another directory",
    }
    what = f"{error.filename or directory}: {error.strerror}"
    return f"{what}; {advice[error.errno]}" if error.errno in advice else what


@contextmanager
def opened(location: str, query: str, *, stands_by: bool = False) -> Iterator[Lock | None]:
    """Open a checkpoint, and lock it if it is a local directory; yield that lock. Raises CheckpointInUse if another
    process holds it, unless this one `stands_by`: then its lock may not be held yet.

    Elsewhere the fencing of producers protects against a second job, and `streaming.state.remote` the saved state. So
    no lock there shows when to take over, so `stands_by` raises JobError.
    """
    if not is_local(location):
        if stands_by:
            raise JobError(
                f"--standby needs query.checkpoint in a local directory, whose lock tells when the other job has "
                f"ended, and {location} is a URL; leave --standby out, and let --supervise restart the job"
            )
        yield None
        return
    directory = _directory(location)
    directory.mkdir(parents=True, exist_ok=True)
    with lock.opened(directory) as own:
        if not (own.acquire() or stands_by):
            raise CheckpointInUse(
                f"another job is running on the checkpoint {directory}; stop it first, set query.checkpoint, or pass "
                f"--standby to wait until it ends"
            )
        _claim(directory / "query.json", query)
        yield own


def is_standby_ready(location: str) -> bool:
    """Whether a process stands by for the job and has prepared everything."""
    return lock.is_standby_ready(_directory(location))


def owner(location: str) -> str:
    """The lineage that last took over on this checkpoint; empty if unknown."""
    file = _directory(location) / OWNER
    return file.read_text(errors="replace") if is_local(location) and file.exists() else ""


def own(location: str, owner: str) -> None:
    if is_local(location):
        _write(_directory(location) / OWNER, owner)


def state(location: str, scratch: Path) -> Path:
    """The local directory of the saved state, whose files are mapped."""
    return (_directory(location) if is_local(location) else scratch) / "state"


def spark(location: str, scratch: Path) -> str:
    """The URL of Spark's own checkpoint. It need not outlive the job, so a start empties the directory above it; the
    JVM of a job that was killed may still write to its own for a moment."""
    return ((_directory(location) if is_local(location) else scratch) / "spark" / uuid.uuid4().hex).as_uri()


@contextmanager
def scratch(location: str, *, stands_by: bool = False) -> Iterator[Path]:
    """Create a fresh directory for temporary files of Spark and its JVM.

    It is deleted with the job; after a kill, by the next job that opens the same local checkpoint in the same role. It
    lies with other temporary files, not in the checkpoint: the path of a socket in it may have 107 bytes at most.
    """
    directory = Path(tempfile.mkdtemp(prefix="sluice-"))
    name = STANDBY_SCRATCH if stands_by else SCRATCH
    try:
        if is_local(location):
            clear(location, name)
            (_directory(location) / name).symlink_to(directory)
        yield directory
        if is_local(location):
            for link in (_directory(location) / name for name in (SCRATCH, STANDBY_SCRATCH)):
                if link.is_symlink() and link.readlink() == directory:
                    link.unlink()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def take_over_scratch(location: str) -> None:
    """Make the directory of the process that stood by that of the job that runs."""
    clear(location)
    (_directory(location) / STANDBY_SCRATCH).rename(_directory(location) / SCRATCH)


@contextmanager
def announced(location: str, url: str) -> Iterator[None]:
    """Write the job's address to a file in a local checkpoint. A killed job leaves the file there."""
    if not is_local(location):
        yield
        return
    file = _directory(location) / MONITORING
    file.write_text(url + "\n")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def announcement(location: str) -> str:
    """The address in that file; it may be that of a killed job. Raises NotRunning."""
    if not is_local(location):
        raise NotRunning(
            f"the checkpoint {location} is not a local directory, so it has no address of a job; pass --url"
        )
    file = _directory(location) / MONITORING
    try:
        return file.read_text(errors="replace").strip()
    except OSError as error:
        raise NotRunning(
            f"{file}: {error.strerror}: no job runs on this checkpoint, or monitoring.enabled is false"
        ) from None


def clear(location: str, name: str = SCRATCH) -> None:
    """Remove what a killed job has left outside its local checkpoint, below the link of this name. Its JVM may still
    write there for a moment."""
    last = _directory(location) / name
    if last.is_symlink():
        directory = last.readlink()
        for _ in range(TRIES):
            shutil.rmtree(directory, ignore_errors=True)
            if not directory.exists():
                break
            time.sleep(TRY_AGAIN_S)
        last.unlink()


def _directory(location: str) -> Path:
    return Path(location).resolve()


def _write(file: Path, text: str) -> None:
    """Write a file, whole or, on a full disk, not at all."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(text)
    new.replace(file)


def _claim(file: Path, query: str) -> None:
    """Bind a checkpoint to a query. Another query would skip events by its offsets that it never delivered."""
    content = file.read_bytes() if file.exists() else b""
    check_owner(content, str(file.parent), query)
    if not content:
        _write(file, json.dumps({"query": query}) + "\n")


def check_owner(content: bytes, location: str, query: str) -> None:
    """Check the content of a `query.json`, which a crash of the machine can leave empty. Raises CheckpointInUse if it
    names another query, or none."""
    if not content:
        return
    try:
        owner = json.loads(content)["query"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise CheckpointInUse(
            f"the checkpoint {location} has a query.json that cannot be read; "
            f"if the checkpoint belongs to the query {query!r}, delete that file; otherwise set another "
            "query.checkpoint"
        ) from None
    if owner != query:
        raise CheckpointInUse(
            f"the checkpoint {location} belongs to the query {owner!r}, not to {query!r}; "
            f"use another query.checkpoint, or set query.name = {owner!r}"
        )
