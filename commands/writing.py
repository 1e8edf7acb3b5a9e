"""The commands `produce`, `subscribe`, `unsubscribe`, `pause` and `resume`: write events and changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import orjson
import typer

from commands.shared.flags import Answering, Ids, Json, answering, with_flags, with_settings
from commands.shared.inputs import ids_of, lines_of
from commands.shared.records import changed, decisions, subscriptions_topic, write
from commands.shared.terminal import eprint
from config import Settings
from streaming.admin.pause import changed as changed_documents
from streaming.admin.subscription_topic import last_written
from streaming.documents.subscriptions import Refused, parsed, read_change
from streaming.errors import JobError
from streaming.kafka import clients
from streaming.text_format import plain

app = typer.Typer()


@app.command()
@with_settings
def produce(
    *,
    file: Annotated[
        Path | None, typer.Argument(help="JSON lines; standard input if left out.", show_default=False)
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Most events per second.", show_default=False)] = None,
    as_json: Json = False,
    settings: Settings,
) -> None:
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
    subscriber: Annotated[str | None, typer.Option(help="Name of the subscriber.", show_default=False)] = None,
    pattern: Annotated[str | None, typer.Option(help="""Pattern: '{"symbol": ["IBM"]}' """, show_default=False)] = None,
    answers: Answering,
    settings: Settings,
) -> None:
    """The command stops at the first subscription that the job would refuse. With --wait the job decides: a refusal
    does not stop the others, and the exit code is 1.
    """
    if id or subscriber or pattern:
        if not (id and subscriber and pattern):
            raise typer.BadParameter("a single subscription needs all of --id, --subscriber and --pattern")
        try:
            document = {"id": id, "subscriber": subscriber, "pattern": parsed(pattern)}
        except orjson.JSONDecodeError as error:
            raise typer.BadParameter(f"--pattern is not JSON: {error}") from None
        lines: Iterator[tuple[str, bytes]] = iter([("subscription", json.dumps(document).encode())])
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
    _flag(settings, ids, False, answers)


def _checked(where: str, line: bytes) -> tuple[bytes, bytes]:
    """Key and value of a valid subscription. Raises JobError for one that the job would refuse."""
    try:
        return read_change(None, line).subscription.id.encode(), line
    except Refused as error:
        raise JobError(f"{where}: {error}") from None


def _addressed(where: str, line: bytes) -> tuple[bytes, bytes]:
    """Key and value; a document with an id is not checked here, since the job will."""
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        document = None
    id = document.get("id") if isinstance(document, dict) else None
    return (id.encode(), line) if isinstance(id, str) and id else _checked(where, line)


def _flag(settings: Settings, values: list[str] | None, pause: bool, answers: Answering) -> None:
    """Pause or resume."""
    ids = dict.fromkeys(ids_of(values))
    subscriptions = last_written(subscriptions_topic(settings)(), ids, decisions(settings))
    records = changed_documents(subscriptions, ids, pause)
    for id in (id for id in ids if id not in records):
        eprint(f"{plain(id)}: {'already paused' if pause else 'not paused'}; nothing was written")
    _change(settings, records.values(), "pauses" if pause else "resumptions", answers)


def _change(settings: Settings, records: Iterable[clients.Writable], what: str, answers: Answering) -> None:
    """Write the changes and exit, with code 1 if the job refuses one."""
    raise typer.Exit(1 if changed(settings, records, what, answers) else 0)
