"""The commands `bench matchers`, `bench sweep` and `bench living`: flags in, a table or JSON lines out."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from bench import printing, tables
from bench.candidates import candidates
from bench.distributions import Distribution
from bench.errors import BenchError
from bench.event_bus import EventBus
from bench.filters import Filters
from bench.living.load import Load
from bench.measure import Effort, measure
from bench.papers import PAPERS
from bench.prepared import Scenario
from bench.sweeps import figures, run
from bench.workloads import Workload
from matchers import MatchingError
from matchers.algorithms import here
from matchers.errors import known

app = typer.Typer(
    no_args_is_help=True, help="How fast is each matching algorithm, how fast is the whole, and is the answer right?"
)
err = Console(stderr=True, soft_wrap=True)

# Of the commands that start the whole system.
Subscribers = Annotated[int, typer.Option(help="How many own them.")]
Symbols = Annotated[int, typer.Option(help="Texts of which an event has one and a subscription wants one.")]
Matches = Annotated[float, typer.Option(help="Subscriptions that match an event, on average.")]
Algorithm = Annotated[str, typer.Option("--algorithm", "-a", help="Matching algorithm.")]
Layout = Annotated[str, typer.Option("--layout", help="Where deliveries go: shared or topic_per_subscriber.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", "-s", help="A setting of the job: -s events.max_per_batch=10000")
]
WORKLOAD, INTERVALS = "Workload", "Workload of intervals"  # headings above flags in the help
SCENARIOS = ("intervals", "event-bus", "pcm-default")

Seconds = Annotated[float, typer.Option(help="Time to match in, for each algorithm and workload.", min=0)]
Rounds = Annotated[int, typer.Option(help="Turns that each algorithm has; the least of them counts.", min=1)]
Batch = Annotated[int, typer.Option(help="Events that an algorithm is given at once, at most.", min=1)]
Seed = Annotated[int, typer.Option(help="The same seed gives the same workload.", min=0, rich_help_panel=WORKLOAD)]
Dataset = Annotated[
    Path | None,
    typer.Option(
        help="Real events: a text file, a row of numbers each; predicates lie around its values.",
        rich_help_panel=INTERVALS,
    ),
]


@app.command()
def matchers(
    context: typer.Context,
    scenario: Annotated[
        str,
        typer.Option(
            help="What is matched: intervals; event-bus: JSON rules and events; pcm-default: filters behind interfaces."
        ),
    ] = SCENARIOS[0],
    algorithms: Annotated[
        str | None, typer.Option("--algorithms", "-a", help="Names with commas between; all but naive if left out.")
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help="Of an algorithm: --option hem.g=32")] = None,
    seconds: Seconds = Effort.seconds,
    rounds: Rounds = Effort.rounds,
    batch: Batch = Effort.batch,
    profile: Annotated[bool, typer.Option("--profile", help="What algorithms that can tell do for an event.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object per algorithm and line.")] = False,
    subscriptions: Annotated[
        int | None,
        typer.Option(
            "--subscriptions",
            "-n",
            help=f"How many; {Workload.subscriptions:,} if left out. Of pcm-default about so many; "
            f"{Filters().average:,} if left out.",
            rich_help_panel=WORKLOAD,
        ),
    ] = None,
    attributes: Annotated[
        int, typer.Option("--attributes", "-d", help="How many there are.", rich_help_panel=INTERVALS)
    ] = Workload.attributes,
    predicates: Annotated[
        str, typer.Option("--predicates", "-k", help="Of a subscription; or a range, 1-10.", rich_help_panel=INTERVALS)
    ] = "10",
    width: Annotated[
        float, typer.Option("--width", "-w", help="Of predicates, within 0 .. 1.", rich_help_panel=INTERVALS)
    ] = Workload.width,
    width_spread: Annotated[
        float, typer.Option(help="Widths lie between the width and so much more.", rich_help_panel=INTERVALS)
    ] = Workload.width_spread,
    codes: Annotated[
        int | None,
        typer.Option(help="How many values there are, as of texts; any number if left out.", rich_help_panel=INTERVALS),
    ] = None,
    equal: Annotated[
        float, typer.Option(help="Share of predicates that want one value.", rich_help_panel=INTERVALS)
    ] = Workload.equal,
    events: Annotated[
        int | None,
        typer.Option(
            help=f"How many at most; {Workload.events} if left out, of event-bus {EventBus.events:,}, "
            f"of pcm-default {Filters.events:,}.",
            rich_help_panel=WORKLOAD,
        ),
    ] = None,
    event_size: Annotated[
        int | None, typer.Option(help="Attributes of an event; all if left out.", rich_help_panel=INTERVALS)
    ] = None,
    attribute_distribution: Annotated[
        str, typer.Option(help="uniform or zipf:EXPONENT; of subscriptions and events.", rich_help_panel=INTERVALS)
    ] = "uniform",
    value_distribution: Annotated[
        str,
        typer.Option(
            help="uniform, normal:VARIANCE, pareto:SHAPE or zipf:EXPONENT; of predicates and events.",
            rich_help_panel=INTERVALS,
        ),
    ] = "uniform",
    event_value_distribution: Annotated[
        str | None, typer.Option(help="Of events, if it is another one.", rich_help_panel=INTERVALS)
    ] = None,
    dataset: Dataset = None,
    seed: Seed = Workload.seed,
) -> None:
    """Algorithms side by side on one workload. Every answer is checked against scan; exit code 1 if one is wrong."""
    names = algorithms.split(",") if algorithms is not None else [name for name in here() if name != "naive"]
    with _wrong_flags(), _progress() as tell:
        workload: Scenario
        if scenario not in SCENARIOS:
            raise BenchError(f"unknown scenario {scenario!r}; {known(scenario, SCENARIOS)}")
        if scenario != "intervals":
            _refuse_intervals(context, scenario)
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
        measured = measure(workload, chosen, Effort(seconds, rounds, batch), tell, profile)
    if profile and all(one.profile is None for one in measured):
        err.print(Text("No algorithm that was measured has a profile."))
    if as_json:
        for one in measured:
            typer.echo(json.dumps(one.as_data()))
    else:
        out = Console()
        out.width = out.width if out.is_terminal else max(out.width, 140)  # a pipe has room
        printing.show(measured, out)
    raise typer.Exit(0 if all(one.checked for one in measured) else 1)


@app.command()
def sweep(
    paper: Annotated[str, typer.Argument(help=f"{', '.join(PAPERS)}.")],
    numbers: Annotated[
        str | None, typer.Option("--figures", help="Numbers with commas between; all if left out.", show_default=False)
    ] = None,
    scale: Annotated[float, typer.Option(help="Share of the paper's subscriptions.")] = 0.01,
    directory: Annotated[Path, typer.Option("--out", "-o", help="Where the files go.")] = Path("figures"),
    seconds: Seconds = 0.3,
    rounds: Rounds = 2,
    batch: Batch = Effort.batch,
    dataset: Dataset = None,
    seed: Seed = Workload.seed,
) -> None:
    """The experiments of a paper, each as a CSV file and a PNG with what its text states beside ours.

    Algorithms that are not there are left out with a note. Exit code 1 if an answer is wrong.
    """
    from bench.draw import draw  # its import takes half a second that no other command needs

    right, outcomes = True, []
    with _wrong_flags(), _progress() as tell:
        chosen = figures(paper, None if numbers is None else [number.strip() for number in numbers.split(",")])
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BenchError(f"{directory}: no files can be written there: {error.strerror}") from None
        for figure in chosen:
            outcome = run(figure, scale, Effort(seconds, rounds, batch), dataset, seed, tell)
            for note in outcome.notes:
                err.print(Text(f"{figure.name}: {note}"))
            if not outcome.rows:
                err.print(Text(f"{figure.name}: left out"))
                continue
            outcomes.append(outcome)
            for file in [*tables.write(outcome, directory), draw(outcome, directory)]:
                typer.echo(file)
            for row in outcome.rows:
                if not row.measurement.checked:
                    right = False
                    err.print(Text(f"{figure.name}: {row.label} at {row.x:g} is WRONG", "bold red"))
        for file in tables.write_rivals(outcomes, directory):
            typer.echo(file)
    raise typer.Exit(0 if right else 1)


@app.command()
def living(
    subscriptions: Annotated[
        int, typer.Option("--subscriptions", "-n", help="How many are in force, about.")
    ] = Load.subscriptions,
    events_per_second: Annotated[float, typer.Option(help="Rate of events.")] = Load.events_per_second,
    changes_per_second: Annotated[
        float, typer.Option(help="Rate of additions, replacements and withdrawals together.")
    ] = Load.changes_per_second,
    minutes: Annotated[float, typer.Option(help="How long.")] = Load.minutes,
    subscribers: Subscribers = Load.subscribers,
    symbols: Symbols = Load.symbols,
    matches: Matches = Load.matches,
    algorithm: Algorithm = "tiles",
    deliveries: Layout = "shared",
    set_: Set = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same load.", min=0)] = Load.seed,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """The whole system under load while its subscriptions change, with every delivery checked.

    Starts a broker and the job, and ends them. Exit code 1 if any delivery is missing, there twice or wrong.
    """
    from bench.living import report  # what the stream needs, no other command does
    from bench.living import run as running

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
    outcome = running.run(load, flags, lambda what: err.print(Text(what)))
    report.show(outcome, err)
    if as_json:
        typer.echo(json.dumps(outcome.as_data()))
    raise typer.Exit(0 if outcome.right else 1)


@app.command()
def system(
    subscriptions: Annotated[str, typer.Option("--subscriptions", "-n", help="How many; several with commas.")] = (
        "10000,250000,1000000"
    ),
    rates: Annotated[str, typer.Option(help="Events per second, ascending until one is not sustained.")] = (
        "1000,2000,5000,10000,20000,50000,100000"
    ),
    systems: Annotated[
        str,
        typer.Option(help="sluice, and what one would write with Spark alone: join, udf, udf_by_symbol; with commas."),
    ] = "sluice",
    seconds: Annotated[float, typer.Option(help="Of each rate.")] = 30.0,
    matches: Matches = Load.matches,
    subscribers: Subscribers = Load.subscribers,
    symbols: Symbols = Load.symbols,
    algorithm: Algorithm = "tiles",
    deliveries: Layout = "shared",
    set_: Set = None,
    directory: Annotated[
        Path | None, typer.Option("--out", help="Directory for system.json, system.md and system.png.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines on standard output, as they come.")] = False,
) -> None:
    """How many events a second the whole system takes, and how late they are; every delivery checked.

    Systems other than sluice know the subscriptions that were there when they started, and deliver at least once.
    Broker, generator and checker run on the same machine and share it. Exit code 1 if any delivery is wrong.
    """
    from bench.living import system as measuring  # what the stream needs, no other command does
    from bench.living.run import SYSTEMS

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
        if flags["deliveries.layout"] != "shared" and chosen != ["sluice"]:
            raise BenchError("only sluice has another layout than shared")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # by way of all that it has to stop
    rows = []
    for row in measuring.ramp(load, chosen, numbers, wanted, flags, lambda what: err.print(Text(what))):
        rows.append(row)
        if as_json:
            typer.echo(json.dumps(row.as_data()))
    if not as_json and sys.stdout.isatty():
        Console().print(measuring.table(rows))
    elif not as_json:
        typer.echo(measuring.markdown(rows), nl=False)
    if directory:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "system.json").write_text(json.dumps([row.as_data() for row in rows], indent=1) + "\n")
        (directory / "system.md").write_text(measuring.markdown(rows))
        measuring.draw(rows, directory / "system.png")
    raise typer.Exit(0 if all(row.right for row in rows) else 1)


def _numbers(name: str, text: str) -> list[int]:
    try:
        found = [int(number) for number in text.split(",")]
    except ValueError:
        raise BenchError(f"{name} cannot be {text!r}; numbers with commas between them would work") from None
    if min(found) < 1:
        raise BenchError(f"{name} cannot be {text!r}; each must be 1 or more")
    return found


def _assigned(assignments: list[str] | None) -> dict[str, str]:
    """Settings of the job, by name."""
    found = {}
    for assignment in assignments or ():
        name, equals, value = assignment.partition("=")
        if not equals:
            raise typer.BadParameter(f"--set takes section.key=value, not {assignment!r}")
        found[name.strip()] = value
    return found


def _refuse_intervals(context: typer.Context, scenario: str) -> None:
    """A flag of another scenario is a mistake, and not passed over."""
    takes = ", ".join(_flags(context, WORKLOAD).values())
    for name, flag in _flags(context, INTERVALS).items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise BenchError(f"{flag} is of the scenario intervals; of the workload {scenario} takes {takes}")


def _flags(context: typer.Context, heading: str) -> dict[str, str]:
    """Under a heading of the help, by the names of their parameters."""
    flags = [flag for flag in context.command.params if getattr(flag, "rich_help_panel", None) == heading]
    return {flag.name: flag.opts[0] for flag in flags if flag.name}


def _range(text: str) -> tuple[int, int]:
    least, dash, most = text.partition("-")
    try:
        return int(least), int(most if dash else least)
    except ValueError:
        raise BenchError(f"predicates cannot be {text!r}; a number or a range such as 1-10 would work") from None


@contextmanager
def _wrong_flags() -> Iterator[None]:
    try:
        yield
    except (BenchError, MatchingError) as error:  # the latter of an option's value
        raise typer.BadParameter(str(error)) from None


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Drawn only when there is something to tell: a spinner would turn in the time that is measured."""
    columns = (TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=err, transient=True, auto_refresh=False, disable=not err.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda what: bar.update(task, description=what, refresh=True)
