"""Run the command `topics`: create and list topics."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer

from commands.shared.flags import Json, with_settings
from config import Settings
from streaming.kafka import layout
from streaming.kafka.clients import Cluster

app = typer.Typer(no_args_is_help=True)


@app.command()
@with_settings
def create(
    *,
    settings: Settings,
    partitions: Annotated[
        int, typer.Option(help="Partitions of the topics of events, of subscriptions and of shared deliveries.", min=1)
    ] = 2,
    replication_factor: Annotated[int, typer.Option(help="Replicas of each topic.", min=1)] = 1,
    as_json: Json = False,
) -> None:
    """Create the topics that the job needs. Existing topics stay unchanged. Exit code 1 if one cannot be created."""
    cluster = Cluster.of(settings).topics()
    there = cluster.partitions()
    wanted = layout.topics(settings, partitions, replication_factor)
    failed = cluster.create(t for t in wanted if t.name not in there)
    for topic in wanted:
        state = failed.get(topic.name) or ("exists" if topic.name in there else "created")
        print(orjson.dumps({"topic": topic.name, "state": state}).decode() if as_json else f"{topic.name}\t{state}")
    raise typer.Exit(1 if failed else 0)


@app.command("list")
@with_settings
def list_them(*, as_json: Json = False, settings: Settings) -> None:
    """List all topics with their number of partitions."""
    for name, partitions in sorted(Cluster.of(settings).topics().partitions().items()):
        if not name.startswith("__"):
            row = {"topic": name, "partitions": partitions}
            print(orjson.dumps(row).decode() if as_json else f"{name}\t{partitions}")
