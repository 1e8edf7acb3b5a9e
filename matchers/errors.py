"""Errors in the input of the matching library."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class MatchingError(ValueError):
    """The caller's input cannot be used; the text names the thing, the reason and what would work."""


class PatternError(MatchingError):
    """A subscription's pattern breaks the language (SUBSCRIPTIONS.md); `field` says where."""

    def __init__(self, field: tuple[str, ...], reason: str) -> None:
        self.field = field
        super().__init__(f"{'field ' + '.'.join(field) if field else 'pattern'}: {reason}")


class TableError(MatchingError):
    """Arrays do not make a SubscriptionTable or an EventBatch."""


def known(name: str, names: Iterable[str]) -> str:
    """The end of an error about an unknown name: the nearest known one, or all of them."""
    names = sorted(names)
    near = get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
