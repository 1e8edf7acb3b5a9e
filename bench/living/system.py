"""How many events a second the whole system takes: rate after rate, each with its own start, until one is too much.

A rate is sustained if the job was done with all of it soon after the last event (LATE_S). The generator and the broker
work on the same machine; what they take of it is in every row. Latencies are of the second half, once all is warm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.living.load import Load
from bench.living.run import Outcome, run
from bench.living.usage import JOB

LATE_S = 3.0
QUANTILES = ("p50", "p95", "p99")


@dataclass(frozen=True)
class Row:
    """One rate with so many subscriptions."""

    load: Load
    right: bool
    sustained: bool
    events_per_second: float  # from the first event written to the last one done
    deliveries_per_event: float
    latency_ms: Mapping[str, float | None]  # p50, p95, p99, max
    cpu_us_per_event: Mapping[str, float]  # by process
    memory_mb: Mapping[str, float]  # at the end, by process
    start_s: float

    @classmethod
    def of(cls, outcome: Outcome) -> Row:
        figures, load = outcome.figures, outcome.load
        events = max(figures["events"], 1)
        return cls(
            load,
            outcome.right,
            figures["drain_s"] <= LATE_S,
            round(events / (load.seconds + figures["drain_s"]), 1),
            round(outcome.answer.expected / events, 3),
            figures["latency_ms"]["second_half"],
            {name: round(used / events * 1e6, 1) for name, used in figures["cpu_s"].items()},
            {name: points["end"] for name, points in figures["memory_mb"].items()},
            figures["start_s"],
        )

    def as_data(self) -> dict[str, Any]:
        load = self.load
        return {
            "subscriptions": load.subscriptions,
            "rate": load.events_per_second,
            "matches": load.matches,
            "subscribers": load.subscribers,
            "seconds": load.seconds,
            **{name: value for name, value in vars(self).items() if name != "load"},
        }


def ramp(
    load: Load,
    subscriptions: Sequence[int],
    rates: Sequence[float],
    flags: Mapping[str, str],
    tell: Callable[[str], None],
) -> Iterator[Row]:
    """Ascending rates for each number of subscriptions, up to the first that is not sustained. Raises BenchError."""
    for n in subscriptions:
        for rate in sorted(rates):
            tell(f"{n:,} subscriptions, {rate:,.0f} events/s")
            row = Row.of(run(replace(load, subscriptions=n, events_per_second=rate), flags, tell))
            yield row
            if not row.sustained:
                break


def table(rows: Sequence[Row]) -> Table:
    """For people."""
    found = Table(box=None, header_style="bold", pad_edge=False)
    columns, texts = _texts(rows)
    for name in columns:
        found.add_column(name, justify="right", no_wrap=True)
    for text in texts:
        found.add_row(*text)
    return found


def markdown(rows: Sequence[Row]) -> str:
    columns, texts = _texts(rows)
    lines = [columns, ["---:"] * len(columns), *texts]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _texts(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    columns = ["subscriptions", "events/s", "done/s", "sustained", "ms p50", "p95", "p99", "CPU us/event", "of it ours"]
    texts = []
    for row in rows:
        cpu = row.cpu_us_per_event
        latencies = [row.latency_ms[q] for q in QUANTILES]
        texts.append(
            [
                f"{row.load.subscriptions:,}",
                f"{row.load.events_per_second:,.0f}",
                f"{row.events_per_second:,.0f}",
                ("yes" if row.sustained else "no") if row.right else "WRONG",
                *("-" if ms is None else f"{ms:,.0f}" for ms in latencies),
                f"{sum(cpu.values()):,.0f}",
                f"{sum(cpu.get(name, 0.0) for name in JOB):,.0f}",
            ]
        )
    return columns, texts


def draw(rows: Sequence[Row], file: Path) -> None:
    """Latency over rate, a line for each number of subscriptions; what was not sustained has an open mark."""
    from matplotlib.figure import Figure  # half a second that only who draws pays

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for n in dict.fromkeys(row.load.subscriptions for row in rows):
        own = [row for row in rows if row.load.subscriptions == n and row.latency_ms["p99"] is not None]
        x, y = [row.load.events_per_second for row in own], [row.latency_ms["p99"] or 0.0 for row in own]
        (line,) = axes.plot(x, y, label=f"{n:,} subscriptions")
        for row, at, ms in zip(own, x, y, strict=True):
            fill = line.get_color() if row.sustained else "white"
            axes.plot(at, ms, "o", color=line.get_color(), markerfacecolor=fill)
    axes.set(xscale="log", yscale="log", xlabel="events per second", ylabel="p99 from event to delivery (ms)")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(file)
