"""Write the CSV files of an experiment, measurements and the paper's numbers beside ours, and read the former."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.papers.figures import METRICS
from bench.papers.sweeps import Outcome, Rivals


def read(outcome_file: Path) -> list[dict[str, str]]:
    """The rows that an earlier run has written; none if there is no such file."""
    if not outcome_file.exists():
        return []
    with outcome_file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def write_measured(outcome: Outcome, directory: Path) -> Path:
    """Write `NAME.csv`, with a row for each measurement and for each that was left out."""
    file = directory / f"{outcome.name}.csv"
    write_rows(file, (row.columns for row in (*outcome.rows, *outcome.left_out)))
    return file


def write(outcome: Outcome, directory: Path) -> list[Path]:
    """Write `NAME.csv`, and `NAME-stated.csv` if the paper's text has numbers."""
    measured = write_measured(outcome, directory)
    statements = outcome.statements()
    if not statements:
        return [measured]
    stated = directory / f"{outcome.name}-stated.csv"
    ours = "ours" if outcome.batch == 1 else "ours_in_batches"  # papers match one event at a time
    write_rows(
        stated,
        (
            {
                "metric": METRICS[s.metric].column,
                "statement": s.claim,
                "paper": s.paper,
                ours: "" if s.ours is None else s.ours,
                f"{ours}_cpu": "" if s.ours_cpu is None else s.ours_cpu,
            }
            for s in statements
        ),
    )
    return [measured, stated]


def write_rivals(outcomes: Sequence[Outcome], directory: Path) -> list[Path]:
    """Write `PAPER-fastest.csv`: for each point, the figure's own series and the fastest other algorithm."""
    rows = [_rivals(outcome, rivals) for outcome in outcomes for rivals in outcome.rivals()]
    if not rows:
        return []
    first = outcomes[0]
    file = directory / f"{first.figure.paper}-fastest{first.name.removeprefix(first.figure.name)}.csv"
    write_rows(file, rows)
    return [file]


def _rivals(outcome: Outcome, rivals: Rivals) -> dict[str, Any]:
    fastest, ours = rivals.fastest, rivals.ours
    some = fastest or ours
    return {
        **({name: some.columns[name] for name in ("figure", "parameter", "value", "batch")} if some else {}),
        "fastest": fastest.label if fastest else "",
        METRICS["us"].column: fastest.value("us") if fastest else "",
        "ours": outcome.figure.ours,
        f"ours_{METRICS['us'].column}": ours.value("us") if ours else "",
        "ratio": fastest.value("us") / ours.value("us") if fastest and ours else "",
    }


def write_rows(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows that have the same columns as the first."""
    lines = list(rows)
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
