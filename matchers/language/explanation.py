"""Explain predicate by predicate why an event satisfies a pattern, or why not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from matchers.language.model import (
    ABSENT,
    Absent,
    Compared,
    Contains,
    Event,
    OneOf,
    Pattern,
    Predicate,
    Scalar,
    View,
    values_at,
)
from matchers.language.operators import show
from matchers.language.verification import Condition, condition, seen


@dataclass(frozen=True)
class Explanation:
    """The reason that one predicate holds, or does not."""

    predicate: Predicate | Contains | Compared
    held: bool
    value: Scalar  # what decided it
    values: tuple[Scalar, ...]  # all that the event has there; several where it holds arrays
    others: tuple[Scalar, ...] = ()  # of the field that it was compared with

    def __str__(self) -> str:
        shown = _show(self.value)
        if len(self.values) > 1:
            shown += f" of {', '.join(map(_show, self.values))}"
        if isinstance(self.predicate, Compared):
            shown += f", and {', '.join(map(_show, self.others))} in {'.'.join(self.predicate.other)}"
        wanted = " or ".join(self.predicate.wanted())
        return f"{_verdict(self.held)} {'.'.join(self.predicate.path)}: wanted {wanted}; found {shown}"


@dataclass(frozen=True)
class Alternatives:
    """The reason that one of the patterns of an `$or` holds, or none does."""

    patterns: tuple[tuple[Explanation | Alternatives, ...], ...]
    held: bool

    def __str__(self) -> str:
        lines = [f"{_verdict(self.held)} one of {len(self.patterns)}:"]
        for number, parts in enumerate(self.patterns, 1):
            for part in parts:
                lines += [f"    {number}. {line}" for line in str(part).splitlines()]
        return "\n".join(lines)


Line = Explanation | Alternatives


def explain(pattern: Pattern, event: Event) -> list[Line]:
    """One line for each predicate and each `$or`; the event satisfies the pattern when all of them held.

    An event with arrays can be seen in several ways (`naive`): the lines are about one that satisfies the pattern or,
    if none does, about one that meets one part after the other while it can. Neither tries all the ways there are.
    """
    everything = [
        Condition(predicate.path, _anything, isinstance(predicate, Contains)) for predicate in pattern.predicates()
    ]
    for choice in _choices(pattern):
        view = seen(event, choice + everything)
        if view is not None:
            return _lines(pattern, view, event)
    met: list[Condition] = []
    for part in pattern.parts:
        possible = (choice for choice in _choices(Pattern((part,))) if seen(event, met + choice) is not None)
        met += next(possible, [])
    return _lines(pattern, seen(event, met + everything) or View({}, {}, {}), event)


def _choices(pattern: Pattern) -> Iterator[list[Condition]]:
    """The predicates that together satisfy the pattern: all its own, with those of one pattern of each `$or`."""
    parts: list[Iterable[list[Condition]]] = [
        chain.from_iterable(map(_choices, part.patterns)) if isinstance(part, OneOf) else [[condition(part)]]
        for part in pattern.parts
    ]
    for chosen in product(*parts):
        yield [condition for conditions in chosen for condition in conditions]


def _anything(value: object) -> bool:
    return True


def as_data(line: Line) -> dict[str, Any]:
    """A line as JSON can hold it. Without `found`, the event has nothing there."""
    if isinstance(line, Alternatives):
        return {"held": line.held, "one_of": [[as_data(part) for part in parts] for parts in line.patterns]}
    found_value = {} if isinstance(line.value, Absent) else {"found": line.value}
    return {
        "field": list(line.predicate.path),
        "held": line.held,
        "wanted": line.predicate.wanted(),
        **found_value,
        "all_found": _present(line.values),
        **({"other_found": _present(line.others)} if isinstance(line.predicate, Compared) else {}),
    }


def _present(values: Iterable[Scalar]) -> list[Scalar]:
    return [value for value in values if not isinstance(value, Absent)]


def _lines(pattern: Pattern, view: View, event: Event) -> list[Line]:
    return [
        Alternatives(tuple(tuple(_lines(p, view, event)) for p in part.patterns), part.holds(view))
        if isinstance(part, OneOf)
        else _explanation(part, view, event)
        for part in pattern.parts
    ]


def _explanation(part: Predicate | Contains | Compared, view: View, event: Event) -> Explanation:
    others = tuple(part.others(view)) if isinstance(part, Compared) else ()
    return Explanation(part, part.holds(view), _decisive(part, view), tuple(values_at(event, part.path)), others)


def _decisive(part: Predicate | Contains | Compared, view: View) -> Scalar:
    """The value that decides; of an array the one that was sought, or the first."""
    if not isinstance(part, Contains):
        return view.values.get(part.path, ABSENT)
    array = view.arrays.get(part.path, ())
    return next(filter(part.found, array), array[0] if array else ABSENT)


def _show(value: Scalar) -> str:
    return "nothing" if isinstance(value, Absent) else show(value)


def _verdict(held: bool) -> str:
    return "held    " if held else "not held"
