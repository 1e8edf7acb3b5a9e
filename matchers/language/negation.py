"""Negate a pattern: `$not` moves down to the predicates, so that no other module handles it."""

from __future__ import annotations

from dataclasses import replace

from matchers.language.model import Compared, Contains, OneOf, Part, Path, Pattern, Predicate
from matchers.language.operators import Not


def negated(pattern: Pattern, path: Path) -> tuple[Part, ...]:
    """Parts that all hold exactly when the pattern does not, for the same way of seeing an event. `path` is that of the
    `$not`."""
    if len(pattern.parts) == 1:
        return _opposite(pattern.parts[0], path)
    return (OneOf(path, tuple(Pattern(_opposite(part, path)) for part in pattern.parts)),)


def _opposite(part: Part, path: Path) -> tuple[Part, ...]:
    if isinstance(part, OneOf):
        return tuple(opposite for pattern in part.patterns for opposite in negated(pattern, path))
    if isinstance(part, Contains | Compared):
        return (replace(part, is_wanted=not part.is_wanted),)
    (first, *others) = part.operators
    if isinstance(first, Not) and not others:
        return (Predicate(part.path, first.operators),)
    return (Predicate(part.path, (Not(part.operators),)),)
