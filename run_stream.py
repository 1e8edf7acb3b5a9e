"""Sluice's command line: the list of commands and their modules."""

from __future__ import annotations

import typer

from commands.shared.lazy import CommandLine, command_of
from streaming.process import code_archive

COMMANDS = {  # by module, which is imported on demand; each with the first line of its help
    "commands.job": {
        "run": "Run the job: match events as they arrive and deliver them exactly once. Ctrl-C or SIGTERM stops it.",
    },
    "commands.demo.command": {
        "demo": "Send real stock events through a real Kafka and the real job, and check that each is "
        "delivered exactly once.",
    },
    "commands.warm": {
        "warm": "Compile the kernels that a job needs, on all cores, so that its index is there at once. Repeats "
        "nothing.",
    },
    "commands.broker": {
        "broker": "Run an embedded Kafka until Ctrl-C.",
    },
    "commands.doctor": {
        "doctor": "Check whether the job can start here: the machine, the broker, topics and rights. Changes nothing.",
    },
    "commands.writing": {
        "produce": "Write events, one JSON object per line, to the events topic.",
        "subscribe": "Add or replace subscriptions: one by --id, --subscriber and --pattern, or many as JSON lines.",
        "unsubscribe": "Withdraw subscriptions by id.",
        "pause": "Pause subscriptions: they stay registered and match nothing until they are resumed.",
        "resume": "Resume paused subscriptions.",
    },
    "commands.deliveries": {
        "consume": "Print a subscriber's deliveries from the first on, one event per line.",
        "tap": "Watch deliveries as they arrive: time, delay, version, subscriptions and the event.",
    },
    "commands.top": {
        "top": "Watch a running job: throughput, latency by stage, lag, state, dead letters, restarts. q or Ctrl-C "
        "ends it.",
    },
    "commands.past_events": {
        "replay": "Match past events against one subscription as it is now and deliver each once, while the job runs.",
        "catch-up": "Deliver the past events of subscriptions that have a start, up to where live deliveries begin.",
        "backtest": "Try a pattern on past events, by default those of the last hour, before you subscribe.",
    },
    "commands.schema": {
        "schema": "Print the JSON Schema of a subscription, for editors and checks; config/subscription.schema.json is "
        "a copy.",
    },
    "commands.offline": {
        "validate": "List the subscriptions that the job would refuse, and why. Exit code 1 if there are any.",
        "match": "List the subscribers that get each event, with the subscriptions that match it.",
        "explain": "Explain why an event satisfies a subscription, or why not. Exit code 1 if it satisfies none.",
        "test": "Check that events satisfy the subscriptions that they should: cases in YAML, as in "
        "examples/cases.yaml.",
    },
    "commands.translate": {
        "translate": "Print the conditions of another system as subscriptions, one per line.",
    },
    "commands.topics": {"topics": "Create and list topics."},
    "commands.subscriptions": {"subscriptions": "List, show, export and apply subscriptions."},
    "commands.subscribers.command": {
        "subscribers": "List what each subscriber got: deliveries, bytes, matches, dead letters, the last event.",
    },
    "commands.dead_letters": {"dlq": "List, show and redrive dead letters."},
    "commands.settings": {"config": "Show the settings."},
    "bench.command": {
        "bench": "Benchmark algorithms or the whole system; every answer is checked.",
    },
}
HEADINGS = {
    "commands.offline": "Without a broker",
    "commands.translate": "Without a broker",
}  # headings above commands in the help; without one they are under "Commands"

app = typer.Typer(
    cls=CommandLine,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Content-based publish/subscribe on Kafka and Spark.",
)
for module, listed in COMMANDS.items():
    for name, line in listed.items():
        add = app.command(name, help=line, rich_help_panel=HEADINGS.get(module), cls=command_of(module))
        add(lambda: None)  # Typer needs a function here; the real one is in the module


def main() -> None:
    code_archive.unpack()
    try:
        app()
    except Exception as error:
        from commands.shared.errors import end  # imported like a command, when it is needed

        end(error)


if __name__ == "__main__":
    main()
