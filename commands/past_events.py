"""The commands `replay` and `backtest`: past events, delivered again or matched with a pattern that nobody has yet."""

from __future__ import annotations

import time
from typing import Annotated

import orjson
import typer

from commands.shared.client import client_of
from commands.shared.flags import Json, with_settings_of_tenant
from commands.shared.signals import STOPPED, stop_on_signals
from commands.shared.terminal import emit, note, progress_of
from commands.shared.times import moment
from config import Settings
from streaming.admin.replay import NAME
from streaming.documents.subscriptions import parsed

app = typer.Typer()


@app.command()
@with_settings_of_tenant
def replay(
    *,
    subscription: Annotated[str, typer.Argument(help="Id of the subscription.")],
    start: Annotated[
        str | None,
        typer.Option("--from", help="A time with its zone, or how long ago: 90s, 30m, 2h, 7d.", show_default=False),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", help="End, written like --from; now if left out.", show_default=False)
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the replay: starts it, or resumes it.", show_default=False)
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Most events per second.", min=0.1, show_default=False)] = None,
    as_json: Json = False,
    settings: Settings,
) -> None:
    """From the first event at or after a time to before the first at or after another. Ctrl-C or SIGTERM stops it, with
    exit code 130; the same --name goes on where it stopped, whatever stopped it.
    """
    from_ms, to_ms = _range(start, end)
    if name is None and from_ms is None:
        raise typer.BadParameter("pass --from to start a replay, or --name to resume one")
    if name is not None and not NAME.fullmatch(name):
        raise typer.BadParameter("--name takes 1 to 100 letters, digits, dots, underscores or hyphens")
    stop = stop_on_signals()
    with client_of(settings) as client, client.replay(subscription, from_ms=from_ms, to_ms=to_ms, name=name) as opened:
        note(str(opened))
        with progress_of(f"of {opened.size:,} offsets", opened.size) as progress:
            summary = opened.run(stop, rate, progress)
    note(str(summary))
    if as_json:
        emit(summary, as_json)
    if not summary.finished:
        note(f"stopped; `replay {subscription} --name {summary.name}` resumes it")
    raise typer.Exit(0 if summary.finished else STOPPED)


@app.command()
@with_settings_of_tenant
def backtest(
    *,
    pattern: Annotated[str, typer.Argument(help="""Pattern: '{"symbol": ["IBM"]}'.""")],
    start: Annotated[
        str, typer.Option("--from", help="A time with its zone, or how long ago: 90s, 30m, 2h, 7d.")
    ] = "1h",
    end: Annotated[
        str | None, typer.Option("--to", help="End, written like --from; now if left out.", show_default=False)
    ] = None,
    examples: Annotated[int, typer.Option(help="Most events to show.", min=0)] = 3,
    as_json: Json = False,
    settings: Settings,
) -> None:
    """Print how many events match, in all and by time, and the first matches.

    It only reads the events topic and disturbs no job. Ctrl-C or SIGTERM ends it; it prints the result so far.
    """
    from_ms, to_ms = _range(start, end)
    assert from_ms is not None
    try:
        wanted = parsed(pattern.encode())
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(f"the pattern is not JSON: {error}") from None
    stop = stop_on_signals()
    with client_of(settings) as client:
        found = client.backtest(wanted, from_ms=from_ms, to_ms=to_ms, examples=examples, stop=stop)
    emit(found, as_json)
    if not found.finished:
        note("stopped before the end")
    raise typer.Exit(0 if found.finished else STOPPED)


def _range(start: str | None, end: str | None) -> tuple[int | None, int | None]:
    """The times of --from and --to, in milliseconds since the epoch. Raises BadParameter if they are out of order."""
    now_ms = int(time.time() * 1000)
    from_ms, to_ms = moment("--from", start, now_ms), moment("--to", end, now_ms)
    if from_ms is not None and from_ms >= (now_ms if to_ms is None else to_ms):
        raise typer.BadParameter(f"--from must be before {'now' if to_ms is None else '--to'}")
    return from_ms, to_ms
