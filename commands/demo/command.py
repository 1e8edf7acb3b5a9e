"""Run the command `demo`."""

from __future__ import annotations

import json
import signal
import sys
from typing import Annotated

import typer
from rich.console import Console

from commands.demo import show
from commands.shared.flags import Json

app = typer.Typer()


@app.command()
def demo(
    events: Annotated[int, typer.Option(help="Number of events to send.", min=1)] = 6_000,
    rate: Annotated[int, typer.Option(help="Events per second.", min=1)] = 1_000,
    algorithm: Annotated[str, typer.Option(help="Matching algorithm.")] = "auto",
    pull_the_plug: Annotated[
        bool, typer.Option("--pull-the-plug", help="Kill the job (kill -9) halfway, and restart it.")
    ] = False,
    as_json: Json = False,
) -> None:
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # ends the context managers, which stop the processes
    summary = show.run(events, rate, algorithm, pull_the_plug, Console(stderr=as_json))
    if as_json:
        print(json.dumps(summary))
    raise typer.Exit(0 if summary["missing"] == summary["duplicated"] == 0 else 1)
