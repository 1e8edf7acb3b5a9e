"""Print results as a table for the terminal or in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from bench.gate.verdict import Result
from bench.markdown import table_lines

HEADS = {"point": "left", "figure": "left", "now": "right", "recorded": "right", "unit": "left", "ratio": "right"}


def table(results: Sequence[Result]) -> Table:
    shown = Table(box=None, header_style="bold", pad_edge=False)
    for name, side in HEADS.items():
        shown.add_column(name, justify="left" if side == "left" else "right", no_wrap=True)
    for *cells, ratio in _cells(results):
        shown.add_row(*cells, Text(ratio, "bold red" if "FAILED" in ratio else ""))
    return shown


def markdown(results: Sequence[Result]) -> str:
    texts = [i for i, side in enumerate(HEADS.values()) if side == "left"]
    return "".join(table_lines(list(HEADS), _cells(results), texts))


def _cells(results: Sequence[Result]) -> list[list[str]]:
    """A row for each figure; the point stands in its first."""
    cells = []
    for result in results:
        if not result.rows:
            cells.append([result.point, "", "-", "-", "", "FAILED"])
        for number, row in enumerate(result.rows):
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            point = "" if number else result.point
            figures = [row.figure, _number(row.now), _number(row.recorded), row.unit]
            cells.append([point, *figures, f"FAILED {ratio}" if row.fails or row.stale else ratio])
    return cells


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
