"""Verify the conditions that columns cannot express, on the event itself.

Columns hold what any element of an array has. Conditions on several fields of one object within an array, or several
on one field, must be met by one and the same element; and some operators have no place on any facet at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matchers.language.model import ABSENT, Path, Scalar, View

Condition = tuple[Path, Callable[[Scalar], bool]]


def holds(event: Any, conditions: Sequence[Condition]) -> bool:
    """Whether one way of seeing the event (`naive.views`) meets all conditions."""
    return seen(event, conditions) is not None


def seen(node: Any, conditions: Sequence[Condition], path: Path = ()) -> View | None:
    """One way of seeing a node that meets all conditions on it and below, with their values; None if there is none.

    Arrays beside each other are independent, so each is checked once: the cost is that of the event, however many ways
    there are to see it.
    """
    if isinstance(node, list | tuple):
        results = (seen(element, conditions, path) for element in (node or (ABSENT,)))
        return next((view for view in results if view is not None), None)
    value = ABSENT if isinstance(node, Mapping) else node
    view: dict[Path, Scalar] = {path: value}
    below: dict[str, list[Condition]] = {}
    for rest, test in conditions:
        if rest:
            below.setdefault(rest[0], []).append((rest[1:], test))
        elif not test(value):
            return None
    fields = node if isinstance(node, Mapping) else {}
    for name, inner in below.items():
        met = seen(fields.get(name, ABSENT), inner, (*path, name))
        if met is None:
            return None
        view.update(met)
    return view
