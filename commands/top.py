"""Run the command `top`: watch a running job."""

from __future__ import annotations

import json
import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live

from commands.shared.flags import with_settings
from commands.shared.signals import stop_on_signals
from commands.shared.terminal import note, out
from config import Settings
from streaming.errors import JobError, NotRunning
from streaming.monitoring.top import poll, render
from streaming.process import checkpoint

if TYPE_CHECKING:
    from streaming.monitoring.status import Document

app = typer.Typer()


@app.command()
@with_settings
def top(
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Address of the job, such as http://127.0.0.1:8080. Default: the address in the checkpoint.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between refreshes.", min=0.1, max=86_400)] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print once and exit; implied without a terminal.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per refresh on standard output.")
    ] = False,
    *,
    settings: Settings,
) -> None:
    """Reads /status.json at --url, or at the address in the checkpoint's file `monitoring`, and finds a restarted job
    again. Exit code 75 if no job answers at first.
    """
    if url is not None and not url.startswith(("http://", "https://")):
        raise typer.BadParameter("--url must be http://HOST:PORT, as the log shows it when the job runs")
    stop = stop_on_signals()
    documents = poll(lambda: url or checkpoint.announcement(settings.query.checkpoint), every, stop)
    first = next(documents)
    if as_json:
        for document in chain([first], () if once else documents):
            if isinstance(document, JobError):
                note(str(document))
            else:
                print(json.dumps(document), flush=True)
    elif once or not out.is_terminal:
        out.print(render(first), soft_wrap=False)
    else:
        last: Document | NotRunning = first
        with _keys(stop), Live(render(first), console=Console(), auto_refresh=False, screen=True) as live:
            for last in documents:
                live.update(render(last), refresh=True)
        out.print(render(last), soft_wrap=False)  # the screen is restored; leave the last state below it


@contextmanager
def _keys(stop: threading.Event) -> Iterator[None]:
    """Stop on `q`; keys are not echoed."""
    if sys.stdin is None or not os.isatty(keyboard := sys.stdin.fileno()):  # it may be closed
        yield
        return

    def listen() -> None:
        while not stop.is_set():
            ready, _, _ = select.select([keyboard], [], [], 0.2)
            key = os.read(keyboard, 1) if ready else None
            if key == b"q":
                stop.set()
            elif key == b"":  # standard input was closed
                return

    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    listening = threading.Thread(target=listen)
    listening.start()
    try:
        yield
    finally:
        stop.set()
        listening.join()
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
