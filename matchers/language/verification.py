"""Verify the conditions that columns cannot express, on the event itself.

Columns hold what any element of an array has. Conditions on several fields of one object within an array, or several
on one field, must be met by one and the same element; some operators have no place on any facet at all; and no column
has two fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from matchers.language.lookup import array_test, value_test
from matchers.language.model import (
    ABSENT,
    Compared,
    Contains,
    Event,
    Path,
    Predicate,
    Scalar,
    View,
    elements,
    values_at,
)


class Condition(NamedTuple):
    """A test of the value at a path, or of all values of the array there.

    With another path it is not the test itself: that is what it gives for the values at the other path.
    """

    path: Path
    test: Callable[[Any], Any]
    of_array: bool = False
    other: Path = ()


def condition(part: Predicate | Contains | Compared) -> Condition:
    if isinstance(part, Compared):
        return Condition(part.path, part.against, False, part.other)
    if isinstance(part, Contains):
        return Condition(part.path, array_test(part), True)
    return Condition(part.path, value_test(part.operators))


def holds(event: Any, conditions: Sequence[Condition]) -> bool:
    """Whether one way of seeing the event (`naive.views`) meets all conditions."""
    return seen(event, conditions) is not None


def seen(node: Any, conditions: Sequence[Condition], path: Path = ()) -> View | None:
    """One way of seeing a node that meets all conditions on it and below, with their values; None if there is none.

    Arrays beside each other are independent, so each is checked once: the cost is that of the event, however many ways
    there are to see it.
    """
    if isinstance(node, list | tuple):
        return _seen_array(node, conditions, path)
    value: Scalar = ABSENT if isinstance(node, Mapping) else node
    array = () if value is ABSENT else (value,)
    values: dict[Path, Scalar] = {path: value}
    arrays: dict[Path, tuple[Scalar, ...]] = {path: array}
    below: dict[str, list[Condition]] = {}
    for rest, test, of_array, other in conditions:
        if rest:
            if other and other[0] != rest[0]:
                test, other = test(values_at(node, other)), ()
            below.setdefault(rest[0], []).append(Condition(rest[1:], test, of_array, other[1:]))
        elif not test(array if of_array else value):
            return None
    fields = node if isinstance(node, Mapping) else {}
    objects: dict[Path, Event] = {path: fields}
    for name, inner in below.items():
        met = seen(fields.get(name, ABSENT), inner, (*path, name))
        if met is None:
            return None
        values.update(met.values)
        arrays.update(met.arrays)
        objects.update(met.objects)
    return View(values, arrays, objects)


def _seen_array(node: Sequence[Any], conditions: Sequence[Condition], path: Path) -> View | None:
    of_one = [condition for condition in conditions if condition.path or not condition.of_array]
    if len(of_one) < len(conditions):
        whole = tuple(elements(node))
        if not all(condition.test(whole) for condition in conditions if condition.of_array and not condition.path):
            return None
    results = (seen(element, of_one, path) for element in (node or (ABSENT,)))
    view = next((view for view in results if view is not None), None)
    if view is None or len(of_one) == len(conditions):
        return view
    return View(view.values, {**view.arrays, path: whole}, view.objects)
