"""Intervals and events as arrays, which need no decoding."""

from __future__ import annotations

from dataclasses import dataclass

from bench.workloads.prepared import Steps
from matchers import EventBatch, Matcher, SubscriptionTable


@dataclass(frozen=True, eq=False)
class Intervals:
    table: SubscriptionTable
    events: EventBatch
    compile_s: float | None = None

    def __len__(self) -> int:
        return len(self.events)

    def part(self, begin: int, end: int) -> EventBatch:
        offsets = self.events.offsets[begin : end + 1]
        within = slice(offsets[0], offsets[-1])
        return EventBatch(
            offsets - offsets[0], self.events.column[within], self.events.value[within], self.events.n_columns
        )

    def steps(self, matcher: Matcher) -> Steps:
        return {"match": matcher.match}

    def encoded(self, begin: int, end: int) -> EventBatch:
        return self.part(begin, end)
