"""The command `run`: the job as a process."""

from __future__ import annotations

import os
import sys
import uuid
from functools import partial
from typing import Annotated

import typer

from commands import JARS
from commands.shared.flags import SUBMITTED, with_settings
from commands.shared.signals import stop_on_signals
from config import Settings
from streaming.errors import JobError
from streaming.monitoring import logs
from streaming.process import checkpoint, supervision
from streaming.process.supervision import RestartHistory

app = typer.Typer()


@app.command()
@with_settings
def run(
    *,
    settings: Settings,
    supervised: Annotated[
        bool,
        typer.Option("--supervise", help="Restart the job if it is killed or ends for a temporary reason."),
    ] = False,
    lineage: Annotated[str, typer.Option(hidden=True)] = "",  # shared by all processes that one supervisor starts
    restarts: Annotated[int | None, typer.Option(hidden=True)] = None,  # by that supervisor
    last_exit_code: Annotated[int | None, typer.Option(hidden=True)] = None,
    progress: Annotated[int | None, typer.Option(hidden=True)] = None,  # a file descriptor
) -> None:
    logs.configure(settings.log.format, settings.log.level)
    submitted = SUBMITTED in os.environ
    if supervised and submitted:
        raise JobError(
            "--supervise: under spark-submit the cluster starts the job again (spark.yarn.maxAppAttempts, a Kubernetes "
            "job); exit code 75 says that another try may succeed"
        )
    if supervised:
        same = [*(word for word in sys.argv if word != "--supervise"), "--lineage", uuid.uuid4().hex]

        def command(past: RestartHistory) -> list[str]:
            last = [] if past.exit_code is None else [f"--last-exit-code={past.exit_code}"]
            return [sys.executable, *same, f"--restarts={past.restarts}", f"--progress={past.progress}", *last]

        raise typer.Exit(
            supervision.supervise(command, stop_on_signals(), partial(checkpoint.obstacle, settings.query.checkpoint))
        )
    from streaming.driver import launch, session  # not in the supervisor: Spark's import takes a second, and memory

    past = None if restarts is None else RestartHistory(restarts, last_exit_code, progress)
    jars = JARS / "spark"
    opens = partial(session.submitted, settings) if submitted else partial(session.own, settings, jars)
    launch.run(settings, opens, stop_on_signals(), lineage or uuid.uuid4().hex, past)
    session.keep_class_archive(jars)
