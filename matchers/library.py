"""The public interface of the library: patterns and events in, ids out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matchers.errors import MatchingError, PatternError
from matchers.index.snapshot import Snapshot
from matchers.language.explanation import Line, explain
from matchers.language.lowering import lower
from matchers.language.model import Event, Pattern
from matchers.language.parsing import parse


@dataclass(frozen=True, eq=False)
class Index:
    """Subscriptions by id, and the snapshot that matches them. Immutable: `update` makes another."""

    patterns: Mapping[str, Pattern]
    snapshot: Snapshot

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

    def explain(self, event: Event, id: str) -> list[Line]:
        """Why an event satisfies a subscription, or does not: one line per predicate. Raises MatchingError."""
        if id not in self.patterns:
            raise MatchingError(f"cannot explain {id!r}: no such subscription")
        return explain(self.patterns[id], event)
