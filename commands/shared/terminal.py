"""Output of commands: standard output, standard error, progress."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

out = Console(soft_wrap=True)
err = Console(stderr=True, soft_wrap=True)


def emit(what: Any, as_json: bool) -> None:
    """Print on standard output."""
    print(orjson.dumps(what.as_data()).decode() if as_json else what)


def note(text: str) -> None:
    """Print on standard error."""
    err.print(Text(text))


def counted(n: int, nouns: str) -> str:
    """A number with its noun: 1 event, 2 events."""
    return f"{n:,} {nouns.removesuffix('s') if n == 1 else nouns}"


def eprint(text: str) -> None:
    """Print on standard error without markup: faster, for up to a million lines."""
    print(text, file=sys.stderr)


@contextmanager
def progress_of(what: str, total: int | None = None, quiet: bool = False) -> Iterator[Any]:
    kind = SpinnerColumn() if total is None else BarColumn()
    columns = (kind, TextColumn("{task.completed:,} {task.description}"), TimeElapsedColumn())
    hidden = quiet or not err.is_terminal
    # Leave standard output alone: rich would redirect it to the console of the bar.
    with Progress(*columns, console=err, transient=True, disable=hidden, redirect_stdout=False) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
