"""Sluice's command line: the list of commands and their modules."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from commands.shared.lazy import CommandLine, command_of
from streaming.process import code_archive
from streaming.version import VERSION, revision

# By heading of the help and by name: the module, imported on demand, and the first line of the command's help.
COMMANDS = {
    "Run": {
        "run": (
            "commands.job",
            "Run the job: match events as they arrive and deliver each exactly once. Ctrl-C or SIGTERM stops it.",
        ),
        "broker": ("commands.broker", "Run an embedded Kafka, for trying Sluice and for tests. Ctrl-C stops it."),
        "demo": (
            "commands.demo.command",
            "Start a Kafka and a job, send real stock events, and check that each is delivered exactly once.",
        ),
        "warm": (
            "commands.machine.warm",
            "Compile the kernels of a job and archive the classes of its JVM, so that starts are faster. Skips what is "
            "done.",
        ),
        "jars": ("commands.machine.jars", "Fetch the pinned jars of the job and of the embedded Kafka, once."),
    },
    "Publish and subscribe": {
        "produce": (
            "commands.writing",
            "Write events, one JSON object per line, to the events topic. It does not validate them: an event that the "
            "job cannot read becomes a dead letter.",
        ),
        "subscribe": (
            "commands.writing",
            "Add or replace subscriptions: one by --id, --subscriber and --pattern, or many as JSON lines.",
        ),
        "unsubscribe": ("commands.writing", "Delete subscriptions by id."),
        "pause": (
            "commands.writing",
            "Pause subscriptions: they stay registered, and match no events until they are resumed.",
        ),
        "resume": ("commands.writing", "Resume paused subscriptions."),
        "consume": (
            "commands.deliveries",
            "Print a subscriber's deliveries from the first on, one event per line, for programs and pipes. To watch "
            "new deliveries, take `tap`.",
        ),
        "tap": (
            "commands.deliveries",
            "Watch new deliveries as they arrive, with time, delay, version and subscriptions. To read stored "
            "deliveries, take `consume`.",
        ),
    },
    "Inspect": {
        "top": (
            "commands.top",
            "Watch a running job: throughput, latency by stage, lag, state, dead letters, restarts. q or Ctrl-C ends "
            "it.",
        ),
        "subscriptions": ("commands.subscriptions", "List, show, export and apply subscriptions."),
        "subscribers": (
            "commands.subscribers.command",
            "List the metrics of each subscriber: deliveries, bytes, matches, dead letters, the last event.",
        ),
        "backtest": (
            "commands.past_events",
            "Try a pattern on past events, by default on those of the last hour, before you subscribe.",
        ),
        "config": ("commands.settings", "Show the settings."),
    },
    "Operate": {
        "doctor": (
            "commands.doctor",
            "Check whether the job can start here: the machine, the broker, topics and permissions. Changes nothing.",
        ),
        "topics": ("commands.topics", "Create and list topics."),
        "dlq": ("commands.dead_letters", "List, show and redrive dead letters."),
        "replay": (
            "commands.past_events",
            "Match past events against one subscription and deliver each match once, while the job runs.",
        ),
        "catch-up": (
            "commands.past_events",
            "Deliver the past events of subscriptions that have a start, up to where live deliveries begin.",
        ),
    },
    "Offline": {
        "validate": (
            "commands.offline",
            "List the subscriptions that the job would reject, and why. Exit code 1 if there are any.",
        ),
        "match": ("commands.offline", "List the subscribers that get each event, with the subscriptions that match."),
        "explain": (
            "commands.offline",
            "Explain why an event satisfies a subscription, or why not. Exit code 1 if it satisfies none.",
        ),
        "test": (
            "commands.offline",
            "Check that events satisfy the subscriptions that they should: cases in YAML, as in examples/cases.yaml.",
        ),
        "translate": (
            "commands.translate",
            "Translate rules of Amazon EventBridge, CESQL or SQL into subscriptions, one per line.",
        ),
        "schema": (
            "commands.schema",
            "Print the JSON Schema of a subscription, for editors and checks; config/subscription.schema.json is a "
            "copy.",
        ),
        "bench": ("bench.commands", "Benchmark algorithms or the whole system; every answer is checked."),
    },
}

app = typer.Typer(
    cls=CommandLine,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Content-based publish/subscribe on Kafka and Spark.",
)
for heading, listed in COMMANDS.items():
    for name, (module, line) in listed.items():
        add = app.command(name, help=line, rich_help_panel=heading, cls=command_of(module))
        add(lambda: None)  # Typer needs a function here; the real one is in the module


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sluice {VERSION} {revision()[:12]}".rstrip())
        raise typer.Exit


@app.callback()
def _flags(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """The flags of the command line itself."""


def _open_closed_streams() -> None:
    """Open the standard streams that are closed (`>&-`): a file that is opened later would get their numbers. A closed
    input stays one for the commands, which report it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)  # `dup2` leaves it as it is if it has that number already
            if number:
                setattr(sys, name, os.fdopen(number, "w"))


def main() -> None:
    _open_closed_streams()
    code_archive.unpack()
    try:
        app()
    except Exception as error:
        from commands.shared.errors import end  # imported like a command, when it is needed

        end(error)


if __name__ == "__main__":
    main()
