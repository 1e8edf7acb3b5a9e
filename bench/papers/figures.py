"""An experiment as data: the varied parameter, the measurements, and the results that the paper states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field
from typing import Any, ClassVar, Protocol

from bench.workloads.prepared import Scenario

SCALED = ("subscriptions", "filters")  # settings of workloads that shrink with the scale


class Varied(Scenario, Protocol):
    """The workload that a figure varies: a frozen dataclass with a seed among its settings."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def subscriptions(self) -> int: ...

    @property
    def listable(self) -> int:
        """The greatest number of matches of an event: all subscriptions, or all interfaces."""

    def scaled(self, share: float) -> Varied:
        """Return the workload with a share of its subscriptions, at least one."""

    def as_data(self) -> dict[str, Any]:
        """The columns of a CSV file."""

    def words(self) -> dict[str, str]:
        """Captions by name of setting; empty where there is nothing to say."""


@dataclass(frozen=True)
class Series:
    """A line of a figure."""

    label: str
    algorithm: str
    options: Mapping[str, Any] = field(default_factory=dict)
    fixed: bool = False  # the options of a point are not for it


@dataclass(frozen=True)
class Point:
    """A position on the x axis and the settings that differ there: of the workload, or options of the algorithms."""

    x: float
    workload: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""  # if x is no number
    batch: int | None = None  # events that are measured together here
    only: tuple[str, ...] = ()  # series that the memory holds here; all if empty


@dataclass(frozen=True)
class Value:
    """A number that the paper's text gives, in the unit of the metric."""

    label: str  # of the series
    x: float | None  # None: it is of no point that is drawn
    value: float
    metric: str = "us"
    scope: str = ""  # the case, where the axes do not name it


@dataclass(frozen=True)
class Ratio:
    """A statement of the paper: one series takes a share of another, at a point or on average over all."""

    of: str
    to: str
    value: float
    x: float | None = None
    to_x: float | None = None  # where the other is, if it is not at the same point
    metric: str = "us"
    scope: str = "on average"


@dataclass(frozen=True)
class Figure:
    paper: str
    number: str
    title: str
    axis: str  # what x is
    points: tuple[Point, ...]
    workload: Varied  # at the paper's full size
    series: tuple[Series, ...]
    metrics: tuple[str, ...] = ("us",)  # names of METRICS, a panel each
    stated: tuple[Value | Ratio, ...] = ()
    log_x: bool = False
    scatter: bool = False  # of single events, one metric over their matches
    batch: int | None = None  # events that are measured together, where it matters
    note: str = ""  # how it differs from the paper's
    real: bool | None = None  # events of a dataset: always, never, or where one is given
    ours: str = ""  # the series that is set against the fastest of the others
    baseline: str = ""  # the series to which `improvement` relates the others

    @property
    def name(self) -> str:
        return f"{self.paper}-{self.number}"

    @property
    def grows(self) -> bool:
        """Whether x is the number of subscriptions and nothing else, so that it shrinks with the scale."""
        return any(list(point.workload) == [name] for point in self.points for name in SCALED)


@dataclass(frozen=True)
class Metric:
    axis: str
    column: str  # of the CSV file
    log: bool = True
    counter: str = ""  # of the matcher's profile, if it is from there
    beside: tuple[str, ...] = ()  # metrics that are drawn in the same panel
    ends: tuple[float, float] | None = None  # of the axis; None: what is drawn, from 0 on unless logarithmic


METRICS = {
    "us": Metric("matching time (µs per event)", "us_per_event"),
    "cpu_us": Metric("processor time (µs per event)", "cpu_us_per_event"),
    "us_std": Metric("standard deviation of matching time (µs)", "us_std"),
    "rate": Metric("events per second", "events_per_second"),
    "engine": Metric("events per second of forwarding alone", "forwarded_per_second"),
    "us_max": Metric("longest matching time of an event (µs)", "us_max"),
    "us_min": Metric("shortest matching time of an event (µs)", "us_min"),
    "insertion": Metric("time to build (µs per subscription)", "us_per_insertion"),
    "insert": Metric("time to insert a subscription (µs)", "us_per_insert"),
    "delete": Metric("time to delete a subscription (µs)", "us_per_delete"),
    "insert_one": Metric("time to insert a subscription, one a call (µs)", "us_per_single_insert"),
    "delete_one": Metric("time to delete a subscription, one a call (µs)", "us_per_single_delete"),
    "marking": Metric("marking alone (µs of processor time per event)", "us_marking"),
    "memory": Metric("memory (bytes)", "memory_bytes"),
    "selectivity": Metric("share of subscriptions that match", "selectivity"),
    "improvement": Metric(
        "share of the matching time that is saved",
        "improvement",
        log=False,
        beside=("improvement_lemma_2", "improvement_eq_2"),
        ends=(-1.0, 1.0),
    ),
    "improvement_lemma_2": Metric("Lemma 2", "improvement_by_lemma_2", log=False, counter="improvement by Lemma 2"),
    "improvement_eq_2": Metric("Eq. 2", "improvement_by_eq_2", log=False, counter="improvement by Eq. 2"),
    "false": Metric("false positives (share of what is listed)", "false_positive_rate", log=False),
}
UPDATES = {"insert", "delete", "insert_one", "delete_one"}  # metrics that measure an index that changes in place


def over(setting: str, values: Iterable[Any]) -> tuple[Point, ...]:
    """Points that differ in one setting of the workload."""
    return tuple(Point(value, {setting: value}) for value in values)


def over_option(option: str, values: Iterable[Any]) -> tuple[Point, ...]:
    """Points that differ in one option of the algorithms."""
    return tuple(Point(value, options={option: value}) for value in values)


def sizes(values: Iterable[int], least: int | None = None) -> tuple[Point, ...]:
    """Points that differ in the predicates of a subscription: a fixed number, or from `least` to it."""
    return tuple(Point(k, {"predicates": (least or k, k)}) for k in values)


def lines(*algorithms: str) -> tuple[Series, ...]:
    return tuple(Series(name, name) for name in algorithms)
