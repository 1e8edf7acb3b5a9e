"""Distributions of values on [0, 1] and of attributes, with their command-line names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.errors import BenchError
from matchers.contract.tables import Float64
from matchers.errors import known

# What stands behind the name, and what it is without it (None: it takes nothing, or must be given).
PARAMETERS = {"uniform": None, "normal": 0.02, "pareto": 2.0, "zipf": None, "hotspots": 4.0}
STEPS = 1000  # of the values that zipf draws
SPOT = 0.002  # width of a hotspot


@dataclass(frozen=True)
class Distribution:
    """`uniform`, `normal:VARIANCE` and `pareto:SHAPE` of mean 0.5, `zipf:EXPONENT`, or so many `hotspots:NUMBER`."""

    name: str
    parameter: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Distribution:
        """Parse a distribution. Raises BenchError."""
        name, colon, parameters = text.partition(":")
        if name not in PARAMETERS:
            raise BenchError(f"unknown distribution {name!r}; {known(name, PARAMETERS)}")
        if name == "uniform" and colon:
            raise BenchError(f"distribution {text!r}: uniform takes no parameter")
        if name == "zipf" and not colon:
            raise BenchError("distribution 'zipf' needs its exponent: zipf:1.5")
        try:
            parameter = float(parameters) if colon else PARAMETERS[name] or 0.0
        except ValueError:
            raise BenchError(f"distribution {text!r}: {parameters!r} is not a number") from None
        if name == "hotspots" and not (1 <= parameter < np.inf and parameter == int(parameter)):
            raise BenchError(f"distribution {text!r}: {parameters} must be a whole number, 1 or more")
        least = {"zipf": 0.0, "normal": 0.0, "pareto": 1.0}.get(name)
        if least is not None and not (least < parameter < np.inf or (name == "zipf" and parameter == 0)):
            raise BenchError(f"distribution {text!r}: {parameters} must be a number above {least:g}")
        return cls(name, parameter)

    def __str__(self) -> str:
        return self.name if self.name == "uniform" else f"{self.name}:{self.parameter:g}"

    def values(self, rng: np.random.Generator, n: int) -> Float64:
        """[n] in [0, 1]. A normal one is cut off at the ends, and a Pareto one at 1.

        Hotspots lie at equal distances, and each has as many values as any other.
        """
        if self.name == "normal":
            return np.clip(rng.normal(0.5, np.sqrt(self.parameter), n), 0.0, 1.0)
        if self.name == "pareto":
            least = 0.5 * (self.parameter - 1) / self.parameter
            below_one = 1 - least**self.parameter
            values: Float64 = least * (1 - rng.random(n) * below_one) ** (-1 / self.parameter)
            return values
        if self.name == "zipf":
            cumulative = np.cumsum(self.weights(STEPS))
            step = np.searchsorted(cumulative, rng.random(n) * cumulative[-1], side="right")
            places: Float64 = np.minimum(step, STEPS - 1) + rng.random(n)
            return places / STEPS
        if self.name == "hotspots":
            middle = (rng.integers(0, int(self.parameter), n) + 0.5) / self.parameter
            return np.clip(middle + (rng.random(n) - 0.5) * SPOT, 0.0, 1.0)
        return rng.random(n)

    def weights(self, n: int) -> Float64:
        """[n]: the relative weight of each attribute. Raises BenchError."""
        if self.name == "uniform":
            return np.ones(n)
        if self.name == "zipf":
            return np.arange(1, n + 1, dtype=np.float64) ** -self.parameter
        raise BenchError(f"attributes cannot be distributed as {self.name}; uniform or zipf:EXPONENT would work")


UNIFORM = Distribution("uniform")
