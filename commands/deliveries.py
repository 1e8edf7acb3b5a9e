"""Deliveries, as a subscriber gets them: `consume` and `tap`."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import Annotated, Any

import orjson
import typer
from rich.text import Text

from commands.flags import Json, with_settings
from commands.signals import stop_on_signals
from commands.terminal import out, tell
from config import Settings
from streaming.receiving import Delivery, received

TAP_STYLES = ("dim", "green", "cyan", "bold", "")  # of a line's parts
app = typer.Typer()


@app.command()
@with_settings
def consume(
    subscriber: Annotated[str, typer.Argument(help="Whose deliveries.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as new ones come, until Ctrl-C.")] = False,
    count: Annotated[int | None, typer.Option("--count", "-n", help="Stop after so many.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With headers and offset, a JSON object a line.")] = False,
    *,
    settings: Settings,
) -> None:
    """Print what a subscriber was delivered, an event a line, from the first on."""
    stop = stop_on_signals() if follow else threading.Event()
    seen = 0
    for message in received(settings, subscriber, follow=follow):
        if stop.is_set():
            break
        if message is None:
            continue
        print(_as_json(message) if as_json else _text(message.value()), flush=follow)
        seen += 1
        if seen == count:
            break


@app.command()
@with_settings
def tap(
    subscriber: Annotated[str, typer.Argument(help="Whose deliveries.")],
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Those before now too.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", help="Stop after so many.", min=1, show_default=False)
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Stop after so many seconds.", min=0, show_default=False)
    ] = None,
    as_json: Json = False,
    *,
    settings: Settings,
) -> None:
    """Watch deliveries as they come: when, how late, matched by which version and subscriptions, and the event.

    How late is from the event's own time (`ce_time`) to when its delivery was written. Ctrl-C ends it. Exit code 1 if
    --timeout came before --limit.
    """
    stop = stop_on_signals()
    ends = None if timeout is None else time.monotonic() + timeout
    seen, late = 0, False
    found = received(settings, subscriber, follow=True, from_now=not from_beginning)
    tell(f"watching deliveries of {subscriber}; Ctrl-C ends it")
    for message in found:
        if stop.is_set() or seen == limit or (late := ends is not None and time.monotonic() > ends):
            break
        if message is None:
            continue
        delivery = Delivery.of(message)
        if as_json:
            print(orjson.dumps(delivery.as_data()).decode(), flush=True)
        else:
            width = shutil.get_terminal_size().columns if out.is_terminal else sys.maxsize  # it may have changed
            out.print(Text("  ").join(map(Text, delivery.parts(width), TAP_STYLES)))
            sys.stdout.flush()
        seen += 1
    raise typer.Exit(1 if late and limit is not None else 0)


def _as_json(message: Any) -> str:
    headers = {k: (v or b"").decode(errors="replace") for k, v in message.headers() or ()}
    document = {
        "partition": message.partition(),
        "offset": message.offset(),
        "key": _text(message.key()),
        "headers": headers,
        "value": _text(message.value()),
    }
    return orjson.dumps(document).decode()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")
