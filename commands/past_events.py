"""Run the commands `replay`, `catch-up` and `backtest`: deliver past events, or try a pattern on them."""

from __future__ import annotations

import time
from contextlib import suppress
from threading import Event
from typing import Annotated

import orjson
import typer

from commands.shared.client import client_of, deliver_all_past, deliver_past
from commands.shared.flags import MOST_EVENTS_PER_SECOND, Answering, Json, with_settings_of_tenant
from commands.shared.inputs import ids_of
from commands.shared.signals import STOPPED, stop_on_signals
from commands.shared.terminal import emit, note, progress_of
from commands.shared.times import moment
from config import Settings
from streaming.admin.replay import NAME, DeliveryRejected
from streaming.client import ChangeRejected, Client, GroupChanged, NoSubscription, NotJoined, Unanswered
from streaming.documents.subscriptions import parsed
from streaming.text_format import plain

STOPS_WITHIN_S = 5.0  # while it waits for an answer
app = typer.Typer()


@app.command()
@with_settings_of_tenant
def replay(
    *,
    subscription: Annotated[str, typer.Argument(help="Id of the subscription.")],
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="Start: a time with its zone, or how long ago: 90s, 30m, 2h, 7d.",
            show_default=False,
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", help="End, written like --from. Default: now.", show_default=False),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the replay, to resume it later.", show_default=False)
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Maximum events per second.", min=0.1, max=MOST_EVENTS_PER_SECOND, show_default=False),
    ] = None,
    as_json: Json = False,
    settings: Settings,
) -> None:
    """The replay begins with the first event at or after --from and ends before the first event at or after --to.
    Ctrl-C or SIGTERM stops it, with exit code 130. The same --name resumes it, also after a crash.
    """
    from_ms, to_ms = _range(start, end)
    if name is None and from_ms is None:
        raise typer.BadParameter("pass --from to start a replay, or --name to resume one")
    if name is not None and not NAME.fullmatch(name):
        raise typer.BadParameter("--name must have 1 to 100 letters, digits, dots, underscores or hyphens")
    (subscription,) = ids_of([subscription])
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


@app.command("catch-up")
@with_settings_of_tenant
def catch_up(
    *,
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID", help="Ids of subscriptions. Default: all whose documents have `from`.", show_default=False
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for further documents with `from`, until Ctrl-C.")
    ] = False,
    rate: Annotated[
        float | None,
        typer.Option(help="Maximum past events per second.", min=0.1, max=MOST_EVENTS_PER_SECOND, show_default=False),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Without --follow: seconds to wait until a subscription is in force.", min=0)
    ] = 60,
    as_json: Json = False,
    settings: Settings,
) -> None:
    """The start is `from` in the document, or the start that `subscribe --from` or `resume --catch-up` recorded. Each
    past event is delivered once, however often the command is stopped or killed.

    Without ids, a consumer group stores which subscriptions are finished, so `catch-up --follow` can run all the time,
    also in several processes. Exit code 1 if the past events of a subscription cannot be delivered.
    """
    ids = list(ids_of(ids)) if ids else None
    if ids and follow:
        raise typer.BadParameter("--follow serves all documents with `from`; leave out the ids")
    answering = Answering(True, timeout, as_json)
    with client_of(settings) as client:
        if ids:
            raise typer.Exit(0 if deliver_all_past(client, ids, None, rate, answering) else STOPPED)
        stop, failed = stop_on_signals(), 0
        with client.starts(follow=follow, stop=stop, skipped=_skip) as starts:
            for id in starts:
                try:
                    finished = _await_and_deliver(client, id, rate, answering, stop, follow)
                except _OF_ONE as reason:
                    note(f"{plain(id)}: {reason}")
                    failed += 1
                else:
                    if not finished:
                        raise typer.Exit(STOPPED)
                with suppress(GroupChanged):  # another process has the partition, and finds it done
                    starts.commit()
            with suppress(GroupChanged):
                starts.commit()
    raise typer.Exit(STOPPED if stop.is_set() else 1 if failed else 0)


_OF_ONE = (NotJoined, NoSubscription, ChangeRejected, DeliveryRejected)  # the other subscriptions continue


def _await_and_deliver(
    client: Client, id: str, rate: float | None, answering: Answering, stop: Event, follow: bool
) -> bool:
    """Deliver the past events of a subscription. With `follow`, wait for the job's answer until `stop` is set."""
    if not follow:
        return deliver_past(client, id, None, rate, answering, stop)
    told = False
    while not stop.is_set():
        try:
            return deliver_past(client, id, None, rate, answering._replace(timeout_s=STOPS_WITHIN_S), stop)
        except Unanswered as unanswered:
            if not told:
                note(f"{plain(id)}: {unanswered}")
            told = True
    return False


def _skip(id: str) -> None:
    note(
        f"{plain(id)}: skipped, because its start was written more than six days ago and its past events may have been "
        f"delivered; `catch-up {id}` delivers them"
    )


@app.command()
@with_settings_of_tenant
def backtest(
    *,
    pattern: Annotated[str, typer.Argument(help="""Pattern, such as '{"symbol": ["IBM"]}'.""")],
    start: Annotated[
        str,
        typer.Option("--from", metavar="TIME", help="Start: a time with its zone, or how long ago: 90s, 30m, 2h, 7d."),
    ] = "1h",
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", help="End, written like --from. Default: now.", show_default=False),
    ] = None,
    examples: Annotated[int, typer.Option(help="Number of matching events to print.", min=0)] = 3,
    as_json: Json = False,
    settings: Settings,
) -> None:
    """Prints how many events match, in total and by time, and the first matches. It only reads the events topic, so it
    does not disturb a job. Ctrl-C or SIGTERM ends it; then it prints the result so far.
    """
    from_ms, to_ms = _range(start, end)
    assert from_ms is not None
    try:
        wanted = parsed(pattern.encode(errors="surrogateescape"))
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(f"the pattern is not JSON: {error}") from None
    stop = stop_on_signals()
    with client_of(settings) as client:
        found = client.backtest(wanted, from_ms=from_ms, to_ms=to_ms, examples=examples, stop=stop)
    emit(found, as_json)
    if not found.finished:
        note("stopped before the end; the result is incomplete")
    raise typer.Exit(0 if found.finished else STOPPED)


def _range(start: str | None, end: str | None) -> tuple[int | None, int | None]:
    """The times of --from and --to, in milliseconds since the epoch. Raises BadParameter if they are out of order."""
    now_ms = int(time.time() * 1000)
    from_ms, to_ms = moment("--from", start, now_ms), moment("--to", end, now_ms)
    if from_ms is not None and from_ms >= (now_ms if to_ms is None else to_ms):
        raise typer.BadParameter(f"--from must be before {'now' if to_ms is None else '--to'}")
    return from_ms, to_ms
