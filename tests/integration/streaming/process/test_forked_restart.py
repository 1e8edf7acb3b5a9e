"""A supervised job that is killed is forked from a process that has loaded its code meanwhile."""

from __future__ import annotations

import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from rig.job import JobProcess
from rig.processes import ended, kill, of_pid
from tests.integration.conftest import CommandLine
from tests.integration.running import records
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="jobs are forked there only")


def has_logged(job: JobProcess, event: str, times: int) -> bool:
    return len(job.lines(event)) >= times


def has_delivered(kafka: str, topic: str, count: int) -> bool:
    return len(records(kafka, topic)) == count


def test_a_killed_job_is_forked_and_delivers(sluice: CommandLine, kafka: str, tmp_path: Path) -> None:
    sluice("topics", "create")
    with (
        tempfile.TemporaryDirectory(prefix="sluice-") as scratch,  # tmp_path is too long for sockets
        JobProcess(sluice.flags(), tmp_path / "log", supervised=True, scratch=Path(scratch)) as job,
    ):
        job.wait_until_running(PATIENCE_S)
        job.wait_for("prepared", partial(has_logged, job, "restart_prepared", 1), PATIENCE_S)
        (server,) = job.tree().fork_servers
        for restarts in (1, 2):
            (driver,) = job.tree().drivers
            kill([driver])
            job.wait_for("running", partial(has_logged, job, "job_started", restarts + 1), PATIENCE_S)
            (driver,) = job.tree().drivers
            assert driver.parent == server.pid
            assert f"\0--restarts={restarts}\0" in driver.command
            sluice("subscribe", "--id", f"{restarts}", "--subscriber", "alice", "--pattern", '{"n": [1]}', "--wait")
            sluice("produce", stdin='{"n": 1}\n')
            job.wait_for("delivered", partial(has_delivered, kafka, f"{sluice.name}.to.alice", restarts), PATIENCE_S)
            daemons, workers = job.tree().daemons, job.tree().workers
            assert {worker.parent for worker in workers} == {daemon.pid for daemon in daemons}
        assert [line["exit_code"] for line in job.lines("job_restarted")] == [-9, -9]
        everything = job.tree().everything
        assert job.stopped() == 0
        assert ended(everything, PATIENCE_S)


def test_a_standby_outlives_the_process_from_which_the_job_was_forked(
    sluice: CommandLine, kafka: str, tmp_path: Path
) -> None:
    sluice("topics", "create")
    with (
        tempfile.TemporaryDirectory(prefix="sluice-") as scratch,  # tmp_path is too long for sockets
        JobProcess(sluice.flags(), tmp_path / "log", supervised=True, stands_by=True, scratch=Path(scratch)) as job,
    ):
        job.wait_for("ready", partial(has_logged, job, "standby_ready", 1), PATIENCE_S)
        job.wait_for("prepared", partial(has_logged, job, "restart_prepared", 1), PATIENCE_S)
        supervisor = of_pid(job.pid)
        assert supervisor is not None
        supervisor.send(signal.SIGSTOP)
        kill(job.tree().drivers)
        supervisor.send(signal.SIGCONT)
        job.wait_for("running again", partial(has_logged, job, "job_started", 2), PATIENCE_S)
        job.wait_for("ready", partial(has_logged, job, "standby_ready", 2), PATIENCE_S)
        parents = {driver.pid: driver.parent for driver in job.tree().drivers}
        (server,) = job.tree().fork_servers
        assert parents.pop(job.lines("job_started")[-1]["pid"]) == server.pid
        (standby,) = parents
        assert parents == {standby: job.pid}
        sluice("subscribe", "--id", "s", "--subscriber", "alice", "--pattern", '{"n": [1]}', "--wait")
        kill([server])
        job.wait_for("taken over", partial(has_logged, job, "job_started", 3), PATIENCE_S)
        assert job.lines("job_started")[-1]["pid"] == standby
        sluice("produce", stdin='{"n": 1}\n')
        job.wait_for("delivered", partial(has_delivered, kafka, f"{sluice.name}.to.alice", 1), PATIENCE_S)
        job.wait_for("ready again", partial(has_logged, job, "standby_ready", 3), PATIENCE_S)
        assert job.stopped() == 0
