"""The figures of a point, and what a point promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bench.errors import BenchError

Tell = Callable[[str], None]

PER_EVENT = "CPU µs/event"  # a unit


@dataclass(frozen=True)
class Figure:
    name: str
    unit: str
    value: float | None  # None: there was nothing to measure
    gated: bool = True  # CPU time, which is judged; others are only shown


class PointFailed(BenchError):
    """A point has no figures: an answer was wrong, or the system did not keep up."""

    def __init__(self, reason: str, *, again: bool) -> None:
        super().__init__(reason)
        self.again = again  # whether a busy machine may be the cause


class Point(Protocol):
    def figures(self, tell: Tell) -> list[Figure]:
        """Measure once. No compilation of kernels is in the figures. Raises PointFailed."""
