"""Run `bench sweep`, `bench choices` and `bench search`: the experiments of the papers, and where `auto` is behind."""

from __future__ import annotations

from math import inf
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.text import Text

from bench.commands.flags import (
    Batch,
    Dataset,
    Rounds,
    Seconds,
    Seed,
    Settling,
    err,
    listed,
    listed_numbers,
    progress,
    wide,
    wrong_flags,
)
from bench.errors import BenchError
from bench.matching import memory, printing
from bench.matching.choices import BATCHES, CHOOSER, EXACT, SIZES, WORKLOADS, compare, grid
from bench.matching.measure import Effort
from bench.matching.search import drawn
from bench.matching.search import rows as search_rows
from bench.papers import PAPERS, tables
from bench.papers.continued import ContinuedFile
from bench.papers.points import of_sweeps
from bench.papers.sweeps import Outcome, figures, run
from bench.workloads.configurations.drawing import LEAST_SUBSCRIPTIONS, MOST_SUBSCRIPTIONS
from bench.workloads.synthetic import Workload
from matchers.errors import known
from matchers.registry import ALGORITHMS

app = typer.Typer()


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
    with wrong_flags(), progress() as tell, memory.limited():
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

    Rows are appended to the file. Points measured with the same algorithms and code are not measured again; rows of
    other code are replaced. Exit code 1 if an answer is wrong.
    """
    names, compared, papers = listed(workloads, WORKLOADS), listed(algorithms, EXACT), listed(sweeps, PAPERS)
    with wrong_flags(), progress() as tell:
        for there, asked in ((WORKLOADS, names), (ALGORITHMS, compared), (PAPERS, papers)):
            for name in asked:
                if name not in there:
                    raise BenchError(f"unknown name {name!r}; {known(name, there)}")
        if not all(size.strip().isdecimal() and int(size) for size in sizes.split(",")):
            raise BenchError(
                f"sizes cannot be {sizes!r}; they are numbers of subscriptions from 1 on, such as 100,1000"
            )
        file = ContinuedFile(out, ["scan", *compared, CHOOSER])
        points = grid(names, map(int, sizes.split(","))) if sweeps is None else of_sweeps(papers, scale, BATCHES[-1])
        for name, n, scenario in points:
            point = {"workload": name, "asked": str(n)}
            if not file.has(point):
                tell(f"{name}, {n:,} subscriptions")
                file.replace(point, [{"asked": str(n), **row.as_data()} for row in compare(name, scenario, compared)])
    printing.show_choices(file.current, wide())
    raise typer.Exit(0 if file.right else 1)


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
        typer.Option(
            "--out",
            "-o",
            help="CSV file to append rows to. Configurations measured with the same algorithms and code are skipped.",
        ),
    ] = None,
) -> None:
    """Search random configurations for those where auto and tiles are far behind the best of all exact algorithms.

    Prints the worst ten of each. A configuration SEED:NUMBER is measured again, alone, with --seed and --number.
    Exit code 1 if an answer is wrong.
    """
    compared = listed(algorithms, EXACT)
    with wrong_flags(), progress() as tell:
        for name in compared:
            if name not in ALGORITHMS:
                raise BenchError(f"unknown name {name!r}; {known(name, ALGORITHMS)}")
        batches = listed_numbers("batch", batch)
        asked = range(configurations) if number is None else listed_numbers("number", number, least=0)
        file = ContinuedFile(out, ["scan", *compared, CHOOSER])
        end = inf if seconds is None else perf_counter() + seconds
        for found in drawn(seed, asked, most_subscriptions):
            if perf_counter() > end:
                break
            point = {"workload": found.name}
            if not file.has(point):
                tell(f"{found.name}, {found.subscriptions:,} subscriptions")
                file.replace(point, [*search_rows(found, compared, batches)])
    printing.show_search(file.current, wide())
    raise typer.Exit(0 if file.right else 1)
