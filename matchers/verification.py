"""Check a conjunction on the event itself, where columns alone do not tell.

Columns hold what any element of an array has. Conditions on several fields of one object within an array, or several
on one field, must be met by one and the same element; and some operators have no place on any facet at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matchers.model import ABSENT, Path, Scalar

Condition = tuple[Path, Callable[[Scalar], bool]]


def holds(node: Any, conditions: Sequence[Condition]) -> bool:
    """Whether one way of seeing the node (`naive.views`) meets all conditions on it and below.

    Arrays beside each other are independent, so each is asked once: the cost is that of the event, however many
    ways there are to see it.
    """
    if isinstance(node, list | tuple):
        return any(holds(element, conditions) for element in node) if node else holds(ABSENT, conditions)
    value = ABSENT if isinstance(node, Mapping) else node
    below: dict[str, list[Condition]] = {}
    for path, test in conditions:
        if path:
            below.setdefault(path[0], []).append((path[1:], test))
        elif not test(value):
            return False
    fields = node if isinstance(node, Mapping) else {}
    return all(holds(fields.get(name, ABSENT), inner) for name, inner in below.items())
