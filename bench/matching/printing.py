"""Print measurements as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.matching.measure import BASELINE, Measurement


def show(measured: Sequence[Measurement], out: Console) -> None:
    """An algorithm and row; below, what is the same for all, and what was counted."""
    out.print(_times(measured))
    if measured[0].compile_s is not None:
        out.print(f"\npatterns to a table: {measured[0].compile_s:,.3f} s")
    if any(one.profile is not None for one in measured):
        out.print()
        out.print(_counts(measured))


def _times(measured: Sequence[Measurement]) -> Table:
    scan = next((one.us_per_event for one in measured if one.candidate.algorithm == BASELINE.algorithm), None)
    steps = list(measured[0].us_of_step) if len(measured[0].us_of_step) > 1 else []
    table = _table("algorithm", "µs/event", *steps, "median", "times scan", "build s", "MB", "matches", "events")
    table.add_column("checked", no_wrap=True)
    for one in measured:
        wrong = f"WRONG: {one.answer.missed:,} missed, {one.answer.extra:,} too many"
        right = f"{one.answer.false_positive_rate:.2%} false" if one.candidate.approximate else "yes"
        table.add_row(
            _name(one),
            f"{one.us_per_event:,.1f}",
            *(f"{one.us_of_step[step] / one.us_per_event:.0%}" for step in steps),
            f"{one.us_per_event_median:,.1f}",
            f"{scan / one.us_per_event:,.2f}" if scan else "",
            f"{one.build_s:,.3f}",
            f"{one.memory_bytes / 1e6:,.1f}",
            f"{one.matches:,}",
            f"{one.events_measured:,}",
            Text(right) if one.checked else Text(wrong, "bold red"),
        )
    return table


def _counts(measured: Sequence[Measurement]) -> Table:
    table = _table("algorithm", "per event")
    table.add_column("counter", no_wrap=True)
    for one in measured:
        for counter, count in (one.profile or {}).items():
            table.add_row(_name(one), f"{count:,.4g}" if abs(count) < 1000 else f"{count:,.0f}", counter)
    return table


def _table(first: str, *numbers: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(first, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _name(one: Measurement) -> str:
    return " ".join([one.candidate.algorithm, *(f"{k}={v}" for k, v in one.candidate.options.items())])
