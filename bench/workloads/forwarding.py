"""Subscriptions behind interfaces: the answer for an event is the set of its interfaces."""

from __future__ import annotations

from dataclasses import dataclass

from bench.workloads.intervals import Intervals
from bench.workloads.prepared import Steps
from matchers import EventBatch, Interfaces, MatchBatch, Matcher


@dataclass(frozen=True, eq=False, kw_only=True)
class Forwarding(Intervals):
    interfaces: Interfaces

    def steps(self, matcher: Matcher) -> Steps:
        def forward(events: EventBatch) -> MatchBatch:
            return matcher.forward(events, self.interfaces)

        return {"forward": forward}
