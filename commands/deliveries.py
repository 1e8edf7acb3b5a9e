"""Run the commands `consume` and `tap`: print a subscriber's deliveries."""

from __future__ import annotations

import shutil
import sys
import time
from itertools import islice
from typing import Annotated

import orjson
import typer
from rich.text import Text

from commands.shared.client import client_of
from commands.shared.flags import MOST_RECORDS, Json, with_settings
from commands.shared.signals import STOPPED, stop_on_signals
from commands.shared.terminal import note, out
from config import Settings
from streaming.admin import delivery_view
from streaming.client import Delivery
from streaming.text_format import as_text_or_base64

POLL_S = 0.1
TAP_STYLES = ("dim", "green", "cyan", "bold", "")  # of a line's parts
app = typer.Typer()


@app.command()
@with_settings
def consume(
    subscriber: Annotated[str, typer.Argument(help="Name of the subscriber.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for further deliveries, until Ctrl-C.")] = False,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", min=1, max=MOST_RECORDS, help="Stop after N deliveries.", show_default=False),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line, with headers and offset.")
    ] = False,
    *,
    settings: Settings,
) -> None:
    """Prints the events of the deliveries as they are. In JSON, one that is no text has `value_base64` for
    `value`. Exit code 130 if a signal comes before --count.
    """
    stop = stop_on_signals() if follow else None
    left = count
    with client_of(settings) as client:
        for delivery in islice(client.deliveries(subscriber, follow=follow, stop=stop), count):
            sys.stdout.buffer.write((_as_json(delivery) if as_json else delivery.event or b"") + b"\n")
            if follow:
                sys.stdout.flush()
            left = None if left is None else left - 1
    raise typer.Exit(STOPPED if left and stop is not None and stop.is_set() else 0)


@app.command()
@with_settings
def tap(
    subscriber: Annotated[str, typer.Argument(help="Name of the subscriber.")],
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start with the first stored delivery.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", help="Stop after N deliveries.", min=1, max=MOST_RECORDS, show_default=False),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Stop after this many seconds.", min=0, show_default=False)
    ] = None,
    as_json: Json = False,
    *,
    settings: Settings,
) -> None:
    """The delay is from the event's own time (`ce_time`) to the time of the delivery. Ctrl-C ends the command. Exit
    code 1 if --timeout comes before --limit, 130 if a signal does.
    """
    stop = stop_on_signals()
    ends = None if timeout is None else time.monotonic() + timeout
    seen, late = 0, False
    with client_of(settings) as client:
        deliveries = client.deliveries(subscriber, from_now=not from_beginning)
        note(f"watching deliveries of {subscriber}; Ctrl-C ends it")
        while not (stop.is_set() or seen == limit or (late := ends is not None and time.monotonic() > ends)):
            if (delivery := deliveries.poll(POLL_S)) is None:
                continue
            if as_json:
                print(orjson.dumps(delivery.as_data()).decode(), flush=True)
            else:
                width = shutil.get_terminal_size().columns if out.is_terminal else sys.maxsize  # it may have changed
                out.print(Text("  ").join(map(Text, delivery_view.parts(delivery, width), TAP_STYLES)))
                sys.stdout.flush()
            seen += 1
    is_stopped = stop.is_set() and seen != limit
    raise typer.Exit(0 if limit is None else 1 if late else STOPPED if is_stopped else 0)


def _as_json(delivery: Delivery) -> bytes:
    headers = {name: (value or b"").decode(errors="replace") for name, value in delivery.headers}
    document = {
        "partition": delivery.partition,
        "offset": delivery.offset,
        **as_text_or_base64("key", delivery.key),
        "headers": headers,
        **as_text_or_base64("value", delivery.event),
    }
    return orjson.dumps(document)
