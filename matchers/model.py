"""What a subscription asks for: a conjunction of predicates, each on one field of an event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from matchers.facets import Region

Path = tuple[str, ...]
Event = Mapping[str, Any]


class Absent:
    """The value of a field that an event does not have."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent()
Scalar = str | float | int | bool | None | Absent


class Operator(Protocol):
    """A condition on one value: its definition, and the region of values that meet it."""

    def holds(self, value: Scalar) -> bool: ...

    def region(self) -> Region: ...


@dataclass(frozen=True)
class Predicate:
    """Holds when one of its operators holds for one of the field's values."""

    path: Path
    operators: tuple[Operator, ...]

    def holds(self, event: Event) -> bool:
        return any(op.holds(value) for value in values_at(event, self.path) for op in self.operators)


@dataclass(frozen=True)
class Pattern:
    """Holds when all its predicates hold; without predicates it always does."""

    predicates: tuple[Predicate, ...]


def values_at(event: Event, path: Path) -> list[Scalar]:
    """The scalars an event holds at a path; `[ABSENT]` when there are none.

    An array stands for its elements, at any depth. An object is no value, nor is an object within an array.
    """
    node: Any = event
    for key in path:
        if not isinstance(node, Mapping) or key not in node:
            return [ABSENT]
        node = node[key]
    if isinstance(node, list | tuple):
        return list(_elements(node)) or [ABSENT]
    return [ABSENT] if isinstance(node, Mapping) else [node]


def _elements(array: list[Any] | tuple[Any, ...]) -> Iterator[Scalar]:
    stack = [iter(array)]
    while stack:
        for element in stack[-1]:
            if isinstance(element, list | tuple):
                stack.append(iter(element))
                break
            if not isinstance(element, Mapping):
                yield element
        else:
            stack.pop()
