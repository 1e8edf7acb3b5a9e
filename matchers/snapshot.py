"""One numbered, immutable version of a set of subscriptions.

A snapshot is a few segments and, for each, the positions of those that were replaced or removed since it was built.
An update appends a small segment and joins the last two for as long as the older is not FANOUT times as long, so
a subscription is moved O(log n) times in its life and matching asks O(log n) indexes. Old snapshots stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from matchers.algorithms import ALGORITHMS
from matchers.base import Matcher
from matchers.encoding import Encoder
from matchers.errors import MatchingError, known
from matchers.fields import Fields
from matchers.lowering import Conjunction
from matchers.model import Event
from matchers.segment import Segment
from matchers.tables import Int32
from matchers.values import Values, read_documents

Id = TypeVar("Id", bound=Hashable)

FANOUT = 4
_NONE: Int32 = np.empty(0, np.int32)


@dataclass(frozen=True, eq=False)
class Part(Generic[Id]):
    """A segment with the index over its table: immutable, so it can be handed out once and kept."""

    segment: Segment[Id]
    matcher: Matcher

    def match(
        self, values: Values, encoder: Encoder, document: Callable[[int], Event], removed: Int32
    ) -> tuple[Int32, Int32]:
        """(event, position in the segment's ids) of every match, ascending, without the removed positions.

        `document` gives an event whole, for the few cases in which its values do not decide.
        """
        rows = self.matcher.match(encoder.encode(values))
        found = self.segment.subscriptions(self.segment.confirmed(rows, values.several, document))
        event = np.repeat(np.arange(len(values), dtype=np.int32), np.diff(found.offsets))
        position = found.subscription
        if len(removed):
            at = np.minimum(np.searchsorted(removed, position), len(removed) - 1)
            alive = removed[at] != position
            event, position = event[alive], position[alive]
        return event, position


@dataclass(frozen=True, eq=False)
class Snapshot(Generic[Id]):
    version: int = 0
    algorithm: str = "scan"
    options: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[Part[Id], ...] = ()
    removed: tuple[Int32, ...] = ()  # ascending positions, one array a part

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise MatchingError(f"unknown algorithm {self.algorithm!r}; {known(self.algorithm, ALGORITHMS)}")

    def __len__(self) -> int:
        return sum(len(p.segment.ids) - len(r) for p, r in zip(self.parts, self.removed, strict=True))

    def __contains__(self, id: Id) -> bool:
        return any(
            (position := part.segment.position.get(id)) is not None and position not in removed
            for part, removed in zip(self.parts, self.removed, strict=True)
        )

    @cached_property
    def _reading(self) -> tuple[Fields, list[Encoder]]:
        return reading_of(self.parts)

    def update(
        self,
        add: Iterable[tuple[Id, Sequence[Conjunction]]] | Segment[Id] = (),
        remove: Iterable[Id] = (),
        version: int | None = None,
    ) -> Snapshot[Id]:
        """The next version: `remove`, then `add`, which replaces an id that is there. Unknown ids do not matter."""
        fresh = add if isinstance(add, Segment) else Segment.build(add)
        gone = {*remove, *fresh.ids}
        live = []
        for part, removed in zip(self.parts, self.removed, strict=True):
            index = part.segment.position
            positions = [index[id] for id in gone if id in index]
            live.append((part, np.union1d(removed, np.array(positions, np.int32)) if positions else removed))
        live = [(part, removed) for part, removed in live if len(removed) < len(part.segment.ids)]
        stay = _untouched([(len(p.segment.ids), len(removed)) for p, removed in live], len(fresh.ids))
        joining = [(part.segment, removed) for part, removed in live[stay:]] + [(fresh, _NONE)] * bool(fresh.ids)
        del live[stay:]
        if joining:
            segment = fresh if len(joining) == 1 and fresh.ids else Segment.merge(joining)
            live.append((Part(segment, ALGORITHMS[self.algorithm](segment.table, **self.options)), _NONE))
        return replace(
            self,
            version=self.version + 1 if version is None else version,
            parts=tuple(part for part, _ in live),
            removed=tuple(removed for _, removed in live),
        )

    def match(self, events: Sequence[Event]) -> list[list[Id]]:
        """For each event the ids it satisfies, in no particular order."""
        matched: list[list[Id]] = [[] for _ in events]
        fields, encoders = self._reading
        values = read_documents(events, fields)
        for part, encoder, removed in zip(self.parts, encoders, self.removed, strict=True):
            ids = part.segment.ids
            for event, position in zip(
                *(a.tolist() for a in part.match(values, encoder, events.__getitem__, removed)), strict=True
            ):
                matched[event].append(ids[position])
        return matched


def reading_of(parts: Sequence[Part[Id]]) -> tuple[Fields, list[Encoder]]:
    """What must be read of an event for these, and how each of them encodes it."""
    vocabularies = [part.segment.vocabulary for part in parts]
    fields = Fields.of(path for vocabulary in vocabularies for path, _ in vocabulary.columns)
    return fields, [Encoder(vocabulary, fields) for vocabulary in vocabularies]


def _untouched(sizes: Sequence[tuple[int, int]], added: int) -> int:
    """How many of the oldest parts, given as (ids, removed ids), an update leaves alone."""
    stay = len(sizes)
    while stay and sizes[stay - 1][0] - sizes[stay - 1][1] < FANOUT * added:
        added += sizes[stay - 1][0] - sizes[stay - 1][1]
        stay -= 1
    mostly_removed = (i for i, (ids, removed) in enumerate(sizes) if 2 * removed > ids)
    return min(stay, next(mostly_removed, stay))
