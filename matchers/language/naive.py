"""The reference implementation of matching: slow and obvious. Every algorithm is compared with it.

An array stands for any one of its elements. So an event with arrays may be seen in several ways, each of which gives
every field one value or none, and it satisfies a pattern when one way of seeing it does. `contains-all`,
`contains-none` and `contains-exactly` look at all values of an array; so does `compare-field` for its other field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, TypeVar

from matchers.language.model import Event, Path, Pattern, View, elements

Id = TypeVar("Id")
T = TypeVar("T")


def views(node: Any, path: Path = ()) -> Iterator[View]:
    """The ways to see an event."""
    if isinstance(node, list | tuple):
        whole = {path: tuple(elements(node))}
        for element in node or ({},):
            for view in views(element, path):
                yield View(view.values, {**view.arrays, **whole}, view.objects)
    elif isinstance(node, Mapping):
        for fields in product(*(list(views(child, (*path, name))) for name, child in node.items())):
            objects = {path: node, **_together(view.objects for view in fields)}
            yield View(_together(view.values for view in fields), _together(view.arrays for view in fields), objects)
    else:
        yield View({path: node}, {path: (node,)}, {})


def _together(parts: Iterable[Mapping[Path, T]]) -> dict[Path, T]:
    return {path: value for part in parts for path, value in part.items()}


def matches(pattern: Pattern, event: Event) -> bool:
    return any(pattern.holds(view) for view in views(event))


def match(patterns: Mapping[Id, Pattern], events: Iterable[Event]) -> list[list[Id]]:
    """Return for each event the ids of the patterns that it satisfies, in the order of `patterns`."""
    seen = (list(views(event)) for event in events)
    return [[id for id, pattern in patterns.items() if any(map(pattern.holds, ways))] for ways in seen]
