"""Compare what was measured with what is recorded, and say what fails and what to do.

The ratio of a figure is its CPU time in units of the calibration, now and recorded: a machine that is slower in this
minute does not fail. Of several attempts at a point the least ratio of each figure counts. A figure that is as much
faster than the recorded one fails too: compared with that, later changes could make it slower unnoticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import median
from typing import Any

from bench.gate.figure import Figure
from bench.gate.recorded import Measured

LIMIT = 1.3


@dataclass(frozen=True)
class Row:
    """A figure now and recorded."""

    figure: str
    unit: str
    gated: bool
    now: float | None
    recorded: float | None
    ratio: float | None  # None: it is not gated, or not recorded

    @property
    def fails(self) -> bool:
        return self.ratio is not None and self.ratio > LIMIT

    @property
    def stale(self) -> bool:
        """Whether the recorded figure is one of slower code."""
        return self.ratio is not None and self.ratio < 1 / LIMIT

    @property
    def missing(self) -> bool:
        return self.gated and self.ratio is None


@dataclass(frozen=True)
class Result:
    """A point, after one attempt or two."""

    point: str
    attempts: tuple[Measured, ...]  # none: all failed
    error: str  # of the last attempt that failed
    recorded: Measured | None

    @cached_property
    def rows(self) -> list[Row]:
        """The figures, each of the attempt with the least ratio."""
        tables = [[self._row(figure, measured) for figure in measured.figures] for measured in self.attempts]
        return [min(tries, key=lambda row: row.ratio or 0.0) for tries in zip(*tables, strict=True)]

    @property
    def failed(self) -> bool:
        return not self.attempts or any(row.fails for row in self.rows)

    @property
    def stale(self) -> bool:
        return any(row.stale for row in self.rows)

    @property
    def missing(self) -> bool:
        return any(row.missing for row in self.rows)

    @property
    def reason(self) -> str:
        """Why it failed."""
        if not self.attempts:
            return self.error
        slow = ", ".join(f"{row.figure} {row.ratio:.2f} times" for row in self.rows if row.fails)
        return f"{slow} the recorded CPU time; at most {LIMIT:g} times pass"

    def as_data(self) -> dict[str, Any]:
        return {
            "point": self.point,
            "failed": self.failed,
            "stale": self.stale,
            "error": self.error,
            "figures": [asdict(row) for row in self.rows],
            "attempts": [measured.as_data() for measured in self.attempts],
            "recorded": self.recorded and self.recorded.as_data(),
        }

    def _row(self, now: Figure, measured: Measured) -> Row:
        before = self.recorded.figure(now.name) if self.recorded else None
        ratio = None
        if now.gated and now.value is not None and self.recorded and before and before.value:
            ratio = (now.value / measured.calibration_s) / (before.value / self.recorded.calibration_s)
        return Row(now.name, now.unit, now.gated, now.value, before.value if before else None, ratio)


def passed(results: Sequence[Result]) -> bool:
    return not any(result.failed or result.stale or result.missing for result in results)


def lines(results: Sequence[Result]) -> list[str]:
    """The text below the table: the machine, then each point that failed, then what to do."""
    failed = [result for result in results if result.failed]
    stale = [result for result in results if result.stale and not result.failed]
    missing = [result.point for result in results if result.missing]
    said = [*_machine(results), *(f"FAILED {result.point}: {result.reason}" for result in failed)]
    if stale:
        faster = "; ".join(
            f"{result.point}, {row.figure} {row.ratio:.2f} times"
            for result in stale
            for row in result.rows
            if row.stale
        )
        said.append(
            f"FAILED, since the recorded figures are of slower code ({faster} the recorded CPU time): on a quiet "
            f"machine, make bench ONLY={','.join(result.point for result in stale)} RECORD=1"
        )
    if missing:
        said.append(
            f"Not recorded: {', '.join(missing)}. On a quiet machine: make bench ONLY={','.join(missing)} RECORD=1"
        )
    if failed:
        only = ",".join(result.point for result in failed)
        said.append(
            f"To do: repeat it on a quiet machine (make bench ONLY={only}), then at earlier commits to find the change;"
            f" record what is worth its cost (make bench ONLY={only} RECORD=1)"
        )
    elif results and not missing and not stale:
        point, worst = max(
            ((result.point, row) for result in results for row in result.rows), key=lambda pair: pair[1].ratio or 0.0
        )
        said.append(
            f"passed: the highest ratio is {worst.ratio or 0.0:.2f} ({point}, {worst.figure}), at most {LIMIT:g} passes"
        )
    return said


def _machine(results: Sequence[Result]) -> list[str]:
    """Return lines on the calibration, and a warning if the recorded figures are from another machine."""
    pairs = [(result.attempts[-1], result.recorded) for result in results if result.attempts and result.recorded]
    if not pairs:
        return []
    now, before = (1000 * median(one.calibration_s for one in side) for side in zip(*pairs, strict=True))
    dates, machines = sorted({one.date for _, one in pairs}), {one.machine for _, one in pairs}
    recorded = f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))} on {'; '.join(sorted(map(str, machines)))}"
    said = [
        f"Ratios compare CPU times in units of the calibration loop: {now:.1f} ms now, {before:.1f} ms when recorded, "
        f"{recorded}"
    ]
    here = pairs[0][0].machine
    if machines != {here}:
        said.append(
            f"This machine is another one, {here}: ratios are rough. --recorded FILE compares with figures of its own"
        )
    return said
