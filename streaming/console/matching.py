"""Match one event with the subscriptions in force.

Each part is scanned: `scan` needs no index, is exact, and its kernels are those that every job has compiled before it
starts, whatever its algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from matchers.contract.tables import MatchBatch, offsets_of
from matchers.index.snapshot import FieldPlan, Snapshot
from matchers.index.values import read_events
from matchers.language.model import Event
from matchers.registry import ALGORITHMS
from streaming.index import notes

ALGORITHM = "scan"
MOST_VERIFIED = 10_000  # alternatives of which the event itself must decide whether they match


class EventMatches(NamedTuple):
    """The subscriptions that match an event."""

    total: int
    shown: list[tuple[str, str]]  # id and subscriber of the first
    unverified: int  # alternatives that were left out; the total may be too low by so many


@dataclass
class EventScan:
    """Matches one event after the other. It keeps how the fields of the last one were read."""

    most_shown: int
    _plan: FieldPlan | None = None

    def __call__(self, snapshot: Snapshot, event: Event, now_ms: int) -> EventMatches:
        """Raises MatchingError for an event that cannot be matched."""
        self._plan = plan = FieldPlan.of(snapshot.parts, self._plan)
        values, document = read_events([event], plan.fields)
        total, unverified, left = 0, 0, MOST_VERIFIED
        shown: list[tuple[str, str]] = []
        for part, encoder, removed in zip(snapshot.parts, plan.encoders, snapshot.removed, strict=True):
            rows = ALGORITHMS[ALGORITHM](part.segment.table).match(encoder.encode(values))
            suspects = part.segment.suspects(rows, values.several)
            if len(suspects) > left:
                kept = np.delete(rows.subscription, suspects[left:])
                rows = MatchBatch(offsets_of([len(kept)]), kept)
                unverified += len(suspects) - left
            left = max(0, left - len(suspects))
            _, position = part.settled(rows, values.several, document, removed)
            position = position[notes.numbers(part.segment, "expires_at_ms")[position] > now_ms]
            total += len(position)
            some = position[: self.most_shown - len(shown)]
            shown += zip(part.segment.ids.at(some), notes.subscribers(part.segment).at(some), strict=True)
        return EventMatches(total, shown, unverified)
