"""Run the command `run`: the job as a process."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commands import HOME, JARS
from commands.shared.flags import SUBMITTED, with_settings
from commands.shared.signals import stop_on_signals
from config import Settings
from streaming.errors import JobError
from streaming.log import error_fields, logger
from streaming.monitoring import logs
from streaming.process import checkpoint, open_files, supervision
from streaming.process.fork_server import ForkServer
from streaming.process.supervision import RestartHistory, Started
from streaming.version import VERSION
from streaming.worker.starting import preloaded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

app = typer.Typer()
log = logger("sluice.process")


@app.command()
@with_settings
def run(
    *,
    settings: Settings,
    supervised: Annotated[
        bool,
        typer.Option("--supervise", help="Restart the job if it is killed or fails temporarily."),
    ] = False,
    standby: Annotated[
        bool,
        typer.Option(
            "--standby",
            help="While another job runs on the checkpoint, load everything and wait; run when it ends. With "
            "--supervise, keep a second process that does so.",
        ),
    ] = False,
    lineage: Annotated[str, typer.Option(hidden=True)] = "",  # shared by all processes that one supervisor starts
    restarts: Annotated[int | None, typer.Option(hidden=True)] = None,  # by that supervisor
    last_exit_code: Annotated[int | None, typer.Option(hidden=True)] = None,
    progress: Annotated[int | None, typer.Option(hidden=True)] = None,  # a file descriptor
) -> None:
    """Exit code 0 after a stop, 75 after a temporary failure (a restart may help), 1 or 2 after one that needs a
    correction. Under spark-submit the job uses the session of spark-submit.
    """
    began = time.monotonic()
    query = settings.query.name
    logs.configure(settings.log.format, settings.log.level, query)
    log.info(
        "process_started", role="supervisor" if supervised else "job", query=query, version=VERSION, pid=os.getpid()
    )
    submitted = SUBMITTED in os.environ
    if supervised and submitted:
        raise JobError(
            "--supervise cannot be used under spark-submit: the cluster restarts the job (spark.yarn.maxAppAttempts, a "
            "Kubernetes job). Exit code 75 means that a restart may help"
        )
    if supervised:
        code = _supervise(partial(checkpoint.obstacle, settings.query.checkpoint), processes=2 if standby else 1)
        log.info("process_exited", exit_code=code, uptime_s=round(time.monotonic() - began, 1))
        raise typer.Exit(code)
    from streaming.driver import launch, session  # not in the supervisor: Spark's import takes a second, and memory

    open_files.raise_limit()
    past = None if restarts is None else RestartHistory(restarts, last_exit_code, progress)
    lineage, stop, jars = lineage or uuid.uuid4().hex, stop_on_signals(), JARS / "spark"
    with ExitStack() as stack:

        def own(scratch: Path) -> AbstractContextManager[SparkSession]:
            served = preloaded.served(settings.spark.master, settings.spark.options)
            return session.own(settings, jars, scratch, stack.enter_context(served))

        opens = partial(session.submitted, settings) if submitted else own
        try:
            launch.run(settings, opens, stop, lineage, past, stands_by=standby, give_up=session.end_jvm)
        except Exception as error:
            log.error("job_failed", **error_fields(error), uptime_s=round(time.monotonic() - began, 1))
            raise
    session.keep_class_archive(jars)
    log.info("process_exited", exit_code=0, uptime_s=round(time.monotonic() - began, 1))


def _supervise(obstacle: Callable[[], str], processes: int) -> int:
    """Run so many processes of this command; returns an exit code."""
    same = [*(word for word in sys.argv if word != "--supervise"), "--lineage", uuid.uuid4().hex]
    path = os.pathsep.join([str(HOME), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**preloaded.ENVIRONMENT, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}  # modules of ours alone
    server = ForkServer("commands.loaded", _run, environment)

    def command(past: RestartHistory) -> list[str]:
        last = [] if past.exit_code is None else [f"--last-exit-code={past.exit_code}"]
        return [*same, f"--restarts={past.restarts}", *last]

    def start(past: RestartHistory, progress: int) -> Started:
        return supervision.executed([sys.executable, *command(past), f"--progress={progress}"], progress)

    def fork(past: RestartHistory, progress: int) -> Started:
        if server.is_ready:
            with suppress(OSError, EOFError):
                return server.start(command(past), progress)
        return start(past, progress)

    prepare = server.load if sys.platform == "linux" else lambda: None
    return supervision.supervise(start, stop_on_signals(), obstacle, processes, fork, prepare)


def _run(command: list[str]) -> None:
    """Run this command in a forked process."""
    import run_stream

    sys.argv = command
    run_stream.main()
