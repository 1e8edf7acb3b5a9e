"""Run the command `subscribers`: list the metrics of subscribers."""

from __future__ import annotations

from typing import Annotated

import typer

from commands.shared.flags import Json, with_settings
from commands.shared.terminal import counted, note, progress_of
from commands.subscribers import table
from commands.subscribers.table import OF_SUBSCRIPTIONS, SORTS
from config import Settings
from streaming.errors import JobError
from streaming.kafka import clients
from streaming.kafka.clients import Cluster

app = typer.Typer()


@app.command()
@with_settings
def subscribers(
    subscriber: Annotated[
        str | None,
        typer.Argument(help="List the metrics of this subscriber's subscriptions instead.", show_default=False),
    ] = None,
    *,
    sort: Annotated[
        str | None,
        typer.Option(
            help=f"Column to sort by: {', '.join(SORTS)}.", show_default=False, autocompletion=lambda: list(SORTS)
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="List at most N.", min=1, show_default=False)] = None,
    as_json: Json = False,
    settings: Settings,
) -> None:
    """The list begins with the most deliveries; column SINCE is when counting began. The number of subscribers goes to
    standard error. The job writes changed metrics every few seconds (metrics.records_per_second).
    """
    known = OF_SUBSCRIPTIONS if subscriber is not None else tuple(SORTS)
    by = sort or known[0]
    if by not in known:
        raise typer.BadParameter(f"--sort: unknown column {by}; known: {', '.join(known)}")
    if not (topic := settings.metrics.topic):
        raise JobError("metrics.topic is empty, so there are no metrics of subscribers; set it to a topic")
    with progress_of("metrics read"):
        records = clients.read(Cluster.of(settings), [topic], follow=False)
        found = table.metrics(records, settings.query.name, subscriber)
    chosen = table.in_order(found, by)[:limit]
    if as_json:
        for _, value in chosen:
            print(table.document(value))
    else:
        for line in table.lines([metrics for metrics, _ in chosen]):
            print(line)
    if found:
        note(f"{counted(len(found), 'subscribers' if subscriber is None else 'subscriptions')} with metrics")
    elif subscriber is None:
        note("no subscribers with metrics")
    else:
        note("no subscriptions with metrics; a job with metrics.subscriptions = true counts them")
