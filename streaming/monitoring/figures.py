"""Cumulative figures of the job: immutable, so readers never block a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from streaming.latencies import STAGES, TOTAL, Latencies
from streaming.monitoring.reporting import Report, no_counts

INTERVAL_S = 5
INTERVALS = 120  # ten minutes

Number = TypeVar("Number", int, float)


def _none() -> dict[str, Latencies]:
    return {stage: Latencies() for stage in (*STAGES, TOTAL)}


@dataclass(frozen=True)
class Interval:
    """The batches that ended within INTERVAL_S seconds."""

    number: int  # the epoch's seconds / INTERVAL_S
    events: int = 0
    deliveries: int = 0
    latencies: Mapping[str, Latencies] = field(default_factory=_none)  # by stage


@dataclass(frozen=True)
class Figures:
    batches: int = 0
    events: int = 0
    bytes: int = 0  # keys and values of all that was read
    counts: Mapping[str, int] = field(default_factory=no_counts)
    dead_letters: Mapping[str, int] = field(default_factory=dict)  # by reason
    publish_errors: Mapping[str, int] = field(default_factory=dict)  # failed requests, by "request ERROR"
    encoded_ms: float = 0.0  # of all tasks
    spent_ms: Mapping[str, float] = field(default_factory=dict)
    latencies: Mapping[str, Latencies] = field(default_factory=_none)  # by stage
    durations: Latencies = field(default_factory=Latencies)  # of batches
    false_positives: float = 0.0  # the share of deliveries that might be wrong, of the last batch
    last_batch_at: float | None = None  # epoch s
    intervals: tuple[Interval, ...] = ()  # the newest last; where nothing was done there is none
    executors: Mapping[str, int] = field(default_factory=dict)  # deliveries, by Spark's id of the executor

    def with_batch(self, report: Report, now: float) -> Figures:
        duration = Latencies()
        duration.add(1000 * report.duration_s)
        return Figures(
            self.batches + 1,
            self.events + report.events,
            self.bytes + report.bytes,
            _sum(self.counts, report.counts),
            _sum(self.dead_letters, report.dead_letters),
            _sum(self.publish_errors, report.publish_errors),
            self.encoded_ms + report.encoded_ms,
            _sum(self.spent_ms, report.spent_ms),
            _both(self.latencies, report.latencies),
            self.durations.plus(duration),
            report.false_positives,
            now,
            self._intervals(report, int(now // INTERVAL_S)),
            _sum(self.executors, report.executors),
        )

    def totals(self) -> dict[str, int]:
        """The counters of TOTALS by key."""
        return {"batches": self.batches, "events": self.events, "read_bytes": self.bytes, **self.counts}

    def per_second(self, name: str, now: float, seconds: int = 60) -> float:
        """The rate of `events` or `deliveries` per second over the last whole intervals."""
        n = seconds // INTERVAL_S
        return sum(self.series(name, now)[-n:]) / n

    def series(self, name: str, now: float) -> list[float]:
        """The rate in each of the last INTERVALS whole intervals, oldest first."""
        rates = {interval.number: getattr(interval, name) / INTERVAL_S for interval in self.intervals}
        last = int(now // INTERVAL_S)
        return [rates.get(number, 0.0) for number in range(last - INTERVALS, last)]

    def latency_series(self, stage: str, quantile: float, now: float) -> list[float | None]:
        """A quantile of a stage's latencies, in ms, in each of the intervals of `series`; None where no event
        matched."""
        quantiles = {interval.number: interval.latencies[stage].quantile(quantile) for interval in self.intervals}
        last = int(now // INTERVAL_S)
        return [quantiles.get(number) for number in range(last - INTERVALS, last)]

    def recent(self, now: float, seconds: int = 300) -> Mapping[str, Latencies]:
        """Latencies by stage of the last intervals, the current one included."""
        first = int(now // INTERVAL_S) - seconds // INTERVAL_S
        recent = _none()
        for interval in self.intervals:
            if interval.number > first:
                for stage, latencies in interval.latencies.items():
                    recent[stage].update(latencies)
        return recent

    def _intervals(self, report: Report, number: int) -> tuple[Interval, ...]:
        kept = tuple(interval for interval in self.intervals if interval.number >= number - INTERVALS)
        last = kept[-1] if kept and kept[-1].number == number else Interval(number)
        grown = replace(
            last,
            events=last.events + report.events,
            deliveries=last.deliveries + report.counts["deliveries"],
            latencies=_both(last.latencies, report.latencies),
        )
        return (*(interval for interval in kept if interval.number != number), grown)


def _both(a: Mapping[str, Latencies], b: Mapping[str, Latencies]) -> dict[str, Latencies]:
    return {stage: a[stage].plus(b[stage]) for stage in a}


def _sum(a: Mapping[str, Number], b: Mapping[str, Number]) -> dict[str, Number]:
    return dict(a) | {name: a.get(name, 0) + n for name, n in b.items()}
