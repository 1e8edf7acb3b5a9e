"""Run the experiments of a paper and compare the results with its text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import isnan, nan
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from bench.errors import BenchError
from bench.matching.candidates import Candidate, options_of
from bench.matching.inserting import us_per_insert
from bench.matching.measure import Effort, Measurement, measure
from bench.papers import PAPERS
from bench.papers.figures import Figure, Point, Ratio, Series, Value, Varied
from bench.workloads import dataset
from bench.workloads.synthetic import Workload
from matchers import algorithms
from matchers.errors import known


@dataclass(frozen=True)
class Row:
    """One series at one point."""

    x: float  # as the paper has it
    label: str
    workload: Varied
    measurement: Measurement
    us_per_insert: float = nan  # where a figure asks for it

    def value(self, metric: str) -> float:
        measured, n = self.measurement, self.workload.subscriptions
        values: dict[str, Callable[[], float]] = {
            "us": lambda: measured.us_per_event,
            "us_std": lambda: float(np.std(measured.us)),
            "insertion": lambda: measured.build_s / n * 1e6,
            "insert": lambda: self.us_per_insert,
            "memory": lambda: measured.memory_bytes,
            "selectivity": lambda: measured.matches / measured.events_measured / self.workload.listable,
            "false": lambda: measured.answer.false_positive_rate,
        }
        return values[metric]()


@dataclass(frozen=True)
class Statement:
    """A claim of the paper and our figure for it, if it could be measured."""

    metric: str
    claim: str
    paper: float
    ours: float | None


@dataclass(frozen=True)
class Rivals:
    """The figure's own series at one point, and the fastest of the others there."""

    x: float
    fastest: Row | None
    ours: Row | None


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
        """The values of a metric by x."""
        values = {row.x: row.value(metric) for row in self.rows if row.label == label}
        return {x: value for x, value in values.items() if not isnan(value)}

    def metrics(self) -> list[str]:
        """The metrics of the figure that have measurements."""
        return [m for m in self.figure.metrics if any(self.values(label, m) for label in self.labels)]

    def rivals(self) -> list[Rivals]:
        """One entry for each point; none if a figure has no series of its own."""
        rivals = []
        for x in dict.fromkeys(row.x for row in self.rows) if self.figure.ours else ():
            here = {row.label: row for row in self.rows if row.x == x}
            ours = here.pop(self.figure.ours, None)
            rivals.append(Rivals(x, min(here.values(), key=lambda row: row.value("us"), default=None), ours))
        return rivals

    def statements(self) -> list[Statement]:
        return [self._compared(stated) for stated in self.figure.stated]

    def _compared(self, stated: Value | Ratio) -> Statement:
        if isinstance(stated, Value):
            at = "" if stated.x is None else f" at {stated.x:,.10g}"
            claim = f"{stated.label}{at}" + (f": {stated.scope}" if stated.scope else "")
            values = self.values(stated.label, stated.metric)
            return Statement(stated.metric, claim, stated.value, None if stated.x is None else values.get(stated.x))
        of, to = self.values(stated.of, stated.metric), self.values(stated.to, stated.metric)
        points = of.keys() & to.keys() if stated.x is None else {stated.x}
        ratios = [
            of[x] / to[other]
            for x in points
            for other in [x if stated.to_x is None else stated.to_x]
            if x in of and to.get(other)
        ]
        claim = f"{stated.of} / {stated.to}, {stated.scope}"
        return Statement(stated.metric, claim, stated.value, fmean(ratios) if ratios else None)


def figures(paper: str, numbers: Iterable[str] | None) -> list[Figure]:
    """The figures with these numbers, or all. Raises BenchError."""
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
    """Measure a figure with a share `scale` of the paper's subscriptions. Raises BenchError."""
    if not scale > 0:
        raise BenchError(f"scale cannot be {scale:g}; it must be above 0, the share of the paper's subscriptions")
    if figure.real and data is None:
        return Outcome(figure, scale, (), ("It is about real events, which --dataset would give.",))
    data = None if figure.real is False else data
    effort = replace(effort, batch=min(effort.batch, figure.batch or effort.batch))
    can = algorithms.runnable()
    absent = dict.fromkeys(s.algorithm for s in figure.series if s.algorithm not in can)
    there = [s for s in figure.series if s.algorithm in can]
    unknown = {s.label: _unknown(s, figure.points) for s in there}
    there = [s for s in there if not unknown[s.label]]
    notes = [
        figure.note,
        f"Not among the algorithms here: {', '.join(absent)}." if absent else "",
        *(f"Left out, for want of its option {', '.join(options)}: {s}." for s, options in unknown.items() if options),
    ]
    rows: list[Row] = []
    for point in figure.points if there else ():
        workload = replace(figure.workload, **point.workload, seed=seed).scaled(scale)
        if data and isinstance(workload, Workload):
            if workload.attributes <= dataset.read(data).shape[1]:
                workload = replace(workload, dataset=data)
            else:
                notes.append(f"With {workload.attributes} attributes, more than {data.name} has, values are uniform.")
        tell(f"{figure.name}, {figure.axis}: {point.label or f'{point.x:g}'}")
        here = [series for series in there if not point.only or series.label in point.only]
        chosen = [Candidate(series.algorithm, {**series.options, **point.options}) for series in here]
        measured = measure(workload, chosen, replace(effort, batch=point.batch or effort.batch))
        for series, candidate, measurement in zip(here, chosen, measured, strict=True):
            us = nan
            if "insert" in figure.metrics and isinstance(workload, Workload):
                us = us_per_insert(candidate, workload)
            rows.append(Row(point.x, series.label, workload, measurement, us))
    return Outcome(figure, scale, tuple(rows), tuple(dict.fromkeys(filter(None, notes))))


def _unknown(series: Series, points: Iterable[Point]) -> list[str]:
    """Options that a point needs and the algorithm does not have."""
    wanted: list[Mapping[str, Any]] = [series.options, *(point.options for point in points)]
    return sorted({option for options in wanted for option in options} - set(options_of(series.algorithm)))
