"""Measure points, each between two calibrations, and a second time if it fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from bench.errors import BenchError
from bench.gate.figure import Point, PointFailed, Tell
from bench.gate.machine import Machine, calibration_s
from bench.gate.recorded import Measured
from bench.gate.verdict import Result
from matchers.errors import known
from streaming.version import VERSION

ATTEMPTS = 2


def measure(points: Mapping[str, Point], recorded: Mapping[str, Measured], tell: Tell) -> Iterator[Result]:
    """Measure all points in turn, and compare them with recorded ones, as far as there are any."""
    for name, point in points.items():
        attempts: list[Measured] = []
        error = ""
        for number in range(ATTEMPTS):
            tell(f"{name}: once more, since it failed" if number else name)
            try:
                attempts.append(_once(point, tell))
            except PointFailed as failed:
                error = str(failed)
                tell(error)
                if not failed.again:
                    attempts.clear()
                    break
            if not Result(name, tuple(attempts), error, recorded.get(name)).failed:
                break
        yield Result(name, tuple(attempts), error, recorded.get(name))


def _once(point: Point, tell: Tell) -> Measured:
    before_s = calibration_s()
    figures = point.figures(tell)
    least_s = min(before_s, calibration_s())
    return Measured(tuple(figures), least_s, Machine.here(), VERSION, f"{datetime.now(UTC):%Y-%m-%d}")


def chosen(points: Mapping[str, Point], names: Sequence[str] | None) -> dict[str, Point]:
    """Points by their names, in the order of all; all of them if no names are given. Raises BenchError."""
    for name in names or ():
        if name not in points:
            raise BenchError(f"unknown point {name!r}; {known(name, points)}")
    return {name: point for name, point in points.items() if names is None or name in names}
