"""The CSV files of an experiment: what was measured, and beside it what the paper states."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from math import isnan
from pathlib import Path
from typing import Any

from bench.figures import METRICS
from bench.sweeps import Outcome, Row


def write(outcome: Outcome, directory: Path) -> list[Path]:
    """`PAPER-NUMBER.csv`, and `PAPER-NUMBER-stated.csv` if the paper's text has numbers."""
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
                "statement": s.said,
                "paper": s.paper,
                "ours": "" if s.ours is None else s.ours,
            }
            for s in statements
        ),
    )
    return [measured, stated]


def _columns(outcome: Outcome, row: Row) -> dict[str, Any]:
    measurement, workload = row.measurement, row.workload
    point = next(p for p in outcome.figure.points if p.x == row.x)
    return {
        "figure": outcome.figure.name,
        "parameter": outcome.figure.axis,
        "value": point.label or f"{row.x * outcome.scale if outcome.figure.grows else row.x:g}",
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
        "subscriptions": workload.subscriptions,
        "attributes": workload.attributes,
        "predicates": "-".join(map(str, dict.fromkeys(workload.predicates))),
        "width": workload.width,
        "width_spread": workload.width_spread,
        "event_size": workload.attributes if workload.event_size is None else workload.event_size,
        "attribute_distribution": workload.attribute_distribution,
        "value_distribution": workload.values,
        "event_value_distribution": workload.event_values,
        "dataset": workload.dataset.name if workload.dataset else "",
        "seed": workload.seed,
    }


def _write(file: Path, rows: Iterable[dict[str, Any]]) -> None:
    found = list(rows)
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(found[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
