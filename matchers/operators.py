"""The operators of the language: how each is written, when it holds, and which region it accepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, nan
from typing import Any, TypeGuard

from matchers import facets
from matchers.facets import Region
from matchers.model import Absent, Operator, Scalar


class OperatorError(ValueError):
    """An operator's argument cannot be used; `language` adds the field."""


@dataclass(frozen=True)
class Equals:
    """The same type and the same value; all numbers are of one type."""

    value: Scalar

    def holds(self, value: Scalar) -> bool:
        return _same(self.value, value)

    def region(self) -> Region:
        if _is_number(self.value):
            return Region(numbers=((self.value, self.value),))
        return Region(tokens=(facets.exactly(facets.token(self.value)),))

    def __str__(self) -> str:
        return _show(self.value)


@dataclass(frozen=True)
class Numeric:
    """A number between two bounds."""

    low: float
    low_closed: bool
    high: float
    high_closed: bool

    def holds(self, value: Scalar) -> bool:
        if not _is_number(value):
            return False
        value = facets.number(value)
        above = value >= self.low if self.low_closed else value > self.low
        below = value <= self.high if self.high_closed else value < self.high
        return above and below

    def region(self) -> Region:
        return Region(numbers=facets.interval(self.low, self.low_closed, self.high, self.high_closed))

    def __str__(self) -> str:
        low = f"{'>=' if self.low_closed else '>'} {self.low:.17g}" if self.low != -inf else ""
        high = f"{'<=' if self.high_closed else '<'} {self.high:.17g}" if self.high != inf else ""
        return " and ".join(filter(None, (low, high))) or "a number"


@dataclass(frozen=True)
class Prefix:
    """A text that starts with another."""

    prefix: str

    def holds(self, value: Scalar) -> bool:
        return isinstance(value, str) and value.startswith(self.prefix)

    def region(self) -> Region:
        return Region(tokens=(facets.starting_with(self.prefix),))

    def __str__(self) -> str:
        return f"prefix {_show(self.prefix)}"


@dataclass(frozen=True)
class AnythingBut:
    """A value, of whatever type, that equals none of these."""

    values: tuple[Scalar, ...]

    def holds(self, value: Scalar) -> bool:
        return not isinstance(value, Absent) and not any(_same(value, other) for other in self.values)

    def region(self) -> Region:
        return Region(tokens=facets.complement(facets.exactly(facets.token(v)) for v in self.values))

    def __str__(self) -> str:
        return f"anything but {', '.join(_show(v) for v in self.values)}"


@dataclass(frozen=True)
class Exists:
    """The field holds a value, or it holds none."""

    wanted: bool

    def holds(self, value: Scalar) -> bool:
        return isinstance(value, Absent) is not self.wanted

    def region(self) -> Region:
        return Region(tokens=(facets.ANY if self.wanted else facets.exactly(facets.ABSENT_TOKEN),))

    def __str__(self) -> str:
        return "any value" if self.wanted else "no value"


def literal(value: Any) -> Scalar:
    """A text, boolean, null, or a number that a double holds."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int | float):
        return _number_literal(value)
    raise OperatorError(f"{_show(value)} is neither a text, a number, a boolean nor null")


def _numeric(argument: Any) -> Numeric:
    if not isinstance(argument, list) or len(argument) not in (2, 4):
        raise OperatorError(f'numeric takes [">", 5] or [">", 5, "<=", 9], not {_show(argument)}')
    low, low_closed, high, high_closed = -inf, True, inf, True
    seen = ""
    for symbol, bound in zip(argument[::2], argument[1::2], strict=True):
        if symbol not in ("<", "<=", ">", ">=", "="):
            raise OperatorError(f"numeric knows <, <=, >, >= and =, not {_show(symbol)}")
        side = symbol[0]
        if seen and (side == seen or "=" in (side, seen)):
            raise OperatorError(f"numeric takes one lower and one upper bound, or one =, not {_show(argument)}")
        seen = side
        value = _number_literal(bound)
        if side in ">=":
            low, low_closed = value, symbol != ">"
        if side in "<=":
            high, high_closed = value, symbol != "<"
    return Numeric(low, low_closed, high, high_closed)


def _between(argument: Any) -> Numeric:
    if not isinstance(argument, list) or len(argument) != 2:
        raise OperatorError(f"between takes [low, high], not {_show(argument)}")
    return Numeric(_number_literal(argument[0]), True, _number_literal(argument[1]), True)


def _prefix(argument: Any) -> Prefix:
    if not isinstance(argument, str):
        raise OperatorError(f"prefix takes a text, not {_show(argument)}")
    return Prefix(argument)


def _anything_but(argument: Any) -> AnythingBut:
    values = argument if isinstance(argument, list) else [argument]
    if not values:
        raise OperatorError(
            'anything-but takes a value or a list of at least one; for any value write {"exists": true}'
        )
    return AnythingBut(tuple(literal(v) for v in values))


def _exists(argument: Any) -> Exists:
    if not isinstance(argument, bool):
        raise OperatorError(f"exists takes true or false, not {_show(argument)}")
    return Exists(argument)


OPERATORS: dict[str, Callable[[Any], Operator]] = {
    "anything-but": _anything_but,
    "between": _between,
    "exists": _exists,
    "numeric": _numeric,
    "prefix": _prefix,
}


def _number_literal(value: Any) -> float:
    if not _is_number(value):
        raise OperatorError(f"{_show(value)} is not a number")
    try:
        exact = float(value)
    except OverflowError:
        exact = nan
    if not isfinite(exact):
        raise OperatorError(f"{value} lies outside the range of a double")
    if isinstance(value, int) and int(exact) != value:
        raise OperatorError(f"{value} cannot be held exactly by a double; the nearest are below and above it")
    return exact


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(a: Scalar, b: Scalar) -> bool:
    if _is_number(a) and _is_number(b):
        return facets.number(a) == facets.number(b)
    return type(a) is type(b) and a == b


def _show(value: object) -> str:
    text = {None: "null", True: "true", False: "false"}.get(value, "") if isinstance(value, bool | None) else ""
    text = text or (f'"{value}"' if isinstance(value, str) else repr(value))
    return text if len(text) <= 80 else text[:77] + "..."
