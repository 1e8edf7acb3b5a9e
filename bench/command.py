"""Run the commands `bench matchers`, `library`, `sweep`, `choices`, `search`, `living`, `system` and `gate`."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from bench.errors import BenchError
from bench.matching import memory, printing
from bench.matching.candidates import candidates
from bench.matching.choices import BATCHES, EXACT, SIZES, WORKLOADS, compare, grid
from bench.matching.library import measure as library_times
from bench.matching.measure import Effort
from bench.matching.search import drawn
from bench.matching.search import rows as search_rows
from bench.matching.turns import measure_in_turns
from bench.papers import PAPERS, tables
from bench.papers.points import of_sweeps
from bench.papers.sweeps import Outcome, figures, run
from bench.workloads.configurations.drawing import LEAST_SUBSCRIPTIONS, MOST_SUBSCRIPTIONS
from bench.workloads.distributions import Distribution
from bench.workloads.event_bus import EventBus
from bench.workloads.filters import Filters
from bench.workloads.prepared import Scenario
from bench.workloads.synthetic import Workload
from matchers import MatchingError
from matchers.errors import known
from matchers.registry import ALGORITHMS, runnable
from rig.load import Load, LoadError

app = typer.Typer(no_args_is_help=True)
err = Console(stderr=True, soft_wrap=True)

# Flags of the commands that start the whole system.
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
WORKLOAD, INTERVALS = "Workload", "Workload of intervals"  # headings above flags in the help
SCENARIOS = ("intervals", "event-bus", "pcm-default")

Seconds = Annotated[float, typer.Option(help="Seconds of matching for each algorithm and workload.", min=0)]
Rounds = Annotated[int, typer.Option(help="Rounds of each algorithm; the fastest counts.", min=1)]
Batch = Annotated[int, typer.Option(help="Events per call of an algorithm.", min=1)]
Settling = Annotated[
    float,
    typer.Option(help="Maximum CPU seconds in which an algorithm may learn from events before it is timed.", min=0),
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same workload.", min=0, rich_help_panel=WORKLOAD)]
Dataset = Annotated[
    Path | None,
    typer.Option(
        help="Real events: a text file with one row of numbers per event; predicates lie around these values.",
        rich_help_panel=INTERVALS,
    ),
]


@app.command()
def matchers(
    context: typer.Context,
    scenario: Annotated[
        str,
        typer.Option(
            help="Workload: intervals; event-bus (JSON rules and events); pcm-default (filters behind interfaces)."
        ),
    ] = SCENARIOS[0],
    algorithms: Annotated[
        str | None, typer.Option("--algorithms", "-a", help="Comma-separated names. Default: all but naive.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME.KEY=VALUE", help="Option of an algorithm, such as hem.g=32. May be repeated."),
    ] = None,
    seconds: Seconds = Effort.seconds,
    rounds: Rounds = Effort.rounds,
    batch: Batch = Effort.batch,
    settling: Settling = Effort.settling_s,
    profile: Annotated[
        bool, typer.Option("--profile", help="Show the work per event of algorithms that report it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per algorithm, one per line.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the table in Markdown.")] = False,
    subscriptions: Annotated[
        int | None,
        typer.Option(
            "--subscriptions",
            "-n",
            help=f"Number of subscriptions. Default: {Workload.subscriptions:,}; for pcm-default about "
            f"{Filters().average:,}.",
            rich_help_panel=WORKLOAD,
        ),
    ] = None,
    attributes: Annotated[
        int, typer.Option("--attributes", "-d", help="Number of attributes.", rich_help_panel=INTERVALS)
    ] = Workload.attributes,
    predicates: Annotated[
        str,
        typer.Option(
            "--predicates",
            "-k",
            help="Predicates of a subscription: a number, or a range such as 1-10.",
            rich_help_panel=INTERVALS,
        ),
    ] = "10",
    width: Annotated[
        float, typer.Option("--width", "-w", help="Width of predicates, from 0 to 1.", rich_help_panel=INTERVALS)
    ] = Workload.width,
    width_spread: Annotated[
        float, typer.Option(help="Widths are drawn between --width and --width plus this.", rich_help_panel=INTERVALS)
    ] = Workload.width_spread,
    codes: Annotated[
        int | None,
        typer.Option(help="Number of distinct values, as of strings. Default: unlimited.", rich_help_panel=INTERVALS),
    ] = None,
    equal: Annotated[
        float, typer.Option(help="Share of predicates that are equalities.", rich_help_panel=INTERVALS)
    ] = Workload.equal,
    events: Annotated[
        int | None,
        typer.Option(
            help=f"Maximum number of events. Default: {Workload.events}; for event-bus {EventBus.events:,}, for "
            f"pcm-default {Filters.events:,}.",
            rich_help_panel=WORKLOAD,
        ),
    ] = None,
    event_size: Annotated[
        int | None, typer.Option(help="Attributes per event. Default: all.", rich_help_panel=INTERVALS)
    ] = None,
    attribute_distribution: Annotated[
        str,
        typer.Option(
            help="Distribution of attributes: uniform or zipf:EXPONENT.",
            rich_help_panel=INTERVALS,
        ),
    ] = "uniform",
    value_distribution: Annotated[
        str,
        typer.Option(
            help="Distribution of values: uniform, normal:VARIANCE, pareto:SHAPE, zipf:EXPONENT or hotspots:NUMBER.",
            rich_help_panel=INTERVALS,
        ),
    ] = "uniform",
    event_value_distribution: Annotated[
        str | None,
        typer.Option(
            help="Distribution of values in events. Default: that of --value-distribution.", rich_help_panel=INTERVALS
        ),
    ] = None,
    dataset: Dataset = None,
    seed: Seed = Workload.seed,
) -> None:
    """Compare algorithms on one workload. Every answer is checked against scan; exit code 1 if one is wrong.

    If memory does not hold all indexes at once, some algorithms are measured after the others. An algorithm whose index
    alone does not fit is left out.
    """
    names = (
        algorithms.split(",")
        if algorithms is not None
        else [name for name in runnable() if not ALGORITHMS[name].definition]
    )
    with _wrong_flags(), _progress() as tell, memory.limited():
        workload: Scenario
        if scenario not in SCENARIOS:
            raise BenchError(f"unknown scenario {scenario!r}; {known(scenario, SCENARIOS)}")
        if scenario != "intervals":
            _reject_intervals(context, scenario)
        if scenario == "event-bus":
            n = EventBus.subscriptions if subscriptions is None else subscriptions
            workload = EventBus(n, EventBus.events if events is None else events, seed)
        elif scenario == "pcm-default":
            filters = Filters(events=Filters.events if events is None else events, seed=seed)
            workload = filters if subscriptions is None else filters.about(subscriptions)
        else:
            workload = Workload(
                subscriptions=Workload.subscriptions if subscriptions is None else subscriptions,
                attributes=attributes,
                predicates=_range(predicates),
                width=width,
                width_spread=width_spread,
                codes=codes,
                equal=equal,
                events=Workload.events if events is None else events,
                event_size=event_size,
                attribute_distribution=Distribution.parse(attribute_distribution),
                values=Distribution.parse(value_distribution),
                event_values=Distribution.parse(event_value_distribution or value_distribution),
                dataset=dataset,
                seed=seed,
            )
        chosen = candidates((name.strip() for name in names), option or ())
        effort = Effort(seconds, rounds, batch, settling)
        results = measure_in_turns(workload, chosen, effort, tell, profile)
        measured = [measurement for measurement, _ in results if measurement]
        if not measured:
            raise BenchError("the workload does not fit into free memory; use fewer --subscriptions")
    later = [f"{m.candidate.algorithm} in turn {turn}" for m, turn in results if m and turn > 1]
    if later:
        err.print(Text(f"Measured after the others, for memory: {', '.join(later)}."))
    left_out = [one.algorithm for one, (measurement, _) in zip(chosen, results, strict=True) if not measurement]
    if left_out:
        err.print(Text(f"Left out for memory: {', '.join(left_out)}."))
    if profile and all(measurement.profile is None for measurement in measured):
        err.print(Text("None of the measured algorithms has a profile."))
    if as_json:
        for measurement in measured:
            typer.echo(json.dumps(measurement.as_data()))
    elif as_markdown:
        absent = [] if algorithms else [name for name in ALGORITHMS if name not in {*runnable(), *names}]
        typer.echo(printing.markdown(measured, absent), nl=False)
    else:
        printing.show(measured, _wide())
    raise typer.Exit(0 if all(measurement.checked for measurement in measured) else 1)


@app.command()
def library(
    rules: Annotated[str, typer.Option(help="Comma-separated numbers of rules.")] = "1000,10000,100000",
    events: Annotated[int, typer.Option(help="Number of events.", min=1)] = 2_000,
    algorithm: Annotated[str, typer.Option("--algorithm", "-a", help="Matching algorithm.")] = "auto",
    rounds: Annotated[int, typer.Option(help="Rounds; the fastest counts.", min=2)] = 8,
    seed: Annotated[int, typer.Option(help="The same seed gives the same rules and events.", min=0)] = EventBus.seed,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Measure the library as a program calls it: JSON or dicts in, ids out, and rules that are added.

    The rules and events are those of an event bus. Exit code 1 if an answer is wrong.
    """
    with _wrong_flags(), _progress() as tell:
        measured = []
        for n in _numbers("rules", rules):
            tell(f"{n:,} rules")
            measured.append(library_times(n, events, algorithm, rounds, seed))
    if as_json:
        for one in measured:
            typer.echo(json.dumps(one.as_data()))
    else:
        printing.show_library(measured, _wide())
    raise typer.Exit(0 if all(one.checked for one in measured) else 1)


@app.command()
def sweep(
    paper: Annotated[str, typer.Argument(help=f"{', '.join(PAPERS)}.")],
    numbers: Annotated[
        str | None,
        typer.Option("--figures", help="Comma-separated numbers of figures. Default: all.", show_default=False),
    ] = None,
    scale: Annotated[float, typer.Option(help="Share of the paper's subscriptions.")] = 0.01,
    directory: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIRECTORY", help="Directory for the files.")
    ] = Path("figures"),
    seconds: Seconds = 0.3,
    rounds: Rounds = 2,
    batch: Batch = 1,
    settling: Settling = Effort.settling_s,
    limit: Annotated[
        float,
        typer.Option(help="Maximum minutes per algorithm and point, for building and matching.", min=0),
    ] = 20.0,
    dataset: Dataset = None,
    seed: Seed = Workload.seed,
) -> None:
    """Repeat the experiments of a paper. Writes a CSV file and a PNG for each, with the numbers that the paper states.

    Matches one event at a time, as in the papers, unless --batch is larger. Points whose rows are in the directory are
    not measured again, so a stopped sweep can be continued. Leaves out algorithms that are not available here, do not
    fit into memory, or take too long; the last lines name them. Exit code 1 if an answer is wrong.
    """
    from bench.papers.draw import draw  # its import takes half a second that no other command needs

    right, outcomes, notes = True, [], []
    with _wrong_flags(), _progress() as tell, memory.limited():
        chosen = figures(paper, None if numbers is None else [number.strip() for number in numbers.split(",")])
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BenchError(f"{directory}: no files can be written there: {error.strerror}") from None
        for figure in chosen:
            name = Outcome(figure, scale, (), (), min(batch, figure.batch or batch)).name
            known = tables.read(directory / f"{name}.csv")
            effort = Effort(seconds, rounds, batch, settling, limit_s=60 * limit)
            outcome = run(
                figure, scale, effort, dataset, seed, tell, known, lambda o: tables.write_measured(o, directory)
            )
            notes += [f"{figure.name}: {note}" for note in outcome.notes]
            if not outcome.rows:
                notes.append(f"{figure.name}: left out")
                continue
            outcomes.append(outcome)
            for file in [*tables.write(outcome, directory), draw(outcome, directory)]:
                typer.echo(file)
            for row in outcome.rows:
                if not row.checked:
                    right = False
                    err.print(Text(f"{figure.name}: {row.label} at {row.x:g} is WRONG", "bold red"))
        for file in tables.write_rivals(outcomes, directory):
            typer.echo(file)
        for note in notes:
            err.print(Text(note))
    raise typer.Exit(0 if right else 1)


@app.command()
def choices(
    workloads: Annotated[
        str | None, typer.Option("--workloads", help=f"Comma-separated: {', '.join(WORKLOADS)}; default: all.")
    ] = None,
    sizes: Annotated[str, typer.Option("--sizes", help="Comma-separated numbers of subscriptions.")] = ",".join(
        map(str, SIZES)
    ),
    sweeps: Annotated[
        str | None,
        typer.Option("--sweeps", help=f"Instead, the workloads of these papers' experiments: {','.join(PAPERS)}."),
    ] = None,
    scale: Annotated[float, typer.Option(help="Share of the subscriptions of --sweeps.")] = 0.01,
    algorithms: Annotated[
        str | None, typer.Option("--algorithms", "-a", help="Comma-separated names; default: all exact ones.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="CSV file.")] = Path("choices.csv"),
) -> None:
    """Compare auto and tiles with the best of all exact algorithms on a grid: one event, 64 and 1,024 at once.

    Rows are appended to the file; points that it has are not measured again. Exit code 1 if an answer is wrong.
    """
    names, compared, papers = _names(workloads, WORKLOADS), _names(algorithms, EXACT), _names(sweeps, PAPERS)
    with _wrong_flags(), _progress() as tell:
        for there, asked in ((WORKLOADS, names), (ALGORITHMS, compared), (PAPERS, papers)):
            for name in asked:
                if name not in there:
                    raise BenchError(f"unknown name {name!r}; {known(name, there)}")
        if not all(size.strip().isdecimal() and int(size) for size in sizes.split(",")):
            raise BenchError(
                f"sizes cannot be {sizes!r}; they are numbers of subscriptions from 1 on, such as 100,1000"
            )
        rows: list[dict[str, Any]] = [*tables.read(out)]
        done = {(row["workload"], row["asked"]) for row in rows}
        points = grid(names, map(int, sizes.split(","))) if sweeps is None else of_sweeps(papers, scale, BATCHES[-1])
        for name, n, scenario in points:
            if (name, str(n)) in done:
                continue
            tell(f"{name}, {n:,} subscriptions")
            rows += [{"asked": str(n), **row.as_data()} for row in compare(name, scenario, compared)]
            tables.write_rows(out, rows)
    printing.show_choices(rows, _wide())
    raise typer.Exit(0 if all(str(row["checked"]) == "True" for row in rows) else 1)


@app.command()
def search(
    configurations: Annotated[
        int, typer.Option("--configurations", help="Number of configurations, from number 0 on.", min=1)
    ] = 2_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same configurations.", min=0)] = 1,
    number: Annotated[
        str | None,
        typer.Option(
            "--number",
            help="Measure the configurations with these comma-separated numbers instead.",
            show_default=False,
        ),
    ] = None,
    most_subscriptions: Annotated[
        int, typer.Option(help="Skip configurations with more subscriptions.", min=LEAST_SUBSCRIPTIONS)
    ] = MOST_SUBSCRIPTIONS,
    seconds: Annotated[
        float | None,
        typer.Option(help="Start no further configuration after this many seconds.", min=0, show_default=False),
    ] = None,
    batch: Annotated[str, typer.Option(help="Comma-separated numbers of events per call.")] = ",".join(
        map(str, BATCHES)
    ),
    algorithms: Annotated[
        str | None, typer.Option("--algorithms", "-a", help="Comma-separated names; default: all exact ones.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="CSV file to append rows to. Configurations in it are skipped."),
    ] = None,
) -> None:
    """Search random configurations for those where auto and tiles are far behind the best of all exact algorithms.

    Prints the worst ten of each. A configuration SEED:NUMBER is measured again, alone, with --seed and --number.
    Exit code 1 if an answer is wrong.
    """
    compared = _names(algorithms, EXACT)
    with _wrong_flags(), _progress() as tell:
        for name in compared:
            if name not in ALGORITHMS:
                raise BenchError(f"unknown name {name!r}; {known(name, ALGORITHMS)}")
        batches = _numbers("batch", batch)
        asked = range(configurations) if number is None else _numbers("number", number, least=0)
        rows: list[dict[str, Any]] = [] if out is None else [*tables.read(out)]
        done = {row["workload"] for row in rows}
        end = inf if seconds is None else perf_counter() + seconds
        for found in drawn(seed, asked, most_subscriptions):
            if perf_counter() > end:
                break
            if found.name in done:
                continue
            tell(f"{found.name}, {found.subscriptions:,} subscriptions")
            rows += search_rows(found, compared, batches)
            if out is not None:
                tables.write_rows(out, rows)
    printing.show_search(rows, _wide())
    raise typer.Exit(0 if all(str(row["checked"]) == "True" for row in rows) else 1)


def _wide() -> Console:
    """The terminal; a pipe has room for wide tables."""
    console = Console()
    console.width = console.width if console.is_terminal else max(console.width, 140)
    return console


def _names(text: str | None, every: Iterable[str]) -> list[str]:
    return list(every) if text is None else [name.strip() for name in text.split(",")]


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
    with _wrong_flags():
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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # by way of all that it has to stop
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

    with _wrong_flags():
        numbers, wanted = _numbers("subscriptions", subscriptions), _numbers("rates", rates)
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
        )
        flags = {"matching.algorithm": algorithm, "deliveries.layout": deliveries, **_assigned(set_)}
        properties = _assigned(broker, "--broker takes name=value")
        if flags["deliveries.layout"] != "shared" and set(chosen) & set(APPLICATIONS):
            raise BenchError("the baselines on Spark only support --layout shared")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # by way of all that it has to stop
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
    """Measure the points that matter in six minutes and compare them with recorded figures.

    CPU times are compared in units of a calibration loop of the same minute. A point that takes more than 1.3 times
    the recorded CPU time is measured once more. Exit code 1 if it fails again, or if a point has no recorded figure.
    """
    from bench.gate import measuring, printing, recorded, verdict  # what the stream needs, no other command does
    from bench.gate.points import POINTS

    file = file or recorded.RECORDED
    with _wrong_flags():
        points = measuring.chosen(POINTS, None if only is None else _names(only, ()))
        before = recorded.read(file)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # by way of all that it has to stop
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


def _numbers(name: str, text: str, least: int = 1) -> list[int]:
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError:
        raise BenchError(f"{name} cannot be {text!r}; use comma-separated numbers") from None
    if min(numbers) < least:
        raise BenchError(f"{name} cannot be {text!r}; each must be {least} or more")
    return numbers


def _assigned(assignments: list[str] | None, takes: str = "--set takes section.key=value") -> dict[str, str]:
    """Settings by name, from the values of a flag."""
    values = {}
    for assignment in assignments or ():
        name, equals, value = assignment.partition("=")
        if not equals:
            raise typer.BadParameter(f"{takes}, not {assignment!r}")
        values[name.strip()] = value
    return values


def _reject_intervals(context: typer.Context, scenario: str) -> None:
    """Reject flags that belong to another scenario."""
    takes = ", ".join(_flags(context, WORKLOAD).values())
    for name, flag in _flags(context, INTERVALS).items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise BenchError(f"{flag} is a flag of the scenario intervals; the workload {scenario} takes {takes}")


def _flags(context: typer.Context, heading: str) -> dict[str, str]:
    """Functions for typer's flags under a heading of the help, by the names of their parameters."""
    flags = [flag for flag in context.command.params if getattr(flag, "rich_help_panel", None) == heading]
    return {flag.name: flag.opts[0] for flag in flags if flag.name}


def _range(text: str) -> tuple[int, int]:
    least, dash, most = text.partition("-")
    try:
        return int(least), int(most if dash else least)
    except ValueError:
        raise BenchError(f"predicates cannot be {text!r}; use a number or a range such as 1-10") from None


@contextmanager
def _wrong_flags() -> Iterator[None]:
    try:
        yield
    except (BenchError, LoadError, MatchingError) as error:  # the latter of an option's value
        raise typer.BadParameter(str(error)) from None


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Print progress only when there is some: a spinner would run within the measured time."""
    columns = (TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=err, transient=True, auto_refresh=False, disable=not err.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda what: bar.update(task, description=what, refresh=True)
