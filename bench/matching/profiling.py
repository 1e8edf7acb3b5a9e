"""Profile the work of an algorithm per event, for matchers that report it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from matchers import EventBatch


@runtime_checkable
class Profiled(Protocol):
    """A matcher that counts. `profile` may take longer than `match`, and is asked after the measurement."""

    def profile(self, events: EventBatch) -> dict[str, float]:
        """By the name of what is counted: how many per event."""
