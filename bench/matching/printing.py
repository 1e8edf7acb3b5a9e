"""Print measurements as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.markdown import table_lines
from bench.matching.library import LibraryTimes
from bench.matching.measure import BASELINE
from bench.matching.measurement import Measurement
from bench.matching.search import described, worst


def show(measured: Sequence[Measurement], out: Console) -> None:
    """Print a row for each algorithm, then the settings that all share, then the counters."""
    out.print(_times(measured))
    if measured[0].compile_s is not None:
        out.print(f"\npatterns to a table: {measured[0].compile_s:,.3f} s")
    if any(measurement.profile is not None for measurement in measured):
        out.print()
        out.print(_counts(measured))


def markdown(measured: Sequence[Measurement], absent: Sequence[str] = ()) -> str:
    """The first of these tables for a document, with an empty row for each algorithm that this machine cannot run."""
    head, *rows = _cells(measured)
    empty = [[name, *[""] * (len(head) - 2), "cannot run here"] for name in absent]
    return "".join(table_lines(head, [*rows, *empty], texts=(0, len(head) - 1)))


def show_choices(rows: Sequence[Mapping[str, Any]], out: Console) -> None:
    """Print a row for each point (`choices.GridPoint`), then in how many `auto` is how far behind, and the better of
    `auto` and `tiles` how far ahead of all others."""
    table = _table("workload", "subscriptions", "batch", "matches", "auto us", "tiles us", "best us", "ratio")
    for name in ("best", "auto chose", "checked"):
        table.add_column(name, no_wrap=True)
    for row in rows:
        table.add_row(
            row["workload"],
            f"{int(row['subscriptions']):,}",
            f"{int(row['batch']):,}",
            *(f"{float(row[name]):,.3g}" for name in ("matches", "us", "tiles_us", "best_us")),
            f"{float(row['ratio']):.2f}",
            *(row["best"], row["chosen"], _verdict(str(row["checked"]) == "True")),
        )
    out.print(table)
    if not rows:
        return
    out.print(f"{len(rows)} points, auto {_within([float(row['ratio']) for row in rows])}")
    leads = [float(row["rival_us"]) / min(float(row["us"]), float(row["tiles_us"])) for row in rows]
    ahead = [f"{sum(lead >= limit for lead in leads)} by {limit:g} times or more" for limit in (1.0, 2.0, 5.0, 10.0)]
    out.print(f"auto or tiles ahead of all others at {', '.join(ahead)}")


def show_search(rows: Sequence[Mapping[str, Any]], out: Console) -> None:
    """Print the worst points (`search.rows`) of `auto` and of `tiles`, each with its configuration, then all that are
    wrong, and in how many each is how far behind."""
    if not rows:
        return
    for name, us, ratio in (("auto", "us", "ratio"), ("tiles", "tiles_us", "tiles_ratio")):
        table = _table(f"worst of {name}", "batch", "matches", f"{name} us", "best us", "ratio")
        for heading in ("best", "auto chose", "configuration"):
            table.add_column(heading, no_wrap=heading != "configuration")
        for row in worst(rows, ratio):
            table.add_row(
                row["workload"],
                f"{int(row['batch']):,}",
                *(f"{float(row[column]):,.3g}" for column in ("matches", us, "best_us")),
                f"{float(row[ratio]):.2f}",
                *(row["best"], row["chosen"], described(row)),
            )
        out.print(table)
        out.print(f"{len(rows)} points, {name} {_within([float(row[ratio]) for row in rows])}\n")
    for row in rows:
        if str(row["checked"]) != "True":
            out.print(Text(f"WRONG: {row['workload']}, {row['batch']} at once; {described(row)}", "bold red"))


def show_library(measured: Sequence[LibraryTimes], out: Console) -> None:
    """Print a row for each number of rules, then what the columns are."""
    of_events = ("JSON", "p50", "p99", "of events", "dict", "JSON, together", "dict, together")
    table = _table("rules", *of_events, "build s", "add ms", "add, match ms")
    table.add_column("checked", no_wrap=True)
    for one in measured:
        percentiles = (one.json_p50_us, one.json_p99_us, one.json_p99_of_events_us)
        us = (one.json_us, *percentiles, one.dict_us, one.json_together_us, one.dict_together_us)
        table.add_row(
            f"{one.rules:,}",
            *(f"{value:,.1f}" for value in us),
            f"{one.build_s:,.2f}",
            *(f"{value:,.2f}" for value in (one.add_ms, one.add_and_match_ms)),
            _verdict(one.checked),
        )
    out.print(table)
    out.print("µs per event, CPU time, one event a call or all together; p50 and p99: wall-clock time of one event;")
    out.print("of events: p99 of the events, each with its least time, so without what else the machine did")


def _verdict(checked: bool) -> Text:
    return Text("yes") if checked else Text("WRONG", "bold red")


def _within(ratios: Sequence[float]) -> str:
    found = [f"{sum(ratio <= limit for ratio in ratios)} within {limit:g}" for limit in (1.1, 1.25, 1.5, 2.0)]
    return f"{', '.join(found)} times the best; the worst {max(ratios):.2f}"


def _times(measured: Sequence[Measurement]) -> Table:
    head, *rows = _cells(measured)
    table = _table(*head[:-1])
    table.add_column(head[-1], no_wrap=True)
    for *cells, checked in rows:
        table.add_row(*cells, Text(checked, "bold red" if checked.startswith("WRONG") else ""))
    return table


def _cells(measured: Sequence[Measurement]) -> list[list[str]]:
    """The heads, then a row for each algorithm, and one for what it took to learn from events."""
    scan = next(
        (measurement.us_per_event for measurement in measured if measurement.candidate.algorithm == BASELINE.algorithm),
        None,
    )
    steps = list(measured[0].us_of_step) if len(measured[0].us_of_step) > 1 else []
    heads = ["algorithm", "µs/event", *steps, "median", "CPU µs", "median", "times scan", "build s", "MB", "matches"]
    rows = [[*heads, "events", "checked"]]
    for measurement in measured:
        rows.append(
            [
                _name(measurement),
                f"{measurement.us_per_event:,.1f}",
                *(f"{measurement.us_of_step[step] / measurement.us_per_event:.0%}" for step in steps),
                f"{measurement.us_per_event_median:,.1f}",
                f"{measurement.cpu_us_per_event:,.1f}",
                f"{measurement.cpu_us_per_event_median:,.1f}",
                f"{scan / measurement.us_per_event:,.2f}" if scan else "",
                f"{measurement.build_s:,.3f}",
                f"{measurement.memory_bytes / 1e6:,.1f}",
                f"{measurement.matches:,}",
                f"{measurement.events_measured:,}",
                _checked(measurement),
            ]
        )
        learnt = measurement.adaptation
        if learnt:
            cells = [""] * len(rows[0])
            cells[0] = f"{_name(measurement)}, learning"
            cells[1], cells[heads.index("CPU µs")] = f"{learnt.us_per_event:,.1f}", f"{learnt.cpu_us_per_event:,.1f}"
            cells[-2], cells[-1] = f"{learnt.events:,}", "" if learnt.settled else "not settled"
            rows.append(cells)
    return rows


def _checked(measurement: Measurement) -> str:
    if not measurement.checked:
        return f"WRONG: {measurement.answer.missed:,} missed, {measurement.answer.extra:,} too many"
    by = "" if measurement.checked_by == BASELINE.algorithm else f", by {measurement.checked_by}"
    rate = f"{measurement.answer.false_positive_rate:.2%} false" if measurement.candidate.approximate else "yes"
    return rate + by


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
