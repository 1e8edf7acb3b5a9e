"""Print a run: a line per minute, the verdicts, and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.soak.growth import Growth, of_samples
from tests.soak.run import Outcome
from tests.soak.sampling import JOB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Sample = Mapping[str, Any]

COLUMNS = (
    "at",
    "events/s",
    "done/s",
    "lag",
    "p50 ms",
    "p99",
    "max",
    "job MB",
    "broker MB",
    "fds",
    "threads",
    "disk MB",
)
WIDTHS = (8, 9, 9, 9, 8, 8, 8, 8, 10, 7, 8, 9)
OURS = ("generator", "reader", "check")  # processes that are no part of what is tested
SIZE_INCHES = (11, 10)
ROOM = 1.4  # of the highest value, for the legend
TOLD = ("missing", "unexpected", "twice", "wrong_ids", "wrong_version", "wrong_bytes", "wrong_statuses", "out_of_order")


def head() -> str:
    return _line(COLUMNS)


def line(samples: Sequence[Sample]) -> str:
    """Return a line about the last sample; latencies and rates are those since the previous one, the longest of all."""
    last = samples[-1]
    processes = last["processes"]
    ms = [[s["latency_ms"][q] for s in samples if s["latency_ms"][q] is not None] for q in ("p50", "p99", "max")]
    rates = [sum(s[name] for s in samples) / len(samples) for name in ("events_per_second", "done_per_second")]
    tested = [taken for kind, taken in processes.items() if kind not in OURS]
    numbers = [
        *rates,
        last["lag"],
        *(max(values, default=None) for values in ms),
        sum(processes[kind]["memory_mb"] for kind in JOB if kind in processes),
        processes["broker"]["memory_mb"],
        sum(taken["descriptors"] for taken in tested),
        sum(taken["threads"] for taken in tested),
        sum(last["disk_mb"].values()),
    ]
    return _line((_clock(last["at_s"]), *("-" if n is None else f"{n:,.0f}" for n in numbers)))


def verdicts(outcome: Outcome) -> Iterator[str]:
    if outcome.failure:
        yield f"FAILED: {outcome.failure}"
    if outcome.stopped is not None:
        yield "stopped before its end"
    checked = outcome.checked
    if checked:
        yield (
            f"{checked['events']:,} events and {checked['changes']:,} changes in {checked['windows']:,} windows: "
            f"{checked['delivered']:,} deliveries, {checked['expected']:,} expected"
        )
        mistakes = [f"{checked[name]:,} {name.replace('_', ' ')}" for name in TOLD if checked[name]]
        mistakes += [f"{outcome.dead_letters:,} dead letters"] if outcome.dead_letters else []
        yield f"WRONG: {', '.join(mistakes)}" if mistakes else "right: each there once, in order, by its version"
        yield from (f"  {text}" for text in checked["details"])
        if not outcome.all_checked:
            yield "not everything was checked"
    if outcome.written:
        w = outcome.written
        rates = f"{w['events'] / w['seconds']:,.0f} events/s and {w['changes'] / w['seconds']:,.0f} changes/s"
        late = "never" if outcome.drain_s is None else f"{outcome.drain_s:,.1f} s after the last of them"
        yield f"{'sustained' if outcome.sustained else 'NOT SUSTAINED'}: {rates} written, done {late}"
    for what, times in (
        ("event to reader", outcome.latency_ms),
        ("change to in force", checked.get("in_force_ms", {})),
    ):
        if times:
            yield f"ms from {what}: {', '.join(f'{name} {ms}' for name, ms in times.items())}"
    if outcome.restarts:
        yield f"the job was restarted {outcome.restarts} times"
    yield from growth_lines(list(of_samples(outcome.samples)))


def growth_lines(found: Sequence[Growth]) -> Iterator[str]:
    """Yield a line for each process, the disk and so on: the median of the second half, and whether it grows."""
    if found and all(g.flat is None for g in found):
        yield "growth: too short to say"
        return
    for of in dict.fromkeys(g.of for g in found):
        figures = [g for g in found if g.of == of]
        yield f"{of:12}" + "; ".join(f"{g.figure.replace('_', ' ')} {g.level:,.0f} {g.words()}" for g in figures)


def draw(outcome: Outcome, file: Path) -> None:
    """A panel each for memory, descriptors, threads, disk, latency and rate, over time."""
    from matplotlib.figure import Figure

    from bench.papers.draw import INK

    samples = outcome.samples
    figure = Figure(figsize=SIZE_INCHES, layout="constrained", dpi=110)
    panels = figure.subplots(3, 2, sharex=True)
    unit, per_unit = ("hours", 3600) if samples and samples[-1]["at_s"] > 7200 else ("minutes", 60)
    at = [s["at_s"] / per_unit for s in samples]
    kinds = list(dict.fromkeys(kind for s in samples for kind in s["processes"]))
    for axes, name, label in (
        (panels[0, 0], "memory_mb", "memory (MB)"),
        (panels[1, 0], "descriptors", "open file descriptors"),
        (panels[1, 1], "threads", "threads"),
    ):
        _lines(axes, label, at, {kind: [s["processes"].get(kind, {}).get(name) for s in samples] for kind in kinds})
    places = list(dict.fromkeys(name for s in samples for name in s["disk_mb"]))
    _lines(panels[0, 1], "disk (MB)", at, {name: [s["disk_mb"].get(name) for s in samples] for name in places})
    _lines(
        panels[2, 0],
        "from event to reader (ms)",
        at,
        {q: [s["latency_ms"][q] for s in samples] for q in ("p50", "p99", "max")},
    )
    rates = {"events written": "events_per_second", "events done": "done_per_second", "changes": "changes_per_second"}
    rates |= {"deliveries read": "deliveries_per_second"}
    _lines(panels[2, 1], "per second", at, {label: [s[name] for s in samples] for label, name in rates.items()})
    for axes in panels[2]:
        axes.set_xlabel(unit)
    _logarithmic(panels[2, 0])
    figure.suptitle(_title(outcome), x=0.01, ha="left", fontsize=10, color=INK)
    figure.savefig(file)


def _lines(axes: Axes, label: str, at: Sequence[float], series: Mapping[str, Sequence[float | None]]) -> None:
    from bench.papers.draw import OTHERS, plain

    for n, (name, values) in enumerate(series.items()):
        drawn = [float("nan") if v is None else v for v in values]
        style = "--" if name in OURS else ("-", ":")[n // len(OTHERS) % 2]
        axes.plot(at, drawn, style, color=OTHERS[n % len(OTHERS)], linewidth=1.2, label=name)
    axes.set_ylabel(label)
    highest = max((v for values in series.values() for v in values if v is not None), default=1.0)
    axes.set_ylim(0, ROOM * max(highest, 1.0))
    plain(axes)
    if series:
        axes.legend(frameon=False, fontsize=7, ncols=4, loc="upper left")


def _logarithmic(axes: Axes) -> None:
    values = [v for drawn in axes.lines for v in np.asarray(drawn.get_ydata(), float).tolist() if v > 0]
    axes.set_ylim(min(values, default=1) / 2, 5 * max(values, default=1))
    axes.set_yscale("log")


def _title(outcome: Outcome) -> str:
    load = outcome.load
    asked = (
        f"{load.subscriptions:,} subscriptions of {load.subscribers:,} subscribers, "
        f"{load.events_per_second:,.0f} events/s, {load.changes_per_second:,.0f} changes/s, {load.minutes:,.0f} minutes"
    )
    checked = f"{outcome.checked.get('delivered', 0):,} deliveries"
    words = "all right" if outcome.right else "WRONG or incomplete"
    return f"{asked}\n{checked}, {words}; the rate was {'' if outcome.sustained else 'NOT '}sustained"


def _clock(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{second:02}"


def _line(cells: Sequence[str]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))
