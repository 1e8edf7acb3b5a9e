"""`counting`: per column the intervals ascending by low; a subscription whose every column was hit matches.

Source: the counting algorithm of Siena's fast forwarding (Carzaniga and Wolf, SIGCOMM 2003), without its pruning.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matchers.algorithms.counting.kernel import Columns, counting
from matchers.contract.matcher import Matcher, list_matches
from matchers.contract.tables import EventBatch, Int32, Int64, MatchBatch, SubscriptionTable
from matchers.kernels.counting import padded


@dataclass(frozen=True, eq=False)
class Counting(Matcher):
    columns: Columns

    def match(self, events: EventBatch) -> MatchBatch:
        def step(first: int, out: Int32, counts: Int64) -> int:
            return counting(first, events.arrays, self.columns, out, counts)

        return list_matches(step, len(events), self.columns.n_subscriptions)


def build(table: SubscriptionTable) -> Counting:
    order = np.lexsort((table.low, table.column))
    start = np.searchsorted(table.column[order], np.arange(table.n_columns + 1)).astype(np.int64)
    subscription, low, high = table.subscription[order], table.low[order], table.high[order]
    return Counting(Columns(start, subscription, low, high, padded(table.needed), table.n_subscriptions))
