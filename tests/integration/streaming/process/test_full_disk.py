"""A job on a full disk: its supervisor waits, and starts it as soon as there is room."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from rig.job import JobProcess
from tests.integration.conftest import CommandLine
from tests.support.disk import Disk
from tests.support.patience import PATIENCE_S

ENDED = "job_blocked"


def test_a_job_that_finds_its_disk_full_starts_once_there_is_room(sluice: CommandLine, tmp_path: Path) -> None:
    sluice("topics", "create")
    with (
        tempfile.TemporaryDirectory(prefix="sluice-") as scratch,  # tmp_path is too long for sockets
        Disk(tmp_path / "disk", 64) as disk,
    ):
        if not disk.mounted:
            pytest.skip("this machine lets us mount no file system")
        disk.fill()
        flags = {**sluice.flags(), "query.checkpoint": str(disk.path / "checkpoint")}
        with JobProcess(flags, tmp_path / "log", supervised=True, scratch=Path(scratch)) as job:
            job.wait_for("waiting", lambda: bool(job.lines(ENDED)), PATIENCE_S)
            assert "No space left on device; make room there" in job.lines(ENDED)[0]["obstacle"]
            disk.free()
            job.wait_until_running(PATIENCE_S)
            assert len(job.lines(ENDED)) == len(job.lines("job_unblocked")) == 1
            assert job.stopped() == 0
