"""The job as a process: `run`."""

from __future__ import annotations

import sys
import uuid
from typing import Annotated

import typer

from commands import JARS
from commands.flags import with_settings
from commands.signals import stop_on_signals
from config import Settings
from streaming import logs, supervision
from streaming.supervision import Past

app = typer.Typer()


@app.command()
@with_settings
def run(
    *,
    settings: Settings,
    supervised: Annotated[
        bool,
        typer.Option("--supervise", help="Start it again when it was killed, or the reason may pass."),
    ] = False,
    lineage: Annotated[str, typer.Option(hidden=True)] = "",  # what all that one supervisor starts have in common
    restarts: Annotated[int | None, typer.Option(hidden=True)] = None,  # by that supervisor
    last_exit_code: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """The continuous job: match events as they come, deliver them exactly once. Ctrl-C or SIGTERM stops it."""
    logs.configure(settings.log.format, settings.log.level)
    if supervised:
        same = [*(word for word in sys.argv if word != "--supervise"), "--lineage", uuid.uuid4().hex]

        def command(past: Past) -> list[str]:
            last = [] if past.exit_code is None else [f"--last-exit-code={past.exit_code}"]
            return [sys.executable, *same, f"--restarts={past.restarts}", *last]

        raise typer.Exit(supervision.supervise(command, stop_on_signals()))
    from streaming import job  # not in the supervisor: Spark's import takes a second, and memory

    past = None if restarts is None else Past(restarts, last_exit_code)
    job.run(settings, JARS, stop_on_signals(), lineage or uuid.uuid4().hex, past)
