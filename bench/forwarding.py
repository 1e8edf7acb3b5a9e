"""Intervals whose subscriptions stand behind interfaces: what is asked for is to which of these an event goes."""

from __future__ import annotations

from dataclasses import dataclass

from bench.intervals import Intervals
from bench.prepared import Steps
from matchers import EventBatch, Interfaces, MatchBatch, Matcher


@dataclass(frozen=True, eq=False, kw_only=True)
class Forwarding(Intervals):
    interfaces: Interfaces

    def steps(self, matcher: Matcher) -> Steps:
        def forward(events: EventBatch) -> MatchBatch:
            return matcher.forward(events, self.interfaces)

        return {"forward": forward}
