"""Run the commands `produce`, `subscribe`, `unsubscribe`, `pause` and `resume`: write events and changes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import orjson
import typer

from commands.shared.client import client_of, deliver_all_past, report, report_written
from commands.shared.flags import (
    MOST_EVENTS_PER_SECOND,
    Answering,
    Ids,
    Json,
    answering,
    with_flags,
    with_settings,
    with_settings_of_tenant,
)
from commands.shared.inputs import ids_of, lines_of
from commands.shared.signals import STOPPED
from commands.shared.terminal import eprint, progress_of
from commands.shared.times import start_of
from config import Settings
from streaming import tenants
from streaming.admin.start_position import GOES_ON
from streaming.client import Unanswered, WrittenChanges
from streaming.documents.subscriptions import Rejected, parsed, read_change
from streaming.errors import JobError
from streaming.kafka import clients
from streaming.kafka.clients import Cluster
from streaming.kafka.event_topics import resolved
from streaming.tenants import Tenant
from streaming.text_format import plain

app = typer.Typer()

Rate = Annotated[
    float | None,
    typer.Option(help="Maximum past events per second.", min=0.1, max=MOST_EVENTS_PER_SECOND, show_default=False),
]


@app.command()
@with_settings
def produce(
    *,
    file: Annotated[
        Path | None, typer.Argument(help="Events as JSON lines. Default: standard input.", show_default=False)
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Topic to write to; needed if there are several.", show_default=False)
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0.1, max=MOST_EVENTS_PER_SECOND, help="Maximum events per second.", show_default=False),
    ] = None,
    as_json: Json = False,
    settings: Settings,
) -> None:
    cluster = Cluster.of(settings)
    names = _topics(settings)
    if topic is None and len(names) > 1:
        raise typer.BadParameter(f"--topic: choose one of {', '.join(names)}")
    if topic is not None and topic not in names:
        raise typer.BadParameter(f"--topic: {topic} is not a topic of events; choose one of {', '.join(names)}")
    lines = (line for _, line in lines_of(file))
    values = clients.paced(lines, rate) if rate else lines
    to = topic or names[0]
    with progress_of(f"events to {to}") as progress:
        written = clients.write(cluster, to, ((None, value) for value in values), progress)
    report_written(written, "events", to, as_json)


@app.command()
@with_flags(answers=answering)
@with_settings_of_tenant
def subscribe(
    *,
    file: Annotated[
        Path | None, typer.Argument(help="Subscriptions as JSON lines. Default: standard input.", show_default=False)
    ] = None,
    id: Annotated[str | None, typer.Option(help="Id of a single subscription.", show_default=False)] = None,
    subscriber: Annotated[
        str | None, typer.Option(help="Subscriber of a single subscription.", show_default=False)
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(help="""Pattern of a single subscription: '{"symbol": ["IBM"]}'.""", show_default=False),
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="START",
            help="Deliver past events too, from: oldest, a time with its zone, how long ago (90s, 30m, 2h, 7d), or "
            "offsets (0:120,1:95; with several topics orders/0:120). Implies --wait.",
            show_default=False,
        ),
    ] = None,
    rate: Rate = None,
    answers: Answering,
    settings: Settings,
) -> None:
    """The command stops at the first subscription that the job would reject. With --wait the job decides: the command
    writes all subscriptions, prints the job's answers, and exits with code 1 if one is rejected.

    With --from the command reads its input to the end, then delivers past events up to where live deliveries begin,
    each once. After a stop or a crash, repeat the same command to continue.
    """
    if rate is not None and begin is None:
        raise typer.BadParameter("--rate limits past events; it needs --from")
    if not (id is None and subscriber is None and pattern is None):
        if not (id and subscriber and pattern):
            raise typer.BadParameter("a single subscription needs --id, --subscriber and --pattern")
        if file is not None:
            raise typer.BadParameter("write either the subscriptions of a file or a single one, not both")
        try:
            document = {"id": id, "subscriber": subscriber, "pattern": parsed(pattern)}
        except orjson.JSONDecodeError as error:
            raise typer.BadParameter(f"--pattern is not JSON: {error}") from None
        lines: Iterator[tuple[str, bytes]] = iter([("subscription", json.dumps(document).encode())])
    else:
        lines = lines_of(file)
    read = _addressed if answers.wait and begin is None else _checked
    tenant = tenants.own(settings)
    records = (read(where, line, tenant) for where, line in lines)
    with client_of(settings) as client:
        if begin is not None:
            start = start_of("--from", begin, int(time.time() * 1000), lambda: _topics(settings))
            documents = dict(records)
            past = partial(deliver_all_past, client, [id.decode() for id in documents], start, rate, answers)
            _end(
                client.begin(documents.items(), start),
                "subscriptions",
                settings,
                answers,
                "exists with the same document",
                past,
            )
        _end(client.write(records, "subscriptions", answers=answers.wait), "subscriptions", settings, answers)


@app.command()
@with_flags(answers=answering)
@with_settings_of_tenant
def unsubscribe(
    *,
    ids: Ids = None,
    answers: Answering,
    settings: Settings,
) -> None:
    with client_of(settings) as client:
        changes = ((id.encode(), None) for id in ids_of(ids))
        _end(client.write(changes, "changes", answers=answers.wait), "changes", settings, answers)


@app.command()
@with_flags(answers=answering)
@with_settings_of_tenant
def pause(
    *,
    ids: Ids = None,
    answers: Answering,
    settings: Settings,
) -> None:
    with client_of(settings) as client:
        _end(client.pause(*ids_of(ids)), "changes", settings, answers, "already paused")


@app.command()
@with_flags(answers=answering)
@with_settings_of_tenant
def resume(
    *,
    ids: Ids = None,
    catches_up: Annotated[
        bool, typer.Option("--catch-up", help="Deliver the events since the pause too. Implies --wait.")
    ] = False,
    rate: Rate = None,
    answers: Answering,
    settings: Settings,
) -> None:
    """With --catch-up the command delivers the withheld events up to where live deliveries begin, each once. After a
    stop or a crash, repeat the same command to continue.
    """
    if rate is not None and not catches_up:
        raise typer.BadParameter("--rate limits past events; it needs --catch-up")
    with client_of(settings) as client:
        wanted = list(ids_of(ids))
        changes = client.resume(*wanted, catch_up=catches_up, timeout_s=answers.timeout_s)
        past = partial(deliver_all_past, client, wanted, None, rate, answers) if catches_up else None
        _end(changes, "changes", settings, answers, "not paused", past)


def _checked(where: str, line: bytes, tenant: Tenant) -> tuple[bytes, bytes]:
    """Key and value of a valid subscription. Raises JobError for one that the job would reject."""
    try:
        return read_change(None, line, tenant).subscription.id.encode(), line
    except Rejected as error:
        raise JobError(f"{where}: {error}") from None


def _addressed(where: str, line: bytes, tenant: Tenant) -> tuple[bytes, bytes]:
    """Key and value. Leaves a document with an id to the job, which checks it."""
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        document = None
    id = document.get("id") if isinstance(document, dict) else None
    return (id.encode(), line) if isinstance(id, str) and id else _checked(where, line, tenant)


def _topics(settings: Settings) -> Sequence[str]:
    """Names of the topics of events."""
    return resolved(settings, lambda: Cluster.of(settings).topics().partitions()).events.names


def _end(
    changes: WrittenChanges,
    what: str,
    settings: Settings,
    answers: Answering,
    why_not: str = "",
    catch_up: Callable[[Collection[str]], bool] | None = None,
) -> None:
    """Report the changes and exit, with code 1 if the job rejects one. `catch_up` takes the rejected ids and delivers
    past events of the others; it returns False if a signal stopped it."""
    for id in changes.unchanged:
        eprint(f"{plain(id)}: {why_not}; nothing was written")
    if catch_up is None:
        raise typer.Exit(1 if report(changes, what, settings, answers) else 0)
    try:
        rejected = report(changes, what, settings, answers._replace(wait=True))
    except Unanswered as unanswered:
        raise Unanswered(f"{unanswered}. {GOES_ON}") from None
    if not catch_up(rejected):
        raise typer.Exit(STOPPED)
    raise typer.Exit(1 if rejected else 0)
