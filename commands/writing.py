"""The commands `produce`, `subscribe`, `unsubscribe`, `pause` and `resume`: write events and changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import orjson
import typer

from commands.shared.client import client_of, report, report_written
from commands.shared.flags import Answering, Ids, Json, answering, with_flags, with_settings
from commands.shared.inputs import ids_of, lines_of
from commands.shared.terminal import eprint, progress_of
from config import Settings
from streaming.client import WrittenChanges
from streaming.documents.subscriptions import Refused, parsed, read_change
from streaming.errors import JobError
from streaming.kafka import clients
from streaming.kafka.clients import Cluster
from streaming.kafka.event_topics import resolved
from streaming.text_format import plain

app = typer.Typer()


@app.command()
@with_settings
def produce(
    *,
    file: Annotated[
        Path | None, typer.Argument(help="JSON lines; standard input if left out.", show_default=False)
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Topic to write to, where there are several.", show_default=False)
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Most events per second.", show_default=False)] = None,
    as_json: Json = False,
    settings: Settings,
) -> None:
    cluster = Cluster.of(settings)
    names = resolved(settings, lambda: cluster.topics().partitions()).events.names
    if topic is None and len(names) > 1:
        raise typer.BadParameter(f"--topic: choose one of {', '.join(names)}")
    if topic is not None and topic not in names:
        raise typer.BadParameter(f"--topic: {topic} is none of the topics of events: {', '.join(names)}")
    lines = (line for _, line in lines_of(file))
    values = clients.paced(lines, rate) if rate else lines
    to = topic or names[0]
    with progress_of(f"events to {to}") as progress:
        written = clients.write(cluster, to, ((None, value) for value in values), progress)
    report_written(written, "events", to, as_json)


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
    records = (read(where, line) for where, line in lines)
    with client_of(settings) as client:
        _end(client.write(records, "subscriptions", answers=answers.wait), "subscriptions", settings, answers)


@app.command()
@with_flags(answers=answering)
@with_settings
def unsubscribe(
    *,
    ids: Ids = None,
    answers: Answering,
    settings: Settings,
) -> None:
    with client_of(settings) as client:
        withdrawals = ((id.encode(), None) for id in ids_of(ids))
        _end(client.write(withdrawals, "withdrawals", answers=answers.wait), "withdrawals", settings, answers)


@app.command()
@with_flags(answers=answering)
@with_settings
def pause(
    *,
    ids: Ids = None,
    answers: Answering,
    settings: Settings,
) -> None:
    with client_of(settings) as client:
        _end(client.pause(*ids_of(ids)), "pauses", settings, answers, "already paused")


@app.command()
@with_flags(answers=answering)
@with_settings
def resume(
    *,
    ids: Ids = None,
    answers: Answering,
    settings: Settings,
) -> None:
    with client_of(settings) as client:
        _end(client.resume(*ids_of(ids)), "resumptions", settings, answers, "not paused")


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


def _end(changes: WrittenChanges, what: str, settings: Settings, answers: Answering, why_not: str = "") -> None:
    """Report the changes and exit, with code 1 if the job refuses one."""
    for id in changes.unchanged:
        eprint(f"{plain(id)}: {why_not}; nothing was written")
    raise typer.Exit(1 if report(changes, what, settings, answers) else 0)
