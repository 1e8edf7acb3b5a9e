"""Explain predicate by predicate why an event satisfies a pattern, or why not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress, product
from typing import Any

from matchers.errors import dotted
from matchers.language.lookup import met, value_test
from matchers.language.model import (
    ABSENT,
    Absent,
    Compared,
    Contains,
    Event,
    OneOf,
    Part,
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
    """The reason that one predicate holds or does not hold."""

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
            shown += f", and {', '.join(map(_show, self.others))} in {dotted(self.predicate.other)}"
        wanted = " or ".join(self.predicate.wanted())
        return f"{_verdict(self.held)} {dotted(self.predicate.path)}: wanted {wanted}; found {shown}"


@dataclass(frozen=True)
class Alternatives:
    """The reason that a pattern of an `$or` holds, or that none holds."""

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
    """Return a line for each predicate and each `$or`. The event satisfies the pattern if all of them hold.

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
    together: list[Condition] = []
    for part in pattern.parts:
        possible = (choice for choice in _choices(Pattern((part,))) if seen(event, together + choice) is not None)
        together += next(possible, [])
    return _lines(pattern, seen(event, together + everything) or View({}, {}, {}), event)


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
    return [line for part in pattern.parts for line in _lines_of(part, view, event)]


def _lines_of(part: Part, view: View, event: Event) -> Iterator[Line]:
    if isinstance(part, OneOf):
        patterns = tuple(tuple(_lines(pattern, view, event)) for pattern in part.patterns)
        yield Alternatives(patterns, any(all(line.held for line in lines) for lines in patterns))
        return
    values = tuple(values_at(event, part.path))
    if isinstance(part, Contains):
        for same, held, value in _of_array(part, view.arrays.get(part.path, ())):
            yield Explanation(same, held, value, values)
        return
    value = view.values.get(part.path, ABSENT)
    if isinstance(part, Compared):
        others = part.others(view)
        yield Explanation(part, part.against(others)(value), value, values, tuple(others))
    else:
        yield Explanation(part, value_test(part.operators)(value), value, values)


def _of_array(part: Contains, array: Sequence[Scalar]) -> Iterator[tuple[Contains, bool, Scalar]]:
    """A condition on an array, whether it holds, and the value that decides: one that was sought, or the first.

    Of several operators that are all wanted, those that hold for some value are apart from those that do not.
    """
    answers = met(part.operators, array) if part.each else [any(map(value_test(part.operators), array))]
    if part.each and part.is_wanted:
        halves = [(answer, tuple(compress(part.operators, map(answer.__eq__, answers)))) for answer in (True, False)]
        separate = [(replace(part, operators=half), answer) for answer, half in halves if half]
    else:
        separate = [(part, all(answers) is part.is_wanted)]
    for same, held in separate:
        sought = filter(value_test(same.operators), array)
        yield same, held, next(sought, array[0] if array else ABSENT)


def _show(value: Scalar) -> str:
    return "nothing" if isinstance(value, Absent) else show(value)


def _verdict(held: bool) -> str:
    return "held    " if held else "not held"
