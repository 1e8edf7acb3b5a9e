"""The files that a job leaves on disk, and their removal."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from config.model import Settings
from streaming.driver import launch
from streaming.errors import CheckpointInUse, JobError, StorageFailed
from streaming.process import checkpoint


@pytest.mark.parametrize(
    ("location", "local"),
    [("checkpoint", True), ("/a/b:c", True), ("a:/b", True), ("s3a://bucket/a", False), ("hdfs:/a", False)],
)
def test_a_location_with_a_scheme_is_not_on_this_machine(location: str, local: bool) -> None:
    assert checkpoint.is_local(location) == local


def left_by_a_killed_job(location: Path) -> Path:
    """A scratch directory whose job never came to its end."""
    location.mkdir()
    scratch = location.parent / "sluice-killed"
    scratch.mkdir()
    (scratch / "file").write_text("")
    (location / checkpoint.SCRATCH).symlink_to(scratch)
    return scratch


def test_scratch_goes_with_the_job_and_what_a_killed_one_left_goes_with_the_next(tmp_path: Path) -> None:
    killed = left_by_a_killed_job(tmp_path / "c")
    with checkpoint.scratch(str(tmp_path / "c")) as directory:
        assert not killed.exists()
        assert (tmp_path / "c" / checkpoint.SCRATCH).readlink() == directory
    assert not directory.exists()
    assert list((tmp_path / "c").iterdir()) == []


def test_what_a_killed_job_left_can_be_cleared(tmp_path: Path) -> None:
    killed = left_by_a_killed_job(tmp_path / "c")
    for _ in range(2):  # there may be nothing to clear
        checkpoint.clear(str(tmp_path / "c"))
        assert not killed.exists()
        assert list((tmp_path / "c").iterdir()) == []


def test_what_the_jvm_of_a_killed_job_still_writes_is_cleared_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, delete = left_by_a_killed_job(tmp_path / "c"), shutil.rmtree
    writes = iter(range(3))

    def delete_beside_a_jvm(directory: Path, *, ignore_errors: bool) -> None:
        delete(directory, ignore_errors=ignore_errors)
        if next(writes, None) is not None:
            directory.mkdir()

    monkeypatch.setattr("streaming.process.checkpoint.shutil.rmtree", delete_beside_a_jvm)
    checkpoint.clear(str(tmp_path / "c"))
    assert not killed.exists()


def test_the_scratch_of_a_standby_becomes_that_of_the_job(tmp_path: Path) -> None:
    killed = left_by_a_killed_job(tmp_path / "c")
    location = str(tmp_path / "c")
    with checkpoint.scratch(location, stands_by=True) as directory:
        assert killed.exists()
        assert (tmp_path / "c" / checkpoint.STANDBY_SCRATCH).readlink() == directory
        checkpoint.take_over_scratch(location)
        assert not killed.exists()
        with checkpoint.scratch(location, stands_by=True) as other:  # the next one
            assert (tmp_path / "c" / checkpoint.SCRATCH).readlink() == directory
            assert (tmp_path / "c" / checkpoint.STANDBY_SCRATCH).readlink() == other
    assert list((tmp_path / "c").iterdir()) == []


def test_a_standby_waits_for_a_job_on_a_local_checkpoint_only(tmp_path: Path) -> None:
    location = str(tmp_path / "c")
    with checkpoint.opened(location, "q"):
        with checkpoint.opened(location, "q", stands_by=True) as lock:
            assert lock is not None
            assert not lock.held
        with pytest.raises(CheckpointInUse, match="belongs to the query 'q', not to 'r'"):
            checkpoint.opened(location, "r", stands_by=True).__enter__()
    with pytest.raises(JobError, match=r"--standby needs query\.checkpoint in a local directory"):
        checkpoint.opened("s3a://bucket/a", "q", stands_by=True).__enter__()


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "No space left on device; make room there"),
        (errno.EDQUOT, "make room there, or raise the quota"),
        (errno.EROFS, "Read-only file system; mount it writable"),
        (errno.EACCES, "Permission denied; let the user that the job runs as write there"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_what_is_in_the_way_of_a_start_is_named_with_what_would_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    location = str(tmp_path / "c")
    assert checkpoint.obstacle(location) == ""
    assert list((tmp_path / "c").iterdir()) == []

    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("streaming.process.checkpoint.os.fsync", fail)
    assert checkpoint.obstacle(location).startswith(f"{location}: ")
    assert reason in checkpoint.obstacle(location)


def test_a_checkpoint_that_is_read_only_ends_the_job_with_a_hint_and_may_work_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(location: str, query: str, *, stands_by: bool) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), f"{location}/lock")

    monkeypatch.setattr(checkpoint, "opened", opened)

    def unopened(directory: Path) -> AbstractContextManager[SparkSession]:
        raise AssertionError("a session is opened")

    settings = Settings.model_validate({"query": {"checkpoint": str(tmp_path)}})
    with pytest.raises(StorageFailed, match=r"/lock: Read-only file system; mount it writable, or set") as raised:
        launch.run(settings, unopened, threading.Event(), "a")
    assert raised.value.retry


def test_a_full_disk_leaves_no_checkpoint_that_belongs_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one, a file can be made and then not be written."""

    def full(file: Path, text: str) -> None:
        file.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="No space left"), checkpoint.opened(str(tmp_path), "q"):
            pass
    for _ in range(2):
        with checkpoint.opened(str(tmp_path), "q"):
            pass
    with pytest.raises(CheckpointInUse, match="belongs to the query 'q'"), checkpoint.opened(str(tmp_path), "other"):
        pass


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe", b"{", b"[]", b'{"q": 1}', b"7", b"[" * 100_000],
    ids=["no text", "no JSON", "a list", "no query", "a number", "very deep"],
)
def test_a_checkpoint_whose_query_cannot_be_read_is_rejected_with_a_remedy(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "query.json").write_bytes(content)
    with (
        pytest.raises(CheckpointInUse, match=r"query.json that cannot be read; .* 'q', delete that file"),
        checkpoint.opened(str(tmp_path), "q"),
    ):
        pass
    (tmp_path / "query.json").unlink()
    with checkpoint.opened(str(tmp_path), "q"):
        pass


def test_an_owner_that_cannot_be_read_is_another_one(tmp_path: Path) -> None:
    (tmp_path / "owner").write_bytes(b"\xff\xfe")
    assert checkpoint.owner(str(tmp_path)) not in ("", "some lineage")
