"""`scan`: no index, an early-exit scan of the table. The baseline of every benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from matchers.algorithms.scan.kernel import Single, Table, scan, scan_lists, scan_lists_single, scan_single
from matchers.contract.held import ArraysHandle
from matchers.contract.matcher import Matcher, list_matches, one_event
from matchers.contract.tables import EventBatch, Int32, Int64, MatchBatch, SubscriptionTable
from matchers.kernels.rows import FEW


@dataclass(frozen=True, eq=False)
class Scan(Matcher):
    table: Table
    n_columns: int
    long_lists: bool  # so many that `scan_lists` is faster

    def match(self, events: EventBatch) -> MatchBatch:
        match = scan_lists if self.long_lists else scan

        def step(first: int, out: Int32, counts: Int64) -> int:
            return match(first, events.arrays, self.n_columns, self.table, out, counts)

        return list_matches(step, len(events), len(self.table.start) - 1)

    def alone(self) -> Callable[[EventBatch], Int32]:
        n = len(self.table.start) - 1
        held = ArraysHandle(Single(self.table, self.n_columns, np.empty(n, np.int32), np.empty(1, np.int64)))
        return one_event(scan_lists_single if self.long_lists else scan_single, held)


def build(table: SubscriptionTable) -> Scan:
    long_lists = table.listed_beyond(FEW) > table.n_subscriptions
    return Scan(Table(table.start, table.column, table.low, table.high), table.n_columns, long_lists)


STORED = (Scan, Table)
