"""Write events and changes of subscriptions: `produce`, `subscribe`, `unsubscribe`, `pause` and `resume`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import orjson
import typer

from commands.flags import Answering, Ids, Json, answering, with_flags, with_settings
from commands.given import ids_of, lines_of
from commands.records import changed, subscriptions_topic, write
from commands.terminal import say
from config import Settings
from offline.documents import plain
from streaming import clients, pausing
from streaming.errors import JobError
from streaming.registered import last_written
from streaming.subscriptions import Refused, read_change

app = typer.Typer()


@app.command()
@with_settings
def produce(
    *,
    file: Annotated[
        Path | None, typer.Argument(help="JSON lines; standard input if left out.", show_default=False)
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Events a second at most.", show_default=False)] = None,
    as_json: Json = False,
    settings: Settings,
) -> None:
    """Write events, a JSON object a line, to the events topic."""
    lines = (line for _, line in lines_of(file))
    values = clients.paced(lines, rate) if rate else lines
    write(settings, settings.events.topic, ((None, value) for value in values), "events", as_json)


@app.command()
@with_flags(answers=answering)
@with_settings
def subscribe(
    *,
    file: Annotated[
        Path | None, typer.Argument(help="Subscriptions as JSON lines; standard input if left out.", show_default=False)
    ] = None,
    id: Annotated[str | None, typer.Option(help="Id, to write one subscription by flags.", show_default=False)] = None,
    subscriber: Annotated[str | None, typer.Option(help="Who gets what it matches.", show_default=False)] = None,
    pattern: Annotated[
        str | None, typer.Option(help="""What it matches: '{"symbol": ["IBM"]}' """, show_default=False)
    ] = None,
    answers: Answering,
    settings: Settings,
) -> None:
    """Add or replace subscriptions: one by --id, --subscriber and --pattern, or many as JSON lines.

    The first that the job would refuse ends it. With --wait the job is asked: one that it refuses stops no other, and
    the exit code is 1.
    """
    if id or subscriber or pattern:
        if not (id and subscriber and pattern):
            raise typer.BadParameter("one subscription takes --id, --subscriber and --pattern")
        try:
            document = {"id": id, "subscriber": subscriber, "pattern": orjson.loads(pattern)}
        except orjson.JSONDecodeError as error:
            raise typer.BadParameter(f"--pattern is not JSON: {error}") from None
        lines: Iterator[tuple[str, bytes]] = iter([("subscription", orjson.dumps(document))])
    else:
        lines = lines_of(file)
    read = _addressed if answers.wait else _checked
    _change(settings, (read(where, line) for where, line in lines), "subscriptions", answers)


@app.command()
@with_flags(answers=answering)
@with_settings
def unsubscribe(
    *,
    ids: Ids = None,
    answers: Answering,
    settings: Settings,
) -> None:
    """Withdraw subscriptions by id."""
    _change(settings, ((id.encode(), None) for id in ids_of(ids)), "withdrawals", answers)


@app.command()
@with_flags(answers=answering)
@with_settings
def pause(
    *,
    ids: Ids = None,
    answers: Answering,
    settings: Settings,
) -> None:
    """Let subscriptions match nothing until they are resumed; they stay registered."""
    _flag(settings, ids, True, answers)


@app.command()
@with_flags(answers=answering)
@with_settings
def resume(
    *,
    ids: Ids = None,
    answers: Answering,
    settings: Settings,
) -> None:
    """Let paused subscriptions match again."""
    _flag(settings, ids, False, answers)


def _checked(where: str, line: bytes) -> tuple[bytes, bytes]:
    """A subscription that the job would refuse is refused here already."""
    try:
        return read_change(None, line).subscription.id.encode(), line
    except Refused as error:
        raise JobError(f"{where}: {error}") from None


def _addressed(where: str, line: bytes) -> tuple[bytes, bytes]:
    """What has an id is for the job to judge."""
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        document = None
    id = document.get("id") if isinstance(document, dict) else None
    return (id.encode(), line) if isinstance(id, str) and id else _checked(where, line)


def _flag(settings: Settings, given: list[str] | None, pause: bool, answers: Answering) -> None:
    """Pause or resume."""
    ids = dict.fromkeys(ids_of(given))
    found = last_written(subscriptions_topic(settings)(), ids)
    records = pausing.changed(found, ids, pause)
    for id in (id for id in ids if id not in records):
        say(f"{plain(id)}: is {'paused already' if pause else 'not paused'}; nothing was written")
    _change(settings, records.values(), "pauses" if pause else "resumptions", answers)


def _change(settings: Settings, records: Iterable[clients.Writable], what: str, answers: Answering) -> None:
    """Exit code 1 if the job refuses one."""
    raise typer.Exit(1 if changed(settings, records, what, answers) else 0)
