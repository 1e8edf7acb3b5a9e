"""`scan`: no index at all, an early-exit scan of the table. The honest baseline of every benchmark."""

from __future__ import annotations

from dataclasses import dataclass

from matchers.base import Matcher, list_matches
from matchers.kernels.scan import scan
from matchers.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable


@dataclass(frozen=True, eq=False)
class Scan(Matcher):
    start: Int64  # [S + 1]
    column: Int32  # [I]
    low: Float64  # [I]
    high: Float64  # [I]
    n_columns: int

    def match(self, events: EventBatch) -> MatchBatch:
        def step(first: int, out: Int32, counts: Int64) -> int:
            return scan(
                first,
                events.offsets,
                events.column,
                events.value,
                self.n_columns,
                self.start,
                self.column,
                self.low,
                self.high,
                out,
                counts,
            )

        return list_matches(step, len(events), len(self.start) - 1)


def build(table: SubscriptionTable) -> Scan:
    return Scan(table.start, table.column, table.low, table.high, table.n_columns)
