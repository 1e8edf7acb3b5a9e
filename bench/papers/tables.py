"""Write the CSV files of an experiment: measurements, and the paper's numbers beside ours."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from math import isnan
from pathlib import Path
from typing import Any

from bench.papers.figures import METRICS
from bench.papers.sweeps import Outcome, Rivals, Row


def write(outcome: Outcome, directory: Path) -> list[Path]:
    """Write `PAPER-NUMBER.csv`, and `PAPER-NUMBER-stated.csv` if the paper's text has numbers."""
    measured = directory / f"{outcome.figure.name}.csv"
    _write(measured, (_columns(outcome, row) for row in outcome.rows))
    statements = outcome.statements()
    if not statements:
        return [measured]
    stated = directory / f"{outcome.figure.name}-stated.csv"
    _write(
        stated,
        (
            {
                "metric": METRICS[s.metric].column,
                "statement": s.claim,
                "paper": s.paper,
                "ours": "" if s.ours is None else s.ours,
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
    file = directory / f"{outcomes[0].figure.paper}-fastest.csv"
    _write(file, rows)
    return [file]


def _rivals(outcome: Outcome, rivals: Rivals) -> dict[str, Any]:
    fastest, ours = rivals.fastest, rivals.ours
    return {
        **_place(outcome, rivals.x),
        "fastest": fastest.label if fastest else "",
        METRICS["us"].column: fastest.value("us") if fastest else "",
        "ours": outcome.figure.ours,
        f"ours_{METRICS['us'].column}": ours.value("us") if ours else "",
        "ratio": fastest.value("us") / ours.value("us") if fastest and ours else "",
    }


def _place(outcome: Outcome, x: float) -> dict[str, Any]:
    point = next(p for p in outcome.figure.points if p.x == x)
    return {
        "figure": outcome.figure.name,
        "parameter": outcome.figure.axis,
        "value": point.label or f"{x * outcome.scale if outcome.figure.grows else x:g}",
    }


def _columns(outcome: Outcome, row: Row) -> dict[str, Any]:
    measurement = row.measurement
    return {
        **_place(outcome, row.x),
        "series": row.label,
        "algorithm": measurement.candidate.algorithm,
        "options": json.dumps(dict(measurement.candidate.options)),
        **{metric.column: "" if isnan(row.value(name)) else row.value(name) for name, metric in METRICS.items()},
        **({} if measurement.batch == 1 else {METRICS["us_std"].column: ""}),  # of batches it would mean nothing
        "us_per_event_median": measurement.us_per_event_median,
        "build_s": measurement.build_s,
        "matches": measurement.matches,
        "events_measured": measurement.events_measured,
        "batch": measurement.batch,
        "rounds": measurement.rounds,
        "checked": measurement.checked,
        **row.workload.as_data(),
    }


def _write(file: Path, rows: Iterable[dict[str, Any]]) -> None:
    lines = list(rows)
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
