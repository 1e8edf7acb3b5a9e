"""The interface of a workload that `measure` uses: N events, and the steps from events to matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from matchers import EventBatch, Matcher, SubscriptionTable

TRAINING = 1_024  # events to learn from
SMALL = 4_096  # subscriptions for which algorithms run all their kernels

Steps = Mapping[str, Callable[[Any], Any]]  # by name, in order: each takes what the one before it gave


class Prepared(Protocol):
    """A workload in memory, the same for all algorithms."""

    @property
    def table(self) -> SubscriptionTable: ...

    @property
    def compile_s(self) -> float | None:
        """Seconds from the patterns' bytes to the table; None where no patterns were read."""

    def __len__(self) -> int: ...  # N

    def part(self, begin: int, end: int) -> Any:
        """Some of the events, as the first step takes them."""

    def steps(self, matcher: Matcher) -> Steps:
        """The steps of matching; the last gives a MatchBatch. An event costs the sum of their times."""

    def encoded(self, begin: int, end: int) -> EventBatch:
        """Some of the events, as a matcher takes them."""

    def training(self) -> EventBatch:
        """Other events of the same kind, from which an algorithm may learn."""


class Scenario(Protocol):
    """A workload described by its settings. The same settings always give the same workload."""

    def small(self) -> Scenario:
        """Return the scenario with few subscriptions and events, enough to compile all kernels."""

    def prepared(self) -> Prepared:
        """Raises BenchError."""
