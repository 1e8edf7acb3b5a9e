"""Print measurements as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.matching.measure import BASELINE, Measurement


def show(measured: Sequence[Measurement], out: Console) -> None:
    """Print a row for each algorithm, then the settings that all share, then the counters."""
    out.print(_times(measured))
    if measured[0].compile_s is not None:
        out.print(f"\npatterns to a table: {measured[0].compile_s:,.3f} s")
    if any(measurement.profile is not None for measurement in measured):
        out.print()
        out.print(_counts(measured))


def _times(measured: Sequence[Measurement]) -> Table:
    scan = next(
        (measurement.us_per_event for measurement in measured if measurement.candidate.algorithm == BASELINE.algorithm),
        None,
    )
    steps = list(measured[0].us_of_step) if len(measured[0].us_of_step) > 1 else []
    table = _table("algorithm", "µs/event", *steps, "median", "times scan", "build s", "MB", "matches", "events")
    table.add_column("checked", no_wrap=True)
    for measurement in measured:
        wrong = f"WRONG: {measurement.answer.missed:,} missed, {measurement.answer.extra:,} too many"
        right = f"{measurement.answer.false_positive_rate:.2%} false" if measurement.candidate.approximate else "yes"
        table.add_row(
            _name(measurement),
            f"{measurement.us_per_event:,.1f}",
            *(f"{measurement.us_of_step[step] / measurement.us_per_event:.0%}" for step in steps),
            f"{measurement.us_per_event_median:,.1f}",
            f"{scan / measurement.us_per_event:,.2f}" if scan else "",
            f"{measurement.build_s:,.3f}",
            f"{measurement.memory_bytes / 1e6:,.1f}",
            f"{measurement.matches:,}",
            f"{measurement.events_measured:,}",
            Text(right) if measurement.checked else Text(wrong, "bold red"),
        )
    return table


def _counts(measured: Sequence[Measurement]) -> Table:
    table = _table("algorithm", "per event")
    table.add_column("counter", no_wrap=True)
    for measurement in measured:
        for counter, count in (measurement.profile or {}).items():
            table.add_row(_name(measurement), f"{count:,.4g}" if abs(count) < 1000 else f"{count:,.0f}", counter)
    return table


def _table(first: str, *numbers: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(first, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _name(measurement: Measurement) -> str:
    return " ".join([measurement.candidate.algorithm, *(f"{k}={v}" for k, v in measurement.candidate.options.items())])
