"""Profile the work of an algorithm per event, for matchers that report it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from matchers import EventBatch


@runtime_checkable
class Profiled(Protocol):
    """A matcher with counters. `profile` may take longer than `match`; it is called after the measurement."""

    def profile(self, events: EventBatch) -> dict[str, float]:
        """Counts per event, by counter; or times, whose names have the unit."""
