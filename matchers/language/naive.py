"""The definition of matching. Slow and obvious; every algorithm is compared with it.

An array stands for any one of its elements. So an event with arrays may be seen in several ways, each of which gives
every field one value or none, and it satisfies a pattern when one way of seeing it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, TypeVar

from matchers.language.model import Event, Path, Pattern, View

Id = TypeVar("Id")


def views(node: Any, path: Path = ()) -> Iterator[View]:
    """The ways to see an event: the fields that hold a value, each with that value."""
    if isinstance(node, list | tuple):
        for element in node:
            yield from views(element, path)
        if not node:
            yield {}
    elif isinstance(node, Mapping):
        for fields in product(*(list(views(child, (*path, name))) for name, child in node.items())):
            yield {path: value for field in fields for path, value in field.items()}
    else:
        yield {path: node}


def matches(pattern: Pattern, event: Event) -> bool:
    return any(pattern.holds(view) for view in views(event))


def match(patterns: Mapping[Id, Pattern], events: Iterable[Event]) -> list[list[Id]]:
    """For each event the ids of the patterns it satisfies, in the order of `patterns`."""
    seen = (list(views(event)) for event in events)
    return [[id for id, pattern in patterns.items() if any(map(pattern.holds, ways))] for ways in seen]
