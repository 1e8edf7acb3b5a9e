"""Draw an experiment: lines for our results, stars for the paper's numbers, and all stated numbers below."""

from __future__ import annotations

from itertools import chain, repeat
from pathlib import Path
from textwrap import fill, wrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from bench.papers.figures import METRICS, Value
from bench.papers.sweeps import Outcome, Statement

# Okabe and Ito's colours, which the colour-blind tell apart, without the yellow, which paper hides.
COLOURS = {
    "scan": "#000000",
    "counting": "#999999",
    "rein": "#0072B2",
    "ada_rein": "#56B4E9",
    "wpa_rein": "#D55E00",
    "tama": "#E69F00",
    "opindex": "#CC79A7",
    "comat": "#56B4E9",
    "pem": "#CC79A7",
    "hem": "#009E73",
    "awb_tree": "#D55E00",
    "sff": "#0072B2",
    "ocm": "#E69F00",
    "ccm": "#009E73",
    "be_tree": "#CC79A7",
    "be_tree 1.3": "#56B4E9",
    "tiles": "#D55E00",
}
OTHERS = ("#009E73", "#D55E00", "#0072B2", "#E69F00", "#CC79A7", "#56B4E9")
MARKERS = "osD^vPX<>h"
INK = "#444444"
PANEL_INCHES = (5.6, 4.0)
LEGEND_INCHES = 1.6
TITLE_INCHES = 0.6
TITLE_LETTERS = 90  # in a line above a panel
NOTE_LETTERS = 75  # likewise below
LINE_INCHES = 0.16


def plain(axes: Axes) -> None:
    """Leave a thin grid and the axes of a panel."""
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def draw(outcome: Outcome, directory: Path) -> Path:
    """Draw a figure to `NAME.png`."""
    figure, metrics = outcome.figure, outcome.metrics()
    lines = _caption(outcome)
    below = LINE_INCHES * len(lines)
    width, height = PANEL_INCHES
    size = (width * len(metrics) + LEGEND_INCHES, height + below + TITLE_INCHES)
    canvas = Canvas(figsize=size, layout="constrained", dpi=150)
    rows = canvas.add_gridspec(2 if lines else 1, len(metrics), height_ratios=[height, below] if lines else None)
    styles = _styles(outcome)
    handles: dict[str, Any] = {}
    for column, metric in enumerate(metrics):
        axes = canvas.add_subplot(rows[0, column], sharex=canvas.axes[0] if column else None)
        (_scatter if figure.scatter else _panel)(axes, outcome, metric, styles)
        plain(axes)
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    axes.legend(handles.values(), handles, loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False, fontsize=9)
    title = f"{figure.paper.upper()}, {_number(figure.number)}: {figure.title}"
    settings = fill(_settings(outcome), TITLE_LETTERS * len(metrics))
    canvas.suptitle(f"{title}\n{settings}", x=0.01, ha="left", fontsize=10)
    if lines:
        text = canvas.add_subplot(rows[1, :])
        text.axis("off")
        text.text(0, 1, "\n".join(lines), va="top", family="monospace", fontsize=8, color=INK, transform=text.transAxes)
    file = directory / f"{outcome.name}.png"
    canvas.savefig(file)
    return file


def _panel(axes: Axes, outcome: Outcome, metric: str, styles: dict[str, tuple[str, str]]) -> None:
    figure, measure = outcome.figure, METRICS[metric]
    factor = outcome.scale if figure.grows else 1.0
    labels = outcome.labels[:1] if metric == "selectivity" else outcome.labels  # the same for all
    for label in labels:
        values = outcome.values(label, metric)
        colour, marker = styles[label]
        name = "ours" if metric == "selectivity" else label
        if not values:
            continue
        drawn = [v if v > 0 or not measure.log else float("nan") for v in values.values()]
        axes.plot([x * factor for x in values], drawn, color=colour, marker=marker, markersize=5, label=name)
        for other, style in zip(measure.beside, ("--", ":"), strict=False):
            values = outcome.values(label, other)
            named = f"{label}: {METRICS[other].axis}"
            axes.plot([x * factor for x in values], [*values.values()], style, color=colour, label=named)
    for stated in figure.stated:
        if isinstance(stated, Value) and stated.metric == metric and stated.x is not None:
            colour, _ = styles.get(stated.label, (_colour(stated.label) or INK, ""))
            name = f"paper: {stated.label}" if metric != "selectivity" else "paper"
            name += f"\n({stated.scope})" if stated.scope else ""
            at = [stated.x * factor], [stated.value]
            axes.plot(*at, marker="*", markersize=12, markerfacecolor="none", linestyle="", color=colour, label=name)
    axes.set_xlabel(figure.axis)
    axes.set_ylabel(measure.axis)
    if measure.log:
        _logarithmic(axes)
    else:
        axes.set_ylim(*(measure.ends or (0, None)))
    points = figure.points
    if figure.log_x:
        axes.set_xscale("log")
    if figure.log_x or any(point.label for point in points) or len(points) <= 6:
        ticks = [point.x * factor for point in points]
        axes.set_xticks(ticks, [point.label or _tick(x) for point, x in zip(points, ticks, strict=True)])
    if figure.log_x:
        axes.minorticks_off()


def _scatter(axes: Axes, outcome: Outcome, metric: str, styles: dict[str, tuple[str, str]]) -> None:
    for row in outcome.rows:
        colour, marker = styles[row.label]
        axes.scatter(row.matched, row.us, s=12, alpha=0.6, color=colour, marker=marker, label=row.label)
    axes.set_xlabel(outcome.figure.axis)
    axes.set_ylabel(METRICS[metric].axis)
    _logarithmic(axes)


def _logarithmic(axes: Axes) -> None:
    """Make an axis logarithmic, with enough ticks in plain numbers."""
    axes.set_yscale("log")
    least, most = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if most / least < 300 else (1,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: _tick(y)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _styles(outcome: Outcome) -> dict[str, tuple[str, str]]:
    """A colour and a marker for each series. An algorithm has its own colour, the same in all figures."""
    labels = outcome.labels
    others = chain(OTHERS, repeat(INK))
    return {label: (_colour(label) or next(others), MARKERS[i % len(MARKERS)]) for i, label in enumerate(labels)}


def _colour(label: str) -> str | None:
    """Return the colour of the algorithm: a label is its name, and options after a comma."""
    return COLOURS.get(label.split(",")[0])


def _tick(x: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if x >= size:
            return f"{x / size:g}{unit}"
    return f"{x:g}"


def _number(number: str) -> str:
    if number.startswith("table"):
        return f"table {number.removeprefix('table')}"
    return f"figure {number}" if number[0].isdigit() else number


def _settings(outcome: Outcome) -> str:
    """The settings that are the same for all points."""
    varied = {name for point in outcome.figure.points for name in point.workload}
    fixed = [text for name, text in outcome.rows[0].workload.words().items() if text and name not in varied]
    if not any(point.batch for point in outcome.figure.points):
        fixed.append("one event at a time" if outcome.batch == 1 else f"batches of {outcome.batch:,} events")
    return ", ".join([*fixed, f"at scale {outcome.scale:g}"])


def _caption(outcome: Outcome) -> list[str]:
    stars = [isinstance(s, Value) and s.x is not None for s in outcome.figure.stated]
    shown = [s for s, star in zip(outcome.statements(), stars, strict=True) if not star]
    lines = []
    here = "here" if outcome.batch == 1 else "in batches"
    if shown:
        wide = max(len(_claim(s, outcome)) for s in shown)
        lines.append(f"{'what the text states':{wide}}  {'paper':>11}  {here:>11}")
        lines += [f"{_claim(s, outcome):{wide}}  {_short(s.paper):>11}  {_short(s.ours):>11}" for s in shown]
    if any(isinstance(s, Value) and s.metric in ("us", "rate", "engine", "memory") for s in outcome.figure.stated):
        lines.append("Times, rates and bytes of the paper are of all its subscriptions, on its machine.")
    return [*lines, *chain.from_iterable(wrap(note, NOTE_LETTERS * len(outcome.metrics())) for note in outcome.notes)]


def _claim(statement: Statement, outcome: Outcome) -> str:
    return statement.claim + (f" ({METRICS[statement.metric].column})" if len(outcome.metrics()) > 1 else "")


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
