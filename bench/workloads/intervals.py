"""Intervals and events as arrays, which need no decoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.workloads.prepared import Steps
from matchers import EventBatch, Matcher, SubscriptionTable


@dataclass(frozen=True, eq=False)
class Intervals:
    table: SubscriptionTable
    events: EventBatch
    training: Callable[[], EventBatch]
    compile_s: float | None = None

    def __len__(self) -> int:
        return len(self.events)

    def part(self, begin: int, end: int) -> EventBatch:
        return self.events.part(begin, end)

    def steps(self, matcher: Matcher) -> Steps:
        return {"match": matcher.match}

    def encoded(self, begin: int, end: int) -> EventBatch:
        return self.part(begin, end)
