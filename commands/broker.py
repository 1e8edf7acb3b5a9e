"""A Kafka to try things with: `broker`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from commands import JARS
from commands.signals import stop_on_signals
from commands.terminal import err
from streaming.broker import LOOPBACK, EmbeddedBroker
from streaming.errors import JobError

app = typer.Typer()


@app.command()
def broker(
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 9092,
    directory: Annotated[
        Path | None, typer.Option(help="Where data is kept; without it, it is gone at the end.", show_default=False)
    ] = None,
    host: Annotated[
        str, typer.Option(help="Name by which clients reach it; other than this, it listens everywhere.")
    ] = LOOPBACK,
) -> None:
    """An embedded Kafka of one node, alone, until Ctrl-C."""
    stop = stop_on_signals()
    with EmbeddedBroker(JARS, directory, host, port) as kafka:
        print(kafka.bootstrap_servers, flush=True)
        err.print(f"Kafka listens on {kafka.bootstrap_servers}; its log is {kafka.log}. Ctrl-C stops it.")
        while not stop.wait(0.5):
            if not kafka.running():
                raise JobError(f"Kafka ended by itself; its log is {kafka.log}")
