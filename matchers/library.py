"""The public interface of the library: patterns and events in, ids out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from matchers.contract.tables import SubscriptionTable
from matchers.errors import MatchingError
from matchers.index.compiling import Lowered, checked, compiled, lowered, pattern_of, segment_of
from matchers.index.single import Single
from matchers.index.snapshot import Snapshot
from matchers.index.values import document, read_document
from matchers.language.explanation import Line, explain
from matchers.language.model import Event
from matchers.language.nesting import TOO_DEEP
from matchers.registry import named

FEW_EVENTS = 16  # events, which are matched faster one by one than as a batch
FEW_PENDING = 64  # subscriptions that wait for the first use of an index
FEW_SUBSCRIPTIONS = 256  # added later, which take longer to index than to scan for many events


@dataclass(frozen=True, eq=False)
class Index:
    """Subscriptions by id, compiled. Immutable: `update` makes another, which shares what has not changed."""

    version: int
    _held: tuple[Snapshot, Mapping[str, Lowered]]  # what is indexed; what was added since, which the first use indexes

    @classmethod
    def build(cls, subscriptions: Mapping[str, Any], algorithm: str = "auto", **options: Any) -> Index:
        """Compile patterns (SUBSCRIPTIONS.md) by id; options are the algorithm's. Raises MatchingError.

        Patterns that share a shape, or whose members do, are compiled together, up to ten times as fast as one by one.
        """
        empty = Snapshot(algorithm=algorithm, options=options, scanned=FEW_SUBSCRIPTIONS)
        if options:
            _check_options(algorithm, options)
        return cls(1, (empty.update(compiled(checked(subscriptions))), {}))

    def update(self, add: Mapping[str, Any] | None = None, remove: Iterable[str] = ()) -> Index:
        """Return the next version; a pattern for a known id replaces it. Raises MatchingError and changes nothing.

        A few added patterns are checked now, and indexed by the first use of an index that has them, together with
        those of later updates: one by one they take a fifth of the time.
        """
        if isinstance(remove, str | bytes):
            raise MatchingError(f"update takes a list of ids; for one write remove=[id], not a {type(remove).__name__}")
        added, removed = checked(add or {}), set(remove)
        indexed, pending = self._held
        if removed or len(added) + len(pending) > FEW_PENDING:
            if unknown := self.snapshot.unknown(removed):
                raise MatchingError(f"cannot remove {unknown[0]!r}: no such subscription")
            return Index(self.version + 1, (self.snapshot.update(compiled(added), removed), {}))
        return Index(self.version + 1, (indexed, {**pending, **lowered(added)}))

    @property
    def snapshot(self) -> Snapshot:
        indexed, pending = self._held
        if pending:
            indexed = indexed.update(segment_of(pending))
            object.__setattr__(self, "_held", (indexed, {}))  # what was joined may be freed
        return indexed

    def __len__(self) -> int:
        return len(self.snapshot)

    def match(self, events: Sequence[Event | bytes]) -> list[list[str]]:
        """Return, per event, the ids of the subscriptions that it satisfies, ascending. An event is a document or the
        bytes of its JSON.

        Several threads may call it at the same time. Raises TypeError for anything else, and for values that JSON does
        not have. Raises MatchingError for bytes that are not an event (SUBSCRIPTIONS.md), and for documents with half a
        pair of surrogates or more than 64 levels in a field that a subscription names; fields that are only compared
        with, or only have `contains-...`, may not be checked. Among several events, the error names the number of the
        first wrong one, from 0. NaN and infinities in documents are values.
        """
        if type(events) is not list and isinstance(events, Mapping | str | bytes):  # the second takes a microsecond
            raise TypeError(
                f"match takes a list of events; for one write match([event]), not a {type(events).__name__}"
            )
        n = len(events)
        try:
            if n == 1:
                return [sorted(self._single.match(events[0]))]
            found = self.snapshot.match(events) if n > FEW_EVENTS else map(self._single.match, events)
            return [sorted(ids) for ids in found]
        except (MatchingError, TypeError, RecursionError) as error:
            if n > 1:
                self._reject_one(events)
            if isinstance(error, RecursionError):  # a document, in what only checks of whole events look at
                raise MatchingError(TOO_DEEP) from None
            raise

    def _reject_one(self, events: Sequence[Event | bytes]) -> None:
        """Raise the error of the first event that has one, with its number."""
        for e, event in enumerate(events):
            try:
                self.match([event])
            except (MatchingError, TypeError) as error:
                kind = MatchingError if isinstance(error, MatchingError) else TypeError
                raise kind(f"event {e}: {error}") from None

    @cached_property
    def _single(self) -> Single:
        return Single(self.snapshot)

    def explain(self, event: Event | bytes, id: str) -> list[Line]:
        """Explain why an event satisfies a subscription or does not: one line per predicate. Raises the errors of
        `match`, and MatchingError for an unknown id."""
        place = self.snapshot.place(id)
        if place is None:
            raise MatchingError(f"cannot explain {id!r}: no such subscription")
        part, position = place
        try:
            whole = document(event)
            read_document(whole, self.snapshot.plan.fields)  # raises what `match` raises
            return explain(pattern_of(part.segment, position), whole)
        except RecursionError:
            raise MatchingError(TOO_DEEP) from None

    def __getstate__(self) -> dict[str, object]:
        return {"version": self.version, "_held": (self.snapshot, {})}


def _check_options(algorithm: str, options: Mapping[str, Any]) -> None:
    """Build an index of no subscriptions. Raises MatchingError for options that the algorithm does not take."""
    nothing = SubscriptionTable.from_intervals([], [], [], [], n_subscriptions=0, n_columns=0)
    try:
        named(algorithm)(nothing, **options)
    except MatchingError:
        raise
    except (TypeError, ValueError) as error:
        raise MatchingError(f"options of {algorithm}: {error}") from None
