"""The flags that several commands of `bench` share, and what their texts mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from bench.errors import BenchError
from matchers import MatchingError
from rig.load import LoadError

err = Console(stderr=True, soft_wrap=True)
WORKLOAD, INTERVALS = "Workload", "Workload of intervals"  # headings above flags in the help

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


def listed(text: str | None, every: Iterable[str]) -> list[str]:
    """Return comma-separated names, or without a text all."""
    return list(every) if text is None else [name.strip() for name in text.split(",")]


def listed_numbers(name: str, text: str, least: int = 1) -> list[int]:
    """Return comma-separated numbers. Raises BenchError, with the flag's name."""
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError:
        raise BenchError(f"{name} cannot be {text!r}; use comma-separated numbers") from None
    if min(numbers) < least:
        raise BenchError(f"{name} cannot be {text!r}; each must be {least} or more")
    return numbers


@contextmanager
def wrong_flags() -> Iterator[None]:
    """Report what a flag's value cannot be as Typer reports it: with the usage, and exit code 2."""
    try:
        yield
    except (BenchError, LoadError, MatchingError) as error:  # the latter of an option's value
        raise typer.BadParameter(str(error)) from None


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Print progress only when there is some: a spinner would run within the measured time."""
    columns = (TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=err, transient=True, auto_refresh=False, disable=not err.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda what: bar.update(task, description=what, refresh=True)


def wide() -> Console:
    """Return standard output as a console. A pipe has room for wide tables."""
    console = Console()
    console.width = console.width if console.is_terminal else max(console.width, 140)
    return console
