"""Print the outcome of a run as tables."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.system.run import Outcome


def show(outcome: Outcome, out: Console) -> None:
    load, figures, answer = outcome.load, outcome.figures, outcome.answer
    out.print(
        f"{load.subscriptions:,} subscriptions, {figures['events']:,} events and {figures['changes']:,} changes in "
        f"{load.seconds:,.0f} s, with {figures['algorithm']}; running after {figures['start_s']:,.1f} s, "
        f"done {figures['drain_s']:,.1f} s after the last event\n"
    )
    times = figures["latency_ms"] | {"change_to_in_force": figures["in_force_ms"]}
    rows = ((name.replace("_", " "), list(row.values())) for name, row in times.items())
    out.print(_table("ms", ("p50", "p95", "p99", "max"), rows))
    out.print()
    memory, cpu = figures["memory_mb"], figures["cpu_s"]
    points = ("start", "middle", "end", "growth_in_second_half")
    rows = ((name, [*(memory.get(name, {}).get(point) for point in points), used]) for name, used in cpu.items())
    out.print(_table("resident MB", ("start", "middle", "end", "growth in 2nd half", "CPU s"), rows))
    out.print()
    wrong = [
        f"{count:,} {name.replace('_', ' ')}"
        for name, count in (answer.as_data() | {"dead_letters": outcome.dead_letters}).items()
        if count and name not in ("expected", "delivered")
    ]
    if wrong:
        out.print(Text(f"WRONG: of {answer.expected:,} deliveries expected: {', '.join(wrong)}", "bold red"))
    else:
        out.print(
            Text.assemble(
                ("right: ", "bold green"),
                f"{answer.expected:,} deliveries expected, each there once, with its ids, version and bytes",
            )
        )


def _table(first: str, columns: Iterable[str], rows: Iterable[tuple[str, list[float | None]]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(first, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for name, values in rows:
        table.add_row(name, *("-" if value is None else f"{value:,.0f}" for value in values))
    return table
