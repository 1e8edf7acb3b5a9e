"""The command `broker`: an embedded Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from commands import JARS
from commands.shared.signals import stop_on_signals
from commands.shared.terminal import err
from rig.broker import LOOPBACK, EmbeddedBroker, EmbeddedCluster
from streaming.errors import JobError

app = typer.Typer()


@app.command()
def broker(
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 9092,
    directory: Annotated[
        Path | None,
        typer.Option(help="Directory for the data; without it, the data is deleted at the end.", show_default=False),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Host name for clients; with any other than the default, it listens on all addresses.")
    ] = LOOPBACK,
    replicated: Annotated[
        bool,
        typer.Option("--replicated", help="Run three nodes, on this port and the next two, of which one may end."),
    ] = False,
) -> None:
    """The command ends with Kafka; of three nodes, with the second that ends."""
    stop = stop_on_signals()
    with (EmbeddedCluster if replicated else EmbeddedBroker)(JARS, directory, host, port) as kafka:
        print(kafka.bootstrap_servers, flush=True)
        err.print(f"Kafka listens on {kafka.bootstrap_servers}; its log is {kafka.log}. Ctrl-C stops it.")
        known: list[EmbeddedBroker] = []
        while not stop.wait(0.5):
            ended = kafka.ended
            if not kafka.running():
                raise JobError(f"Kafka ended; its log is {', '.join(str(node.log) for node in ended)}")
            for node in ended:
                if node not in known:
                    err.print(f"The node at {node.bootstrap_servers} ended; its log is {node.log}. The others go on.")
            known = ended
