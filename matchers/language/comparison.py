"""Compare the values of two fields."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from matchers.language import facets
from matchers.language.facets import TOKEN
from matchers.language.model import Absent, Constraint, Scalar
from matchers.language.operators import is_number

# Of each order which of several values is met if any is, and how it is met.
_ORDERS: dict[str, tuple[Callable[..., Any], Callable[[Any, Any], bool]]] = {
    "<": (max, operator.lt),
    "<=": (max, operator.le),
    ">": (min, operator.gt),
    ">=": (min, operator.ge),
}
SYMBOLS = (*_ORDERS, "=")


@dataclass(frozen=True, slots=True)
class Order:
    """An order of values: numbers compare with numbers, strings with strings; values of any type may be equal."""

    symbol: str

    def against(self, others: Iterable[Scalar]) -> Callable[[Scalar], bool]:
        """Test whether a value compares so with one of the others, at a cost that does not depend on their number."""
        places = {place for place in map(_place, others) if place is not None}
        met = _equal(places) if self.symbol == "=" else _ordered(self.symbol, places)
        return lambda value: met(_place(value))

    def constraints(self) -> tuple[Constraint, Constraint]:
        """The ranges in which both values lie if they compare so."""
        of_each = Constraint({TOKEN: (facets.ANY if self.symbol == "=" else facets.NUMBERS_AND_TEXTS,)})
        return of_each, of_each

    def __str__(self) -> str:
        return self.symbol


_Place = tuple[type, Any]  # a value with its type: what differs in it does not compare


def _place(value: Scalar) -> _Place | None:
    """A value with its type; None for an absent field and NaN, which compare with nothing."""
    if is_number(value):
        number = facets.number(value)
        return (float, number) if number == number else None
    if isinstance(value, str):
        return str, str.__str__(value)  # also of a subclass, such as an enum's
    return None if isinstance(value, Absent) else (type(value), value)


def _equal(places: set[_Place]) -> Callable[[_Place | None], bool]:
    return lambda place: place in places


def _ordered(symbol: str, places: set[_Place]) -> Callable[[_Place | None], bool]:
    extreme, compare = _ORDERS[symbol]
    of_type = {kind: [value for other, value in places if other is kind] for kind in (float, str)}
    bounds = {kind: extreme(values) for kind, values in of_type.items() if values}
    return lambda place: place is not None and place[0] in bounds and compare(place[1], bounds[place[0]])
