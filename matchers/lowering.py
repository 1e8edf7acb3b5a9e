"""Lower a pattern to alternatives, each a conjunction of regions of (field, facet) columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from matchers import facets
from matchers.errors import PatternError
from matchers.facets import NUMBER, TOKEN, Interval, Range
from matchers.model import Path, Pattern, Predicate

MAX_ALTERNATIVES = 1_000

Column = tuple[Path, str]
Conjunction = dict[Column, Sequence[Interval] | Sequence[Range]]


def lower(pattern: Pattern) -> list[Conjunction]:
    """An event satisfies the pattern when it satisfies one of these. Raises PatternError past MAX_ALTERNATIVES."""
    choices = [_columns(predicate) for predicate in pattern.predicates]
    total = 1
    for choice, predicate in zip(choices, pattern.predicates, strict=True):
        total *= len(choice)
        if total > MAX_ALTERNATIVES:
            raise PatternError(
                predicate.path,
                f"the pattern expands to more than {MAX_ALTERNATIVES} alternatives; "
                "use fewer lists that mix numeric ranges with other conditions",
            )
    return [dict(conjunction) for conjunction in product(*choices)]


def _columns(predicate: Predicate) -> list[tuple[Column, Sequence[Interval] | Sequence[Range]]]:
    """The columns on which a field may satisfy the predicate: one, or both where ranges of numbers meet tokens."""
    numbers: list[Interval] = []
    tokens: list[Range] = []
    for operator in predicate.operators:
        region = operator.region()
        numbers += region.numbers
        tokens += region.tokens
    if tokens and all(low == high for low, high in numbers):
        tokens += [facets.exactly(facets.token(low)) for low, _ in numbers]
        numbers = []
    on_tokens = ((predicate.path, TOKEN), facets.union(tokens))
    on_numbers = ((predicate.path, NUMBER), numbers)
    if not tokens:
        return [on_numbers]
    return [on_numbers, on_tokens] if numbers else [on_tokens]
