"""Run the command `jars`: fetch the pinned jars."""

from __future__ import annotations

from typing import Annotated

import typer

from commands import HOME, JARS
from commands.shared.terminal import note
from streaming.process import jars as pinned_jars

app = typer.Typer()


@app.command()
def jars(
    name: Annotated[
        pinned_jars.SetName,
        typer.Argument(
            help="job: Spark's Kafka connector and the embedded Kafka. s3: checkpoints at s3a:// URLs. "
            "rivals: Kafka Streams and Flink, for `bench system`."
        ),
    ] = "job",
) -> None:
    """In a checkout `make setup`, `make s3` and `make rivals` do it."""
    chosen = pinned_jars.SETS[name]
    note(f"fetching {len([*pinned_jars.pinned(HOME / 'config' / chosen.pins)])} jars")
    pinned_jars.fetch(chosen, HOME / "config", JARS)
    note(f"the jars are in {', '.join(str(JARS / directory) for directory in chosen.directories)}")
