"""A job whose JVM or workers are killed during its start recovers by itself."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rig.job import JobProcess
from rig.processes import Process, ended, kill
from tests.integration.conftest import CommandLine
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def launchers(job: JobProcess) -> list[Process]:
    """The processes that work out the command line of the JVM for spark-submit."""
    return [p for p in job.tree().everything if "org.apache.spark.launcher.Main" in p.command]


def jvms(job: JobProcess) -> list[Process]:
    return job.tree().jvms


def daemons(job: JobProcess) -> list[Process]:
    return job.tree().daemons


def workers(job: JobProcess) -> list[Process]:
    return job.tree().workers


def appeared(of: Callable[[JobProcess], list[Process]], job: JobProcess) -> bool:
    """Return whether there are some, or were: a launcher lives for less than a second."""
    return bool(of(job) or (of is launchers and jvms(job)))


@pytest.mark.parametrize(
    "kills",
    [
        [(launchers, 0.0), (jvms, 0.0), (jvms, 0.5), (jvms, 1.0), (jvms, 2.0), (daemons, 0.0)],
        [(workers, 0.0)],
    ],
    ids=["JVMs at once and later, and at last the daemon", "workers"],
)
def test_what_is_killed_while_it_starts_is_started_again(
    sluice: CommandLine, tmp_path: Path, kills: list[tuple[Callable[[JobProcess], list[Process]], float]]
) -> None:
    """`kills`: which processes, and how many seconds after they appear."""
    sluice("topics", "create")
    with (
        tempfile.TemporaryDirectory(prefix="sluice-") as scratch,  # tmp_path is too long for sockets
        JobProcess(sluice.flags(), tmp_path / "log", supervised=True, scratch=Path(scratch)) as job,
    ):
        for of, after_s in kills:
            job.wait_for(f"starting {of.__name__}", partial(appeared, of, job), PATIENCE_S)
            killed = of(job)
            time.sleep(after_s)
            kill(killed)
            assert ended(killed, PATIENCE_S)
        job.wait_until_running(PATIENCE_S)
        ends = [line["exit_code"] for line in job.lines("job_restarted")]
        of_jvms = sum(of is jvms for of, _ in kills)
        assert ends == [75] * of_jvms  # for others the job itself does it again
        assert job.stopped() == 0
