"""`scan`: no index, an early-exit scan of the table. The baseline of every benchmark."""

from __future__ import annotations

from dataclasses import dataclass

from matchers.algorithms.scan.kernel import Table, scan
from matchers.contract.matcher import Matcher, list_matches
from matchers.contract.tables import EventBatch, Int32, Int64, MatchBatch, SubscriptionTable


@dataclass(frozen=True, eq=False)
class Scan(Matcher):
    table: Table
    n_columns: int

    def match(self, events: EventBatch) -> MatchBatch:
        def step(first: int, out: Int32, counts: Int64) -> int:
            return scan(first, events.arrays, self.n_columns, self.table, out, counts)

        return list_matches(step, len(events), len(self.table.start) - 1)


def build(table: SubscriptionTable) -> Scan:
    return Scan(Table(table.start, table.column, table.low, table.high), table.n_columns)
