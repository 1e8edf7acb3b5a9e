"""Read a pattern as JSON gives it into the model, or say what is wrong with it and where.

    {"symbol": ["IBM", {"prefix": "MS"}], "quote": {"price": [{"numeric": [">", 100, "<=", 200]}]}}

SUBSCRIPTIONS.md is the specification.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from matchers.errors import PatternError, known
from matchers.model import Operator, Path, Pattern, Predicate
from matchers.operators import OPERATORS, Equals, OperatorError, literal

MAX_DEPTH = 32  # levels of nested objects


def parse(document: Any) -> Pattern:
    """Raises PatternError."""
    if not isinstance(document, Mapping):
        raise PatternError((), f"must be an object of fields, not {type(document).__name__}")
    return Pattern(tuple(_predicates(document, ())))


def _predicates(document: Mapping[str, Any], path: Path) -> Iterator[Predicate]:
    if len(path) > MAX_DEPTH:
        raise PatternError(path, f"is nested deeper than {MAX_DEPTH} objects")
    for key, node in document.items():
        here = (*path, key)
        if key.startswith("$"):
            raise PatternError(here, "names that start with $ are kept for operators, and this one is not known")
        if isinstance(node, Mapping):
            if not node:
                raise PatternError(here, "is an empty object; name a field in it, or leave it out")
            yield from _predicates(node, here)
        elif isinstance(node, list):
            yield Predicate(here, tuple(_alternatives(node, here)))
        else:
            raise PatternError(here, f"needs a list of what it may be, such as [{node!r}]")


def _alternatives(node: list[Any], path: Path) -> Iterator[Operator]:
    if not node:
        raise PatternError(path, 'has an empty list, which nothing matches; for any value write [{"exists": true}]')
    for alternative in node:
        try:
            yield _operator(alternative) if isinstance(alternative, Mapping) else Equals(literal(alternative))
        except OperatorError as error:
            raise PatternError(path, str(error)) from None


def _operator(alternative: Mapping[str, Any]) -> Operator:
    if len(alternative) != 1:
        raise OperatorError(f"an operator is an object with one key, not {len(alternative)}")
    ((name, argument),) = alternative.items()
    if name not in OPERATORS:
        raise OperatorError(f"unknown operator {name!r}; {known(name, OPERATORS)}")
    return OPERATORS[name](argument)
