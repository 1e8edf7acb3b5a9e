"""Define the operators of the language, each with the ranges of values for which it holds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network
from math import inf
from typing import TypeGuard

from matchers.language import facets, times
from matchers.language.facets import (
    ADDRESS,
    ANY,
    ANY_OR_ABSENT,
    FOLDED,
    FOLDED_REVERSED,
    LENGTH,
    NUMBER,
    PLACE,
    REVERSED,
    TEXTS_END,
    TIME,
    TOKEN,
    WRITTEN_NUMBER,
)
from matchers.language.model import Absent, Constraint, Interval, Operator, Range, Region, Scalar
from matchers.language.regex import expressions
from matchers.language.regex.automaton import automaton
from matchers.language.regex.expressions import Alternation


@dataclass(frozen=True, slots=True)
class Equals:
    """A value of the same type that is equal; all numbers are of one type."""

    value: Scalar

    def holds(self, value: Scalar) -> bool:
        if is_number(self.value) and is_number(value):
            return facets.number(self.value) == facets.number(value)
        if isinstance(self.value, str) and isinstance(value, str):  # subclasses included
            return self.value == value
        return type(self.value) is type(value) and self.value == value

    def constraint(self) -> Constraint:
        if is_number(self.value):
            return Constraint({NUMBER: ((self.value, self.value),)})
        return Constraint({TOKEN: (facets.exactly(facets.token(self.value)),)})

    def __str__(self) -> str:
        return show(self.value)


@dataclass(frozen=True, slots=True)
class Numeric:
    """A number between two bounds."""

    low: float
    low_closed: bool
    high: float
    high_closed: bool

    def holds(self, value: Scalar) -> bool:
        if not is_number(value):
            return False
        value = facets.number(value)
        above = value >= self.low if self.low_closed else value > self.low
        below = value <= self.high if self.high_closed else value < self.high
        return above and below

    def constraint(self) -> Constraint:
        return Constraint({NUMBER: facets.interval(self.low, self.low_closed, self.high, self.high_closed)})

    def __str__(self) -> str:
        low = f"{'>=' if self.low_closed else '>'} {_number(self.low)}" if self.low != -inf else ""
        high = f"{'<=' if self.high_closed else '<'} {_number(self.high)}" if self.high != inf else ""
        return " and ".join(filter(None, (low, high)))


@dataclass(frozen=True, slots=True)
class Prefix:
    """A string that starts with another."""

    text: str
    ignore_case: bool = False

    def holds(self, value: Scalar) -> bool:
        if not isinstance(value, str):
            return False
        return (
            facets.fold(value).startswith(facets.fold(self.text)) if self.ignore_case else value.startswith(self.text)
        )

    def constraint(self) -> Constraint:
        facet = FOLDED if self.ignore_case else TOKEN
        return Constraint({facet: (facets.starting_with(PLACE[facet](self.text)),)})

    def __str__(self) -> str:
        return f"prefix {show(self.text)}{_ignoring(self.ignore_case)}"


@dataclass(frozen=True, slots=True)
class Suffix:
    """A string that ends with another."""

    text: str
    ignore_case: bool = False

    def holds(self, value: Scalar) -> bool:
        if not isinstance(value, str):
            return False
        return facets.fold(value).endswith(facets.fold(self.text)) if self.ignore_case else value.endswith(self.text)

    def constraint(self) -> Constraint:
        facet = FOLDED_REVERSED if self.ignore_case else REVERSED
        return Constraint({facet: (facets.starting_with(PLACE[facet](self.text)),)})

    def __str__(self) -> str:
        return f"suffix {show(self.text)}{_ignoring(self.ignore_case)}"


@dataclass(frozen=True, slots=True)
class EqualsIgnoreCase:
    """A string that differs from another in case at most."""

    text: str

    def holds(self, value: Scalar) -> bool:
        return isinstance(value, str) and facets.fold(value) == facets.fold(self.text)

    def constraint(self) -> Constraint:
        return Constraint({FOLDED: (facets.exactly(PLACE[FOLDED](self.text)),)})

    def __str__(self) -> str:
        return f"{show(self.text)}{_ignoring(True)}"


@dataclass(frozen=True)
class Wildcard:
    """A string made of these pieces in this order with anything between them.

    ("a", "b") is a*b, ("", "") is *, ("a",) is a text without a star.
    """

    pieces: tuple[str, ...]
    ignore_case: bool = False

    def holds(self, value: Scalar) -> bool:
        """Takes the first place for each piece, which leaves the most for the rest: no backtracking."""
        if not isinstance(value, str):
            return False
        if self.ignore_case:
            value = facets.fold(value)
        first, *middle, last = self._wanted if len(self._wanted) > 1 else (*self._wanted, "")
        if len(self._wanted) == 1:
            return value == first
        at, end = len(first), len(value) - len(last)
        if at > end or not value.startswith(first) or not value.endswith(last):
            return False
        for piece in middle:
            begin = value.find(piece, at, end)
            if begin < 0:
                return False
            at = begin + len(piece)
        return True

    @cached_property
    def _wanted(self) -> tuple[str, ...]:
        return tuple(map(facets.fold, self.pieces)) if self.ignore_case else self.pieces

    @cached_property
    def exact(self) -> Operator | None:
        """The operator of another kind that means the same, where there is one."""
        if len(self.pieces) == 1:
            return EqualsIgnoreCase(self.pieces[0]) if self.ignore_case else Equals(self.pieces[0])
        if len(self.pieces) == 2 and "" in self.pieces:
            prefix, suffix = self.pieces
            return Prefix(prefix, self.ignore_case) if not suffix else Suffix(suffix, self.ignore_case)
        return None

    def constraint(self) -> Constraint:
        if self.exact:
            return self.exact.constraint()
        prefix = Prefix(self.pieces[0], self.ignore_case).constraint()
        suffix = Suffix(self.pieces[-1], self.ignore_case).constraint()
        ends = {**prefix.regions, **(suffix.regions if self.pieces[-1] else {})}
        return Constraint(ends, residual=(self,))

    def __str__(self) -> str:
        escaped = (piece.replace("\\", "\\\\").replace("*", "\\*") for piece in self.pieces)
        return f"wildcard {show('*'.join(escaped))}{_ignoring(self.ignore_case)}"


@dataclass(frozen=True, slots=True)
class Regex:
    """A string that a regular expression accepts as a whole."""

    expression: str

    def holds(self, value: Scalar) -> bool:
        return isinstance(value, str) and automaton(self.expression).matches(value)

    def constraint(self) -> Constraint:
        """The literal beginnings of its alternatives and its literal end as ranges; these may be the whole pattern."""
        node = expressions.parse(self.expression)
        starts = [expressions.literal(part) for part in (node.parts if isinstance(node, Alternation) else (node,))]
        begins = [
            facets.exactly(facets.token(text)) if whole else facets.starting_with(facets.token(text))
            for text, whole in starts
        ]
        if all(whole for _, whole in starts):
            return Constraint({TOKEN: begins})
        last, _ = expressions.literal(node, forward=False)
        ends = Suffix(last).constraint().regions if last else {}
        return Constraint({TOKEN: facets.union(begins), **ends}, residual=(self,))

    def __str__(self) -> str:
        return f"regex {show(self.expression)}"


@dataclass(frozen=True, slots=True)
class AnythingBut:
    """A value, of whatever type, for which none of these holds."""

    operators: tuple[Operator, ...]

    def holds(self, value: Scalar) -> bool:
        return not isinstance(value, Absent) and not any(operator.holds(value) for operator in self.operators)

    def constraint(self) -> Constraint:
        regions, others = _outside(self.operators, ANY)
        return Constraint(regions or {TOKEN: (ANY,)}, residual=(AnythingBut(others),) if others else ())

    def __str__(self) -> str:
        return f"anything but {', '.join(map(str, self.operators))}"


@dataclass(frozen=True, slots=True)
class Not:
    """A value for which none of these holds, or an absent value: the negation of a predicate by `$not`."""

    operators: tuple[Operator, ...]

    def holds(self, value: Scalar) -> bool:
        return not any(operator.holds(value) for operator in self.operators)

    def constraint(self) -> Constraint:
        regions, others = _outside(self.operators, ANY_OR_ABSENT)
        return Constraint(regions, residual=(Not(others),) if others else ())

    def __str__(self) -> str:
        return f"not {' or '.join(map(str, self.operators))}"


def _outside(operators: tuple[Operator, ...], whole: Range) -> tuple[dict[str, Region], tuple[Operator, ...]]:
    """The regions in which none of the operators holds, and those operators that have no such region."""
    united: dict[str, list[Range]] = {}
    others = []
    for operator in operators:
        constraint = operator.constraint()
        if constraint.residual or len(constraint.regions) != 1:
            others.append(operator)
            continue
        for facet, ranges in facets.on_tokens(constraint.regions).items():
            united.setdefault(facet, []).extend(ranges)
    return {facet: facets.complement(ranges, whole) for facet, ranges in united.items()}, tuple(others)


@dataclass(frozen=True, slots=True)
class TextLength:
    """A string whose number of characters, as Unicode counts code points, lies between two bounds."""

    length: Numeric

    def holds(self, value: Scalar) -> bool:
        return isinstance(value, str) and self.length.holds(len(value))

    def constraint(self) -> Constraint:
        return Constraint({LENGTH: facets.as_texts(_intervals(self.length))})

    def __str__(self) -> str:
        return f"a string of length {self.length}"


@dataclass(frozen=True, slots=True)
class NumericText:
    """A string that is a number between two bounds."""

    number: Numeric

    def holds(self, value: Scalar) -> bool:
        return isinstance(value, str) and self.number.holds(facets.written_number(value))

    def constraint(self) -> Constraint:
        return Constraint({WRITTEN_NUMBER: facets.as_texts(_intervals(self.number))})

    def __str__(self) -> str:
        return f"a number as a string, {self.number}"


@dataclass(frozen=True, slots=True)
class TextOrder:
    """A string between two bounds, in the order of code points."""

    low: str
    low_closed: bool
    high: str | None  # None: there is no upper bound
    high_closed: bool

    def holds(self, value: Scalar) -> bool:
        if not isinstance(value, str):
            return False
        above = value >= self.low if self.low_closed else value > self.low
        return above and (self.high is None or (value <= self.high if self.high_closed else value < self.high))

    def constraint(self) -> Constraint:
        high = TEXTS_END if self.high is None else facets.token(self.high)
        high_closed = self.high is not None and self.high_closed
        return Constraint({TOKEN: facets.between(facets.token(self.low), self.low_closed, high, high_closed)})

    def __str__(self) -> str:
        low = f"{'>=' if self.low_closed else '>'} {show(self.low)}" if self.low or not self.low_closed else ""
        high = f"{'<=' if self.high_closed else '<'} {show(self.high)}" if self.high is not None else ""
        return f"a string {' and '.join(filter(None, (low, high)))}".rstrip()


@dataclass(frozen=True, slots=True)
class Time:
    """A string that is a time of RFC 3339 between two bounds, which are such strings too."""

    low: str | None  # None: there is no lower bound
    low_closed: bool
    high: str | None
    high_closed: bool

    def holds(self, value: Scalar) -> bool:
        at = times.place(value) if isinstance(value, str) else None
        return at is not None and any(low <= at < high for low, high in self._between())

    def constraint(self) -> Constraint:
        return Constraint({TIME: [(b"\x05" + low, b"\x05" + high) for low, high in self._between()]})

    def _between(self) -> Sequence[Range]:
        low, high = (times.place(bound) if bound is not None else None for bound in (self.low, self.high))
        high_closed = self.high_closed and high is not None
        return facets.between(low or times.FIRST, self.low_closed, high or times.END, high_closed)

    def __str__(self) -> str:
        low = f"{'not before' if self.low_closed else 'after'} {self.low}" if self.low is not None else ""
        high = f"{'not after' if self.high_closed else 'before'} {self.high}" if self.high is not None else ""
        return f"a time {' and '.join(filter(None, (low, high)))}".rstrip()


@dataclass(frozen=True, slots=True)
class TimeNumber:
    """A number that is a time between two bounds, in a unit since 1970."""

    unit: str
    time: Time
    number: Numeric  # the doubles between the bounds

    def holds(self, value: Scalar) -> bool:
        return self.number.holds(value)

    def constraint(self) -> Constraint:
        return self.number.constraint()

    def __str__(self) -> str:
        return f"{self.time}, in {self.unit} since 1970"


def _intervals(numeric: Numeric) -> Sequence[Interval]:
    return facets.interval(numeric.low, numeric.low_closed, numeric.high, numeric.high_closed)


@dataclass(frozen=True, slots=True)
class Exists:
    """A field that holds a value, or that holds none."""

    wanted: bool

    def holds(self, value: Scalar) -> bool:
        return isinstance(value, Absent) is not self.wanted

    def constraint(self) -> Constraint:
        return Constraint({TOKEN: (ANY if self.wanted else facets.exactly(facets.ABSENT_TOKEN),)})

    def __str__(self) -> str:
        return "any value" if self.wanted else "no value"


@dataclass(frozen=True, slots=True)
class Cidr:
    """A string that is an IP address of a network. IPv4 and IPv6 are apart."""

    network: IPv4Network | IPv6Network

    def holds(self, value: Scalar) -> bool:
        low, high = self._ends()
        return isinstance(value, str) and low <= (facets.address(value) or b"") <= high

    def constraint(self) -> Constraint:
        low, high = self._ends()
        return Constraint({ADDRESS: ((b"\x05" + low, b"\x05" + high + b"\x00"),)})

    def _ends(self) -> tuple[bytes, bytes]:
        version = bytes([self.network.version])
        return version + self.network.network_address.packed, version + self.network.broadcast_address.packed

    def __str__(self) -> str:
        return f"an address in {self.network}"


@dataclass(frozen=True, slots=True)
class AllOf:
    """A value for which all of these hold: `$and`."""

    operators: tuple[Operator, ...]

    def holds(self, value: Scalar) -> bool:
        return all(operator.holds(value) for operator in self.operators)

    def constraint(self) -> Constraint:
        return facets.conjoined([operator.constraint() for operator in self.operators])

    def __str__(self) -> str:
        return f"({' and '.join(map(str, self.operators))})"


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def show(value: object) -> str:
    """A value as JSON writes it, cut where it is long."""
    if isinstance(value, bool | None):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        text = json.dumps(value[:80], ensure_ascii=not value[:80].isprintable())
    elif is_number(value):
        text = _number(value)
    else:
        try:
            text = json.dumps(value, ensure_ascii=False, default=_plain)
        except RecursionError:
            text = "a deeply nested value"
        except (TypeError, ValueError):  # what JSON cannot express
            try:
                text = repr(value)
            except ValueError:
                text = f"a {type(value).__name__} with a number of thousands of digits"
    return text if len(text) <= 80 else text[:77] + "..."


def _plain(value: object) -> object:
    """A mapping of another type than dict, for the writer of JSON."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def _number(value: float) -> str:
    if value == value and abs(value) < 1e15 and value == int(value):
        return str(int(value))
    try:
        return repr(value)
    except ValueError:  # Python writes no integers of some thousand digits
        return f"an integer of {int(value).bit_length()} bits"


def _ignoring(case: bool) -> str:
    return " ignoring case" if case else ""
