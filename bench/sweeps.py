"""Run the experiments of a paper, and compare what comes out with what its text states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from bench import dataset
from bench.candidates import Candidate, options_of
from bench.errors import BenchError
from bench.figures import Figure, Point, Ratio, Series, Value
from bench.measure import Effort, Measurement, measure
from bench.papers import PAPERS
from bench.workloads import Workload
from matchers import ALGORITHMS
from matchers.errors import known


@dataclass(frozen=True)
class Row:
    """One series at one point."""

    x: float  # as the paper has it
    label: str
    workload: Workload
    measurement: Measurement

    def value(self, metric: str) -> float:
        measured, n = self.measurement, self.workload.subscriptions
        values: dict[str, Callable[[], float]] = {
            "us": lambda: measured.us_per_event,
            "us_std": lambda: float(np.std(measured.us)),
            "insertion": lambda: measured.build_s / n * 1e6,
            "memory": lambda: measured.memory_bytes,
            "selectivity": lambda: measured.matches / measured.events_measured / n,
            "false": lambda: measured.answer.false_positive_rate,
        }
        return values[metric]()


@dataclass(frozen=True)
class Statement:
    """What the paper states, and what came out here if it could be measured."""

    metric: str
    said: str
    paper: float
    ours: float | None


@dataclass(frozen=True)
class Outcome:
    """A figure with its measurements. Without rows, none of its algorithms is there."""

    figure: Figure
    scale: float
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(row.label for row in self.rows))

    def values(self, label: str, metric: str) -> dict[float, float]:
        """By x."""
        return {row.x: row.value(metric) for row in self.rows if row.label == label}

    def statements(self) -> list[Statement]:
        return [self._compared(stated) for stated in self.figure.stated]

    def _compared(self, stated: Value | Ratio) -> Statement:
        if isinstance(stated, Value):
            at = "" if stated.x is None else f" at {stated.x:g}"
            said = f"{stated.label}{at}" + (f": {stated.said}" if stated.said else "")
            found = self.values(stated.label, stated.metric)
            return Statement(stated.metric, said, stated.value, None if stated.x is None else found.get(stated.x))
        of, to = self.values(stated.of, stated.metric), self.values(stated.to, stated.metric)
        points = of.keys() & to.keys() if stated.x is None else {stated.x}
        ratios = [
            of[x] / to[other]
            for x in points
            for other in [x if stated.to_x is None else stated.to_x]
            if x in of and to.get(other)
        ]
        said = f"{stated.of} / {stated.to}, {stated.said}"
        return Statement(stated.metric, said, stated.value, fmean(ratios) if ratios else None)


def figures(paper: str, numbers: Iterable[str] | None) -> list[Figure]:
    """Those of these numbers, or all. Raises BenchError."""
    if paper not in PAPERS:
        raise BenchError(f"unknown paper {paper!r}; {known(paper, PAPERS)}")
    there = {figure.number: figure for figure in PAPERS[paper]}
    chosen = list(there) if numbers is None else list(dict.fromkeys(numbers))
    for number in chosen:
        if number not in there:
            raise BenchError(f"{paper} has no experiment {number!r}; known: {', '.join(there)}")
    return [there[number] for number in chosen]


def run(
    figure: Figure,
    scale: float,
    effort: Effort,
    data: Path | None = None,
    seed: int = 1,
    tell: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """With `scale` of the paper's subscriptions. Raises BenchError."""
    if not scale > 0:
        raise BenchError(f"scale cannot be {scale:g}; it must be above 0, the share of the paper's subscriptions")
    effort = replace(effort, batch=min(effort.batch, figure.batch or effort.batch))
    notes = dict.fromkeys(filter(None, [figure.note, *(_missing(s, figure.points) for s in figure.series)]))
    series = [s for s in figure.series if not _missing(s, figure.points)]
    rows: list[Row] = []
    for point in figure.points if series else ():
        workload = replace(figure.workload, **point.workload, seed=seed)
        workload = replace(workload, subscriptions=max(1, round(workload.subscriptions * scale)))
        if data:
            columns = dataset.read(data).shape[1]
            if workload.attributes <= columns:
                workload = replace(workload, dataset=data)
            else:
                notes[f"{workload.attributes} attributes are more than the data's {columns}: uniform values there."] = (
                    None
                )
        chosen = [Candidate(s.algorithm, {**s.options, **point.options}) for s in series]
        where = f"{figure.name}, {figure.axis} {point.label or f'{point.x:g}'}"
        measured = measure(workload, chosen, effort, lambda what, where=where: tell(f"{where}: {what}"))
        rows += [Row(point.x, s.label, workload, m) for s, m in zip(series, measured, strict=True)]
    return Outcome(figure, scale, tuple(rows), tuple(notes))


def _missing(series: Series, points: Iterable[Point]) -> str:
    """Why it cannot be measured."""
    if series.algorithm not in ALGORITHMS:
        return f"{series.algorithm} is not among the algorithms."
    wanted: list[Mapping[str, Any]] = [series.options, *(point.options for point in points)]
    unknown = {option for options in wanted for option in options} - set(options_of(series.algorithm))
    return f"{series.label}: {series.algorithm} has no option {', '.join(sorted(unknown))}." if unknown else ""
