"""Find the sustained events per second: one rate after another, each with its own start, until one is too high.

`sustained` says when a rate is. The generator and the broker work on the same machine; what they take of it is in every
row. Before the load its rate rises from 0 (`Load.warm_up_s`), which is in no figure; latencies are a reader's, of the
second half. A system other than Sluice that is too slow is stopped: its row is about the events that it was done with.
The latencies of all events would be higher, so the tables have a ≥.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.markdown import table_lines
from bench.system.run import Outcome, require, run
from bench.system.sustained import CRITERION
from rig.load import Load
from rig.place import NOTHING
from rig.usage import JOB

QUANTILES = ("p50", "p95", "p99")
SUSTAINED = {True: "yes", False: "no", None: "short"}


@dataclass(frozen=True)
class Row:
    """The figures for one rate and number of subscriptions."""

    system: str
    load: Load
    right: bool
    sustained: bool | None  # None if the load was too short to tell
    events_per_second: float  # done, where the usual latency of the last event does not count; see `sustained`
    undelivered_events: int  # of the load, when the system was stopped; 0 if it was not
    deliveries_per_event: float
    latency_ms: Mapping[str, float | None]  # p50, p95, p99, max of the delivered events
    thirds_ms: tuple[float, float, float] | None  # medians of the thirds of the load
    cpu_us_per_event: Mapping[str, float]  # by process; of none if it was stopped, amid work of which nobody knows
    memory_mb: Mapping[str, float]  # at the end, by process
    start_s: float

    @classmethod
    def of(cls, system: str, outcome: Outcome) -> Row:
        figures, load, done = outcome.figures, outcome.load, outcome.figures["events_done"]
        stopped, verdict = figures["drain_s"] is None, outcome.verdict
        per_second = done / max(figures["done_s"], 1e-3)
        return cls(
            system,
            load,
            outcome.right,
            False if stopped else verdict.sustained if verdict else None,
            round(per_second if stopped or not verdict else verdict.done * load.events_per_second, 1),
            figures["events"] - done if stopped else 0,
            round(outcome.answer.expected / max(done + figures["events_of_warm_up"], 1), 3),
            figures["latency_ms"]["follower_second_half"],
            verdict.thirds_ms if verdict else None,
            {} if stopped else {name: round(used / max(done, 1) * 1e6, 1) for name, used in figures["cpu_s"].items()},
            {name: points["end"] for name, points in figures["memory_mb"].items()},
            figures["start_s"],
        )

    def as_data(self) -> dict[str, Any]:
        load = self.load
        return {
            "system": self.system,
            "subscriptions": load.subscriptions,
            "rate": load.events_per_second,
            "matches": load.matches,
            "subscribers": load.subscribers,
            "seconds": load.seconds,
            **{name: value for name, value in vars(self).items() if name not in ("system", "load")},
        }


def ramp(
    load: Load,
    systems: Sequence[str],
    subscriptions: Sequence[int],
    rates: Sequence[float],
    flags: Mapping[str, str],
    tell: Callable[[str], None],
    broker: Mapping[str, str] = NOTHING,
) -> Iterator[Row]:
    """Run ascending rates for each number of subscriptions and system, up to the first rate that is not sustained.
    Raises LoadError, and JobError before the first run if a system cannot run here."""
    for system in systems:
        require(system)
    for n, system in product(subscriptions, systems):
        for rate in sorted(rates):
            tell(f"{system}: {n:,} subscriptions, {rate:,.0f} events/s")
            row = Row.of(
                system, run(replace(load, subscriptions=n, events_per_second=rate), flags, tell, system, broker)
            )
            yield row
            if row.sustained is False:
                break


def table(rows: Sequence[Row]) -> Table:
    """The rows as a table for the terminal."""
    table = Table(box=None, header_style="bold", pad_edge=False, caption=CRITERION, caption_justify="left")
    columns, texts = _texts(rows)
    for name in columns:
        table.add_column(name, justify="left" if name == "system" else "right", no_wrap=True)
    for text in texts:
        table.add_row(*text)
    return table


def markdown(rows: Sequence[Row]) -> str:
    return "".join(table_lines(*_texts(rows))) + f"\n{CRITERION}\n"


def _texts(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    figures = [
        "subscriptions",
        "events/s",
        "done/s",
        "sustained",
        "ms p50",
        "p95",
        "p99",
        "CPU us/event",
        "of it the job",
    ]
    texts = []
    for row in rows:
        cpu = row.cpu_us_per_event
        latencies = [row.latency_ms[q] for q in QUANTILES]
        least = "≥ " if row.undelivered_events else ""
        texts.append(
            [
                row.system,
                f"{row.load.subscriptions:,}",
                f"{row.load.events_per_second:,.0f}",
                f"{row.events_per_second:,.0f}",
                SUSTAINED[row.sustained] if row.right else "WRONG",
                *("-" if ms is None else f"{least}{ms:,.0f}" for ms in latencies),
                f"{sum(cpu.values()):,.0f}" if cpu else "-",
                f"{sum(cpu.get(name, 0.0) for name in JOB):,.0f}" if cpu else "-",
            ]
        )
    return ["system", *figures], texts


def draw(rows: Sequence[Row], file: Path) -> None:
    """Draw latency over rate, one line for each system and number of subscriptions; an open mark is a rate that was not
    sustained."""
    from matplotlib.figure import Figure  # half a second that only who draws pays

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for system, n in dict.fromkeys((row.system, row.load.subscriptions) for row in rows):
        points = [row for row in rows if (row.system, row.load.subscriptions) == (system, n)]
        points = [row for row in points if row.latency_ms["p99"] is not None]
        x, y = [row.load.events_per_second for row in points], [row.latency_ms["p99"] or 0.0 for row in points]
        (line,) = axes.plot(x, y, label=f"{system}, {n:,} subscriptions")
        for row, at, ms in zip(points, x, y, strict=True):
            fill = line.get_color() if row.sustained else "white"
            axes.plot(at, ms, "o", color=line.get_color(), markerfacecolor=fill)
    axes.set(xscale="log", yscale="log", xlabel="events per second", ylabel="p99 from event to delivery (ms)")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(file)
