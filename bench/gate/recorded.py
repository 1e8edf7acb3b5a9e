"""Measured points, and the file that holds the recorded ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.gate.figure import Figure
from bench.gate.machine import Machine

RECORDED = Path(__file__).with_name("recorded.json")


@dataclass(frozen=True)
class Measured:
    """The figures of a point, with the speed of the machine when they were measured."""

    figures: tuple[Figure, ...]
    calibration_s: float
    machine: Machine
    version: str  # of Sluice
    date: str  # 2026-11-24

    def figure(self, name: str) -> Figure | None:
        return next((figure for figure in self.figures if figure.name == name), None)

    def as_data(self) -> dict[str, Any]:
        """JSON, with four digits of each figure."""
        return {
            "date": self.date,
            "version": self.version,
            "machine": asdict(self.machine),
            "calibration_s": _rounded(self.calibration_s),
            "figures": {f"{figure.name}, {figure.unit}": _rounded(figure.value) for figure in self.figures},
        }

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Measured:
        """Read the figures that `as_data` wrote. Which figures are gated is not in it."""
        names = (name.rpartition(", ") for name in data["figures"])
        figures = (
            Figure(name, unit, value) for (name, _, unit), value in zip(names, data["figures"].values(), strict=True)
        )
        return cls(tuple(figures), data["calibration_s"], Machine(**data["machine"]), data["version"], data["date"])


def read(file: Path = RECORDED) -> dict[str, Measured]:
    """The recorded points by name; none if there is no file. Raises BenchError."""
    try:
        return {name: Measured.of(point) for name, point in json.loads(file.read_text()).items()}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchError(
            f"{file}: is no file of recorded figures ({type(error).__name__}: {error}); remove it and record again"
        ) from None


def write(measured: Mapping[str, Measured], file: Path = RECORDED) -> None:
    """Replace the points that were measured, and keep the others. Raises BenchError."""
    points = {**read(file), **measured}
    try:
        file.write_text(_text(points))
    except OSError as error:
        raise BenchError(f"{file}: cannot be written: {error.strerror}") from None


def _text(points: Mapping[str, Measured]) -> str:
    data = {name: point.as_data() for name, point in points.items()}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
