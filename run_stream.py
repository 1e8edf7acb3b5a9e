"""Sluice's command line: which commands there are, and where."""

from __future__ import annotations

from functools import partial

import typer

from commands.listed import CommandLine, Listed

COMMANDS = {  # by module, which is imported when one is called; each with the first line of its help
    "commands.job": {
        "run": "The continuous job: match events as they come, deliver them exactly once. Ctrl-C or SIGTERM stops it.",
    },
    "commands.demo": {
        "demo": "Real stock events through a real Kafka and the real job; checks that every delivery came exactly "
        "once.",
    },
    "commands.broker": {
        "broker": "An embedded Kafka of one node, alone, until Ctrl-C.",
    },
    "commands.doctor": {
        "doctor": "Would the job start here and go on? Looks at this machine, the broker, topics and rights, and "
        "changes nothing.",
    },
    "commands.writing": {
        "produce": "Write events, a JSON object a line, to the events topic.",
        "subscribe": "Add or replace subscriptions: one by --id, --subscriber and --pattern, or many as JSON lines.",
        "unsubscribe": "Withdraw subscriptions by id.",
        "pause": "Let subscriptions match nothing until they are resumed; they stay registered.",
        "resume": "Let paused subscriptions match again.",
    },
    "commands.deliveries": {
        "consume": "Print what a subscriber was delivered, an event a line, from the first on.",
        "tap": "Watch deliveries as they come: when, how late, matched by which version and subscriptions, and the "
        "event.",
    },
    "commands.top": {
        "top": "Watch a running job: throughput, latency by stage, lag, the state, dead letters, restarts. q or "
        "Ctrl-C ends it.",
    },
    "commands.replay": {
        "replay": "Match past events for one subscription as it is now, and deliver them again, each once; beside the "
        "running job.",
    },
    "commands.schema": {
        "schema": "The JSON Schema of a subscription, for editors and checks; config/subscription.schema.json is a "
        "copy.",
    },
    "commands.offline": {
        "validate": "Which subscriptions would the job refuse, and why? Exit code 1 if there are any.",
        "match": "Who gets which event, and by which subscriptions?",
        "explain": "Why does an event satisfy a subscription, or why not? Exit code 1 if it satisfies none.",
        "test": "Does each event satisfy the subscriptions that it should? Cases in YAML; examples/cases.yaml shows "
        "how.",
    },
    "commands.topics": {"topics": "Make and list topics."},
    "commands.subscriptions": {"subscriptions": "Look at subscriptions, save them, and bring them back."},
    "commands.dead_letters": {"dlq": "Look at dead letters, and send them again."},
    "commands.settings": {"config": "Look at the settings."},
    "bench.command": {
        "bench": "How fast is each matching algorithm, how fast is the whole, and is the answer right?",
    },
}
HEADINGS = {"commands.offline": "Without a broker"}  # above commands in the help, if they are not just commands

app = typer.Typer(
    cls=CommandLine,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Content-based publish/subscribe on Kafka and Spark: which subscriptions does an event satisfy, who gets it?",
)
for module, listed in COMMANDS.items():
    for name, line in listed.items():
        add = app.command(name, help=line, rich_help_panel=HEADINGS.get(module), cls=partial(Listed, module))
        add(lambda: None)  # Typer wants a function; the module has the one that is called


def main() -> None:
    try:
        app()
    except Exception as error:
        from commands.errors import end  # imported like a command, when it is needed

        end(error)


if __name__ == "__main__":
    main()
