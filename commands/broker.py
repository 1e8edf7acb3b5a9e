"""Run the command `broker`: an embedded Kafka."""

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
    port: Annotated[int, typer.Option(help="Port to listen on; 0 chooses a free one.")] = 9092,
    directory: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Directory of the data. Default: a temporary one, deleted at the end.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(help="Host name that clients use. With another than the default, Kafka listens on all addresses."),
    ] = LOOPBACK,
    replicated: Annotated[
        bool,
        typer.Option(
            "--replicated", help="Run three nodes, on this port and the next two; Kafka survives the loss of one."
        ),
    ] = False,
) -> None:
    """Prints the address. If Kafka ends, the command ends too; with --replicated, when the second node ends."""
    stop = stop_on_signals()
    with (EmbeddedCluster if replicated else EmbeddedBroker)(JARS, directory, host, port) as kafka:
        print(kafka.bootstrap_servers, flush=True)
        err.print(f"Kafka listens on {kafka.bootstrap_servers}; log file: {kafka.log}. Ctrl-C stops it.")
        known: list[EmbeddedBroker] = []
        while not stop.wait(0.5):
            ended = kafka.ended
            if not kafka.running():
                raise JobError(f"Kafka ended; the reason is in its log: {', '.join(str(node.log) for node in ended)}")
            for node in ended:
                if node not in known:
                    err.print(
                        f"The node at {node.bootstrap_servers} ended; log file: {node.log}. The others keep running."
                    )
            known = ended
