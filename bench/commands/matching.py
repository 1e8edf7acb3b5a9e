"""Run `bench matchers` and `bench library`: algorithms on one workload, and the library as a program calls it."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.text import Text

from bench.commands.flags import (
    INTERVALS,
    WORKLOAD,
    Batch,
    Dataset,
    Rounds,
    Seconds,
    Seed,
    Settling,
    err,
    listed_numbers,
    progress,
    wide,
    wrong_flags,
)
from bench.errors import BenchError
from bench.matching import memory, printing
from bench.matching.candidates import candidates
from bench.matching.library import measure as library_times
from bench.matching.measure import Effort
from bench.matching.turns import measure_in_turns
from bench.workloads.distributions import Distribution
from bench.workloads.event_bus import EventBus
from bench.workloads.filters import Filters
from bench.workloads.prepared import Scenario
from bench.workloads.synthetic import Workload
from matchers.errors import known
from matchers.registry import ALGORITHMS, runnable

app = typer.Typer()
SCENARIOS = ("intervals", "event-bus", "pcm-default")


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
    with wrong_flags(), progress() as tell, memory.limited():
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
        printing.show(measured, wide())
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
    with wrong_flags(), progress() as tell:
        measured = []
        for n in listed_numbers("rules", rules):
            tell(f"{n:,} rules")
            measured.append(library_times(n, events, algorithm, rounds, seed))
    if as_json:
        for one in measured:
            typer.echo(json.dumps(one.as_data()))
    else:
        printing.show_library(measured, wide())
    raise typer.Exit(0 if all(one.checked for one in measured) else 1)


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
