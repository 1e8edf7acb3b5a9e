"""The model of a subscription: predicates on the fields of an event, combined by "all" and "one of"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from matchers.errors import dotted

Path = tuple[str, ...]
Event = Mapping[str, Any]


class Absent:
    """The value of a field that an event does not have."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent()
Scalar = str | float | int | bool | None | Absent


@dataclass(frozen=True, slots=True)
class View:
    """A way of seeing an event, in which each array stands for one of its elements."""

    values: Mapping[Path, Scalar]  # of the fields that hold one
    arrays: Mapping[Path, tuple[Scalar, ...]]  # all values of a field in the objects chosen; of no array, the one
    objects: Mapping[Path, Event]  # the objects chosen, from the event itself on


Interval = tuple[float, float]  # closed
Range = tuple[bytes, bytes]  # half-open
Region = Sequence[Interval] | Sequence[Range]


class Operator(Protocol):
    """A condition on one value: its definition, and the regions of the facets in which the matching values lie."""

    def holds(self, value: Scalar) -> bool: ...

    def constraint(self) -> Constraint: ...


@dataclass(frozen=True, slots=True)
class Constraint:
    """Conditions on one value: it lies in the region of each named facet and satisfies the other conditions."""

    regions: Mapping[str, Region]
    residual: tuple[Operator | Contains | Compared, ...] = ()


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate on a field: it holds if one of its operators holds for the value."""

    path: Path
    operators: tuple[Operator, ...]

    def holds(self, view: View) -> bool:
        return self.accepts(view.values.get(self.path, ABSENT))

    def accepts(self, value: Scalar) -> bool:
        return any(operator.holds(value) for operator in self.operators)

    def wanted(self) -> list[str]:
        return list(map(str, self.operators))


@dataclass(frozen=True, slots=True)
class Contains:
    """A predicate on an array: it holds if one of the operators, or each, holds for some value. If it is negated, it
    holds if that is not so."""

    path: Path
    operators: tuple[Operator, ...]
    is_wanted: bool = True
    each: bool = False

    def holds(self, view: View) -> bool:
        return self.accepts(view.arrays.get(self.path, ()))

    def accepts(self, values: Sequence[Scalar]) -> bool:
        """Evaluate each operator for each value: the definition. `lookup.array_test` gives the same result, faster."""
        combined = all if self.each else any
        return combined(any(map(operator.holds, values)) for operator in self.operators) is self.is_wanted

    def wanted(self) -> list[str]:
        if not self.each:
            return [f"{'an' if self.is_wanted else 'no'} element {' or '.join(map(str, self.operators))}"]
        wanted = " and ".join(f"an element {operator}" for operator in self.operators)
        return [wanted if self.is_wanted else f"not {wanted}"]


class Relation(Protocol):
    """A comparison of a value with others: it makes the test, and gives the ranges in which both can pass."""

    def against(self, others: Iterable[Scalar]) -> Callable[[Scalar], bool]: ...

    def constraints(self) -> tuple[Constraint, Constraint]: ...


@dataclass(frozen=True, slots=True)
class Compared:
    """A predicate on two fields: it holds if the value compares so with some value of the other field; or, if it is
    negated, with none.

    In the common beginning of both paths, the objects are the chosen ones; after it, all values of an array count. So
    a value needs no search, however many arrays an event has.
    """

    path: Path
    relation: Relation
    other: Path  # from the top of the event, too; neither path begins with the other
    is_wanted: bool = True

    def holds(self, view: View) -> bool:
        return self.against(self.others(view))(view.values.get(self.path, ABSENT))

    def others(self, view: View) -> list[Scalar]:
        """The values of the other field."""
        return values_at(view.objects.get(self.path[: self.common], ABSENT), self.other[self.common :])

    def against(self, others: Iterable[Scalar]) -> Callable[[Scalar], bool]:
        """Return the test of a value against these values of the other field."""
        test = self.relation.against(others)
        return lambda value: test(value) is self.is_wanted

    @property
    def common(self) -> int:
        """The number of names that both paths begin with."""
        return next(i for i, (a, b) in enumerate(zip(self.path, self.other, strict=False)) if a != b)

    def wanted(self) -> list[str]:
        return [f"{'' if self.is_wanted else 'not '}{self.relation} field {dotted(self.other)}"]


@dataclass(frozen=True, slots=True)
class OneOf:
    """A disjunction: it holds if one of its patterns holds."""

    path: Path  # of the `$or` or `$not`, or the field whose list it is
    patterns: tuple[Pattern, ...]

    def holds(self, view: View) -> bool:
        return any(pattern.holds(view) for pattern in self.patterns)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern: it holds if all its parts hold; without parts it always holds."""

    parts: tuple[Part, ...]

    def holds(self, view: View) -> bool:
        return all(part.holds(view) for part in self.parts)

    def predicates(self) -> Iterator[Predicate | Contains | Compared]:
        for part in self.parts:
            if isinstance(part, OneOf):
                for pattern in part.patterns:
                    yield from pattern.predicates()
            else:
                yield part


Part = Predicate | Contains | Compared | OneOf


def values_at(event: Any, path: Path) -> list[Scalar]:
    """Return the values of an event at a path: one value, or one for each element of the arrays on the path.

    An empty array, an object and a missing field are ABSENT.
    """
    values: list[Scalar] = []
    stack = [(event, 0)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, list | tuple) and node:
            stack += [(element, depth) for element in reversed(node)]
        elif depth < len(path):
            child = node.get(path[depth], ABSENT) if isinstance(node, Mapping) else ABSENT
            if child is ABSENT:
                values.append(ABSENT)
            else:
                stack.append((child, depth + 1))
        else:
            values.append(ABSENT if isinstance(node, Mapping | list | tuple) else node)
    return values


def elements(node: Any) -> Iterator[Scalar]:
    """Return the values in an array and in the arrays within it, without objects."""
    stack = [node]
    while stack:
        element = stack.pop()
        if isinstance(element, list | tuple):
            stack += reversed(element)
        elif not isinstance(element, Mapping):
            yield element
