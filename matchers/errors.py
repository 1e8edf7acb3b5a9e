"""Errors in the input of the matching library."""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import get_close_matches

PLACES = 4  # alternatives within each other that a message names


class MatchingError(ValueError):
    """The caller's input cannot be used. The text names the thing, the reason and what would work."""


class PatternError(MatchingError):
    """A pattern breaks a rule of the language (SUBSCRIPTIONS.md). `field` names the field; `places` are the
    alternatives around it, outermost first."""

    def __init__(self, field: tuple[str, ...], reason: str, places: tuple[str, ...] = ()) -> None:
        self.field, self.reason, self.places = field, reason, places
        shown = places if len(places) <= PLACES else (*places[: PLACES - 1], "...", places[-1])
        super().__init__(": ".join((*shown, f"field {dotted(field)}" if field else "pattern", reason)))

    def within(self, place: str) -> PatternError:
        """Return the same error, found in this part of the pattern."""
        return PatternError(self.field, self.reason, (place, *self.places))

    def __reduce__(self) -> tuple[type[PatternError], tuple[tuple[str, ...], str, tuple[str, ...]]]:
        return PatternError, (self.field, self.reason, self.places)


class TableError(MatchingError):
    """Arrays do not make a SubscriptionTable or an EventBatch."""


def dotted(field: Iterable[str]) -> str:
    """The names of a field with dots between them; one with characters that a terminal would obey as JSON writes it."""
    return ".".join(name if name.isprintable() else json.dumps(name)[1:-1] for name in field)


def known(name: str, names: Iterable[str]) -> str:
    """The end of an error about an unknown name: the nearest known one, or all of them."""
    names = sorted(names)
    near = get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
