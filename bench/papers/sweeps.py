"""Run the experiments of a paper, point by point, and compare the results with its text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isnan, nan
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from bench.errors import BenchError
from bench.matching.candidates import MeasuredAlgorithm, options_of
from bench.matching.marking import marking_us
from bench.matching.measure import Effort
from bench.matching.measurement import Adaptation, Measurement
from bench.matching.turns import measure_in_turns
from bench.matching.updating import UpdateTimes, update_times
from bench.papers import PAPERS
from bench.papers.code_version import COLUMN, code_version
from bench.papers.figures import METRICS, UPDATES, Figure, Point, Ratio, Series, Value, Varied
from bench.workloads import dataset
from bench.workloads.synthetic import Workload
from matchers import registry
from matchers.contract.tables import Float64
from matchers.errors import known as known_names


@dataclass(frozen=True, eq=False)
class Row:
    """A series at a point."""

    x: float  # as the paper has it
    label: str
    workload: Varied
    columns: Mapping[str, Any]  # of the CSV file; read from one, all are texts
    us: Float64 = field(default_factory=lambda: np.empty(0))  # per event of each batch; empty if read from a file
    matched: Float64 = field(default_factory=lambda: np.empty(0))  # likewise, matches

    def value(self, metric: str) -> float:
        """NaN where there is none."""
        text = self.columns.get(METRICS[metric].column, "")
        return nan if text == "" else float(text)

    @property
    def left_out(self) -> str:
        """Why nothing was measured, if so."""
        return str(self.columns["left_out"])

    @property
    def checked(self) -> bool:
        return str(self.columns["checked"]) != "False"


@dataclass(frozen=True)
class Statement:
    """A claim of the paper and our figure for it, if it could be measured."""

    metric: str
    claim: str
    paper: float
    ours: float | None
    ours_cpu: float | None = None  # likewise, where `ours` is wall time


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
    batch: int = 1  # events in a call, where a point does not say otherwise
    left_out: tuple[Row, ...] = ()  # for memory or time

    @property
    def name(self) -> str:
        """The name of its files: results of batches stand beside those of single events."""
        return self.figure.name + (f"-batches-of-{self.batch}" if self.batch > 1 else "")

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
        """Return an entry for each point; none if a figure has no series of its own."""
        rivals = []
        for x in dict.fromkeys(row.x for row in self.rows) if self.figure.ours else ():
            here = {row.label: row for row in self.rows if row.x == x}
            ours = here.pop(self.figure.ours, None)
            rivals.append(Rivals(x, min(here.values(), key=lambda row: row.value("us"), default=None), ours))
        return rivals

    def statements(self) -> list[Statement]:
        return [
            Statement(
                stated.metric,
                self._claim(stated),
                stated.value,
                self._ours(stated, stated.metric),
                self._ours(stated, "cpu_us") if stated.metric == "us" else None,
            )
            for stated in self.figure.stated
        ]

    def _claim(self, stated: Value | Ratio) -> str:
        if isinstance(stated, Ratio):
            return f"{stated.of} / {stated.to}, {stated.scope}"
        at = "" if stated.x is None else f" at {stated.x:,.10g}"
        return f"{stated.label}{at}" + (f": {stated.scope}" if stated.scope else "")

    def _ours(self, stated: Value | Ratio, metric: str) -> float | None:
        if isinstance(stated, Value):
            return None if stated.x is None else self.values(stated.label, metric).get(stated.x)
        of, to = self.values(stated.of, metric), self.values(stated.to, metric)
        points = of.keys() & to.keys() if stated.x is None else {stated.x}
        ratios = [
            of[x] / to[other]
            for x in points
            for other in [x if stated.to_x is None else stated.to_x]
            if x in of and to.get(other)
        ]
        return fmean(ratios) if ratios else None


def figures(paper: str, numbers: Iterable[str] | None) -> list[Figure]:
    """The figures with these numbers, or all. Raises BenchError."""
    if paper not in PAPERS:
        raise BenchError(f"unknown paper {paper!r}; {known_names(paper, PAPERS)}")
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
    known: Sequence[Mapping[str, str]] = (),
    keep: Callable[[Outcome], object] = lambda _: None,
) -> Outcome:
    """Measure a figure with a share `scale` of the paper's subscriptions. Raises BenchError.

    A point is not measured again if `known`, the rows of a CSV file, have all of it. `keep` is called after each point
    with all that is there so far.
    """
    if not scale > 0:
        raise BenchError(f"scale cannot be {scale:g}; it must be above 0, the share of the paper's subscriptions")
    effort = replace(effort, batch=min(effort.batch, figure.batch or effort.batch))
    outcome = Outcome(figure, scale, (), (), effort.batch)
    if figure.real and data is None:
        return replace(outcome, notes=("It is about real events, which --dataset would give.",))
    data = None if figure.real is False else data
    can = registry.runnable()
    absent = dict.fromkeys(s.algorithm for s in figure.series if s.algorithm not in can)
    there = [s for s in figure.series if s.algorithm in can]
    unknown = {s.label: _unknown(s, figure.points) for s in there}
    there = [s for s in there if not unknown[s.label]]
    notes = [
        figure.note,
        f"Not among the algorithms here: {', '.join(absent)}." if absent else "",
        *(f"Left out, for want of its option {', '.join(options)}: {s}." for s, options in unknown.items() if options),
    ]
    for point in figure.points if there else ():
        workload = replace(figure.workload, **point.workload, seed=seed).scaled(scale)
        if data and isinstance(workload, Workload):
            if workload.attributes <= dataset.read(data).shape[1]:
                workload = replace(workload, dataset=data)
            else:
                notes.append(f"With {workload.attributes} attributes, more than {data.name} has, values are uniform.")
        tell(f"{figure.name}, {figure.axis}: {point.label or f'{point.x:g}'}")
        here = [series for series in there if not point.only or series.label in point.only]
        asked = [
            _Asked(figure, scale, point, series, workload, replace(effort, batch=point.batch or effort.batch))
            for series in here
        ]
        rows = [] if figure.scatter else [row for one in asked for row in one.among(known)]
        if len(rows) < len(asked):
            rows = _improved(_measured(asked), figure.baseline)
        skipped = {
            "memory": [*(s.label for s in there if s not in here), *(r.label for r in rows if r.left_out == "memory")],
            "time": [row.label for row in rows if row.left_out == "time"],
        }
        at = point.label or f"{point.x:,g}"
        notes += [f"At {at} left out for {reason}: {', '.join(names)}." for reason, names in skipped.items() if names]
        outcome = replace(
            outcome,
            rows=(*outcome.rows, *(row for row in rows if not row.left_out)),
            left_out=(*outcome.left_out, *(row for row in rows if row.left_out)),
        )
        keep(outcome)
    return replace(outcome, notes=tuple(dict.fromkeys(filter(None, notes))))


@dataclass(frozen=True)
class _Asked:
    """A row before it is measured."""

    figure: Figure
    scale: float
    point: Point
    series: Series
    workload: Varied
    effort: Effort

    @property
    def candidate(self) -> MeasuredAlgorithm:
        of_point = {} if self.series.fixed else self.point.options
        return MeasuredAlgorithm(self.series.algorithm, {**self.series.options, **of_point})

    @property
    def columns(self) -> dict[str, Any]:
        """The columns that tell it from all others."""
        x = self.point.x
        return {
            "figure": self.figure.name,
            "parameter": self.figure.axis,
            "value": self.point.label or f"{x * self.scale if self.figure.grows else x:g}",
            "series": self.series.label,
            "algorithm": self.series.algorithm,
            "options": json.dumps(dict(self.candidate.options)),
            COLUMN: code_version(self.series.algorithm),
            "batch": self.effort.batch,
            "rounds": self.effort.rounds,
            **self.workload.as_data(),
        }

    def among(self, known: Iterable[Mapping[str, str]]) -> list[Row]:
        """The row of a file that has its columns, if there is one."""
        own = {name: str(value) for name, value in self.columns.items()}
        same = (row for row in known if own.items() <= row.items())
        return [Row(self.point.x, self.series.label, self.workload, row) for row in same][:1]

    def without(self, reason: str, turn: int) -> Row:
        """The row where nothing was measured."""
        columns = {**self.columns, **dict.fromkeys(_FIGURES, ""), "left_out": reason, "turn": turn}
        return Row(self.point.x, self.series.label, self.workload, columns)

    def row(self, measured: Measurement, turn: int) -> Row:
        times = UpdateTimes()
        if UPDATES & set(self.figure.metrics) and isinstance(self.workload, Workload):
            times = update_times(self.candidate, self.workload)
        marking, right = nan, True
        if "marking" in self.figure.metrics and isinstance(self.workload, Workload):
            marking, right = marking_us(self.candidate, self.workload)
        figures = _figures(_Measured(measured, self.workload, times, marking, right))
        columns = {**self.columns, **figures, "left_out": "", "turn": turn}
        return Row(self.point.x, self.series.label, self.workload, columns, measured.us, measured.matched)


def _measured(asked: Sequence[_Asked]) -> list[Row]:
    """Measure a point."""
    metrics = [METRICS[metric] for metric in asked[0].figure.metrics]
    profiled = any(METRICS[name].counter for metric in metrics for name in metric.beside)
    candidates = [one.candidate for one in asked]
    late: list[MeasuredAlgorithm] = []
    found = measure_in_turns(asked[0].workload, candidates, asked[0].effort, profiled=profiled, late=late.append)
    return [
        one.row(measured, turn) if measured else one.without("time" if one.candidate in late else "memory", turn)
        for one, (measured, turn) in zip(asked, found, strict=True)
    ]


def _improved(rows: Sequence[Row], baseline: str) -> list[Row]:
    """The rows with the share by which each takes less than the baseline's, where both are there."""
    base = next((row.value("us") for row in rows if row.label == baseline), nan)
    column = METRICS["improvement"].column
    shares = [1 - row.value("us") / base for row in rows]
    return [
        replace(row, columns={**row.columns, column: "" if isnan(share) else share})
        for row, share in zip(rows, shares, strict=True)
    ]


@dataclass(frozen=True)
class _Measured:
    of: Measurement
    workload: Varied
    updates: UpdateTimes
    marking: float  # us
    marked_right: bool

    @property
    def us(self) -> Float64:
        """Percentiles of single events, each the least of the rounds; for batches they would mean nothing."""
        return self.of.us if self.of.batch == 1 else np.array([nan])

    @property
    def checked(self) -> bool:
        return self.of.checked and self.updates.checked and self.marked_right

    def counted(self, counter: str) -> float:
        return (self.of.profile or {}).get(counter, nan)

    def learnt(self, figure: Callable[[Adaptation], Any]) -> Any:
        return nan if self.of.adaptation is None else figure(self.of.adaptation)


# The columns of a measurement; empty where one is NaN, and where nothing was measured. Other metrics are counted.
_METRICS: dict[str, Callable[[_Measured], Any]] = {
    "us": lambda m: m.of.us_per_event,
    "cpu_us": lambda m: m.of.cpu_us_per_event,
    "us_std": lambda m: float(m.us.std()),
    "us_max": lambda m: float(m.us.max()),
    "us_min": lambda m: float(m.us.min()),
    "rate": lambda m: 1e6 / m.of.us_per_event,
    "engine": lambda m: 1e6 / m.of.us_of_step.get("forward", nan),
    "insertion": lambda m: m.of.build_s / m.workload.subscriptions * 1e6,
    "insert": lambda m: m.updates.insert,
    "delete": lambda m: m.updates.delete,
    "insert_one": lambda m: m.updates.insert_one,
    "delete_one": lambda m: m.updates.delete_one,
    "marking": lambda m: m.marking,
    "memory": lambda m: m.of.memory_bytes,
    "selectivity": lambda m: m.of.matches / m.of.events_measured / m.workload.listable,
    "false": lambda m: m.of.answer.false_positive_rate,
}
_FIGURES: dict[str, Callable[[_Measured], Any]] = {
    **{m.column: _METRICS.get(name, partial(_Measured.counted, counter=m.counter)) for name, m in METRICS.items()},
    "us_per_event_median": lambda m: m.of.us_per_event_median,
    "cpu_us_per_event_median": lambda m: m.of.cpu_us_per_event_median,
    "build_s": lambda m: m.of.build_s,
    "groups": lambda m: "" if m.of.groups is None else m.of.groups,
    "matches": lambda m: m.of.matches,
    "events_measured": lambda m: m.of.events_measured,
    "checked": lambda m: m.checked,
    "checked_by": lambda m: m.of.checked_by,
    "adaptation_events": lambda m: m.learnt(lambda a: a.events),
    "adaptation_us_per_event": lambda m: m.learnt(lambda a: a.us_per_event),
    "adaptation_cpu_s": lambda m: m.learnt(lambda a: a.cpu_s),
    "settled": lambda m: m.learnt(lambda a: a.settled),
}


def _figures(measured: _Measured) -> dict[str, Any]:
    values = {name: figure(measured) for name, figure in _FIGURES.items()}
    return {name: "" if isinstance(value, float) and isnan(value) else value for name, value in values.items()}


def _unknown(series: Series, points: Iterable[Point]) -> list[str]:
    """Options that a point needs and the algorithm does not have."""
    wanted: list[Mapping[str, Any]] = [series.options, *(point.options for point in points if not series.fixed)]
    return sorted({option for options in wanted for option in options} - set(options_of(series.algorithm)))
