"""Run `bench living`, `bench system` and `bench gate`, which start the whole system."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from bench.commands.flags import err, listed, listed_numbers, wrong_flags
from bench.errors import BenchError
from matchers.errors import known
from rig.load import Load

app = typer.Typer()

Subscribers = Annotated[int, typer.Option(help="Number of subscribers.")]
Symbols = Annotated[
    int, typer.Option(help="Number of symbols. An event has one symbol, and a subscription selects one.")
]
Matches = Annotated[float, typer.Option(help="Average number of subscriptions that match an event.")]
Algorithm = Annotated[str, typer.Option("--algorithm", "-a", help="Matching algorithm.")]
Layout = Annotated[str, typer.Option("--layout", help="deliveries.layout of the job: shared or topic_per_subscriber.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="NAME=VALUE",
        help="A setting of the job, such as events.max_per_batch=10000. May be repeated.",
    ),
]


@app.command()
def living(
    subscriptions: Annotated[
        int, typer.Option("--subscriptions", "-n", help="Approximate number of subscriptions in force.")
    ] = Load.subscriptions,
    events_per_second: Annotated[float, typer.Option(help="Rate of events.")] = Load.events_per_second,
    changes_per_second: Annotated[
        float, typer.Option(help="Rate of changes: additions, replacements and deletions together.")
    ] = Load.changes_per_second,
    minutes: Annotated[float, typer.Option(help="Duration in minutes.")] = Load.minutes,
    subscribers: Subscribers = Load.subscribers,
    symbols: Symbols = Load.symbols,
    matches: Matches = Load.matches,
    algorithm: Algorithm = "auto",
    deliveries: Layout = "shared",
    set_: Set = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same load.", min=0)] = Load.seed,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")] = False,
) -> None:
    """Run the whole system under load while its subscriptions change, and check every delivery.

    Starts a broker and the job, and stops both. Exit code 1 if any delivery is missing, duplicated or wrong.
    """
    from bench.system import report  # what the stream needs, no other command does
    from bench.system.run import run

    flags = {"matching.algorithm": algorithm, "deliveries.layout": deliveries, **_assigned(set_)}
    with wrong_flags():
        load = Load(
            subscriptions=subscriptions,
            events_per_second=events_per_second,
            changes_per_second=changes_per_second,
            minutes=minutes,
            subscribers=subscribers,
            symbols=symbols,
            matches=matches,
            seed=seed,
        )
    _exit_on_sigterm()
    outcome = run(load, flags, lambda what: err.print(Text(what)))
    report.show(outcome, err)
    if as_json:
        typer.echo(json.dumps(outcome.as_data()))
    raise typer.Exit(0 if outcome.right else 1)


@app.command()
def system(
    subscriptions: Annotated[
        str, typer.Option("--subscriptions", "-n", help="Comma-separated numbers of subscriptions.")
    ] = ("10000,250000,1000000"),
    rates: Annotated[str, typer.Option(help="Events per second, ascending until one is not sustained.")] = (
        "1000,2000,5000,10000,20000,50000,100000"
    ),
    systems: Annotated[
        str,
        typer.Option(
            help="Comma-separated: sluice; a baseline on Spark alone (join, udf, udf_by_symbol); with an index made "
            "for this load, Kafka Streams that commits every 100, 30 or 10 ms (kafka-streams, kafka-streams-30ms, "
            "kafka-streams-10ms), or Flink with a checkpoint every 1,000 or 100 ms (flink-1s, flink-100ms). Kafka "
            "Streams and Flink need `make rivals`."
        ),
    ] = "sluice",
    seconds: Annotated[float, typer.Option(help="Seconds at each rate.")] = 30.0,
    warm_up: Annotated[
        float, typer.Option(help="Seconds before each, in which the rate rises from 0; in no figure.")
    ] = 20.0,
    matches: Matches = Load.matches,
    subscribers: Subscribers = Load.subscribers,
    symbols: Symbols = Load.symbols,
    algorithm: Algorithm = "auto",
    deliveries: Layout = "shared",
    set_: Set = None,
    broker: Annotated[
        list[str] | None,
        typer.Option("--broker", metavar="NAME=VALUE", help="A property of the Kafka broker. May be repeated."),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIRECTORY", help="Directory for system.json, system.md and system.png."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines on standard output, one per rate.")] = False,
) -> None:
    """Measure the events per second that the whole system sustains, and their latency; every delivery is checked.

    The baselines on Spark use only the subscriptions that existed when they started, and deliver at least once.
    Broker, generator and checker share the machine. Exit code 1 if any delivery is wrong.
    """
    from bench.system import ramp  # what the stream needs, no other command does
    from bench.system.run import SYSTEMS
    from bench.system.spark_alone import APPLICATIONS

    with wrong_flags():
        numbers, wanted = listed_numbers("subscriptions", subscriptions), listed_numbers("rates", rates)
        chosen = [name.strip() for name in systems.split(",")]
        for name in chosen:
            if name not in SYSTEMS:
                raise BenchError(f"unknown system {name!r}; {known(name, SYSTEMS)}")
        load = Load(
            subscriptions=min(numbers),
            events_per_second=min(wanted),
            changes_per_second=0.0,
            minutes=seconds / 60,
            subscribers=subscribers,
            symbols=symbols,
            matches=matches,
            warm_up_s=warm_up,
        )
        flags = {"matching.algorithm": algorithm, "deliveries.layout": deliveries, **_assigned(set_)}
        properties = _assigned(broker, "--broker takes name=value")
        if flags["deliveries.layout"] != "shared" and set(chosen) & set(APPLICATIONS):
            raise BenchError("the baselines on Spark only support --layout shared")
    _exit_on_sigterm()
    rows = []
    for row in ramp.ramp(load, chosen, numbers, wanted, flags, lambda what: err.print(Text(what)), properties):
        rows.append(row)
        if as_json:
            typer.echo(json.dumps(row.as_data()))
    if not as_json and sys.stdout.isatty():
        Console().print(ramp.table(rows))
    elif not as_json:
        typer.echo(ramp.markdown(rows), nl=False)
    if directory:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "system.json").write_text(json.dumps([row.as_data() for row in rows], indent=1) + "\n")
        (directory / "system.md").write_text(ramp.markdown(rows))
        ramp.draw(rows, directory / "system.png")
    raise typer.Exit(0 if all(row.right for row in rows) else 1)


@app.command()
def gate(
    only: Annotated[
        str | None, typer.Option("--only", help="Comma-separated points; default: all.", show_default=False)
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Replace these points in the file by the measured ones.")
    ] = False,
    file: Annotated[
        Path | None,
        typer.Option("--recorded", help="File of recorded figures. Default: bench/gate/recorded.json."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON lines on standard output, one per point.")
    ] = False,
) -> None:
    """Measure the points that matter in ten minutes and compare them with recorded figures.

    CPU times are compared in units of a calibration loop of the same minute. A point that takes more than 1.3 times
    the recorded CPU time is measured once more. Exit code 1 if it fails again, if a rate is not sustained, if a point
    takes less than 1 / 1.3 of what is recorded, or if nothing is recorded for it.
    """
    from bench.gate import measuring, printing, recorded, verdict  # what the stream needs, no other command does
    from bench.gate.points import POINTS

    file = file or recorded.RECORDED
    with wrong_flags():
        points = measuring.chosen(POINTS, None if only is None else listed(only, ()))
        before = recorded.read(file)
    _exit_on_sigterm()
    results = []
    for measured in measuring.measure(points, {} if record else before, lambda what: err.print(Text(what))):
        if record and measured.attempts:
            recorded.write({measured.point: measured.attempts[-1]}, file)
        result = replace(measured, recorded=before.get(measured.point))
        results.append(result)
        if as_json:
            typer.echo(json.dumps(result.as_data()))
    if not as_json and sys.stdout.isatty():
        Console().print(printing.table(results))
    elif not as_json:
        typer.echo(printing.markdown(results), nl=False)
    judged = [result for result in results if not (record and result.attempts)]
    for line in verdict.lines(judged):
        err.print(Text(line))
    if record:
        err.print(Text(f"recorded in {file}: {', '.join(result.point for result in results if result.attempts)}"))
    raise typer.Exit(0 if verdict.passed(judged) else 1)


def _exit_on_sigterm() -> None:
    """Let SIGTERM end the process by way of all that it has to stop."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def _assigned(assignments: list[str] | None, takes: str = "--set takes section.key=value") -> dict[str, str]:
    """Settings by name, from the values of a flag."""
    values = {}
    for assignment in assignments or ():
        name, equals, value = assignment.partition("=")
        if not equals:
            raise typer.BadParameter(f"{takes}, not {assignment!r}")
        values[name.strip()] = value
    return values
