"""The whole system at work on real events: `demo`."""

from __future__ import annotations

import json
import signal
import sys
from typing import Annotated

import typer
from rich.console import Console

from commands import HOME, JARS
from commands.flags import Json
from examples import demo as show_case

app = typer.Typer()


@app.command()
def demo(
    events: Annotated[int, typer.Option(help="How many events to send.", min=1)] = 6_000,
    rate: Annotated[int, typer.Option(help="Events a second.", min=1)] = 1_000,
    algorithm: Annotated[str, typer.Option(help="Matching algorithm.")] = "scan",
    pull_the_plug: Annotated[
        bool, typer.Option("--pull-the-plug", help="Kill the job (kill -9) amid the events, and start it again.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Real stock events through a real Kafka and the real job; checks that every delivery came exactly once."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # by way of all that it has to stop
    summary = show_case.run(HOME, JARS, events, rate, algorithm, pull_the_plug, Console(stderr=as_json))
    if as_json:
        print(json.dumps(summary))
    raise typer.Exit(0 if summary["missing"] == summary["duplicated"] == 0 else 1)
