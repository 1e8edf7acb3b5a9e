"""The front door for people: subscriptions as written in, ids out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matchers.errors import MatchingError, PatternError
from matchers.language import parse
from matchers.lowering import lower
from matchers.model import Event, Pattern, Predicate, Scalar, values_at
from matchers.snapshot import Snapshot


@dataclass(frozen=True)
class Explanation:
    """Why one predicate holds for an event, or does not."""

    predicate: Predicate
    values: tuple[Scalar, ...]  # what the event has there
    held_by: tuple[Scalar, ...]  # those of them that satisfy it

    @property
    def held(self) -> bool:
        return bool(self.held_by)

    def __str__(self) -> str:
        wanted = " or ".join(map(str, self.predicate.operators))
        found = ", ".join(repr(v) for v in (self.held_by or self.values))
        return (
            f"{'held    ' if self.held else 'not held'} {'.'.join(self.predicate.path)}: wanted {wanted}; found {found}"
        )


@dataclass(frozen=True, eq=False)
class Index:
    """Subscriptions by id, and the snapshot that matches them. Immutable: `update` makes another."""

    patterns: Mapping[str, Pattern]
    snapshot: Snapshot[str]

    @classmethod
    def build(cls, subscriptions: Mapping[str, Any], algorithm: str = "scan", **options: Any) -> Index:
        """From patterns (SUBSCRIPTIONS.md) by id; options are the algorithm's. Raises MatchingError."""
        return cls({}, Snapshot(algorithm=algorithm, options=options)).update(add=subscriptions)

    def update(self, add: Mapping[str, Any] | None = None, remove: Iterable[str] = ()) -> Index:
        """The next version. An id that is there already is replaced. Raises MatchingError, then nothing has changed."""
        removed = set(remove)
        if unknown := sorted(removed - self.patterns.keys()):
            raise MatchingError(f"cannot remove {unknown[0]!r}: no such subscription")
        parsed, lowered = {}, []
        for id, document in (add or {}).items():
            try:
                parsed[id] = parse(document)
                lowered.append((id, lower(parsed[id])))
            except PatternError as error:
                raise MatchingError(f"subscription {id!r}: {error}") from error
        kept = {id: pattern for id, pattern in self.patterns.items() if id not in removed}
        return Index(kept | parsed, self.snapshot.update(lowered, removed))

    @property
    def version(self) -> int:
        return self.snapshot.version

    def __len__(self) -> int:
        return len(self.patterns)

    def match(self, events: Sequence[Event]) -> list[list[str]]:
        """For each event the ids of the subscriptions it satisfies, ascending."""
        return [sorted(ids) for ids in self.snapshot.match(events)]

    def explain(self, event: Event, id: str) -> list[Explanation]:
        """One explanation per predicate of a subscription: held or not, and the values that decided it."""
        if id not in self.patterns:
            raise MatchingError(f"cannot explain {id!r}: no such subscription")
        return [_explain(predicate, event) for predicate in self.patterns[id].predicates]


def _explain(predicate: Predicate, event: Event) -> Explanation:
    values = tuple(values_at(event, predicate.path))
    return Explanation(predicate, values, tuple(v for v in values if any(op.holds(v) for op in predicate.operators)))
