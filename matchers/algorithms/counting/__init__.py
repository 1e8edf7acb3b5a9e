"""`counting`: per column the intervals ascending by low; a subscription whose every column was hit matches.

Source: the counting algorithm of Siena's fast forwarding (Carzaniga and Wolf, SIGCOMM 2003), without its pruning.

A batch is counted in lanes if its events have many of the columns: a row of up to 64 events, and one counter line, for
each interval (kernels/lanes.py). The index is read once for them, and not for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matchers.algorithms.counting.kernel import Columns, counting, counting_in_lanes
from matchers.algorithms.lanes import MOST_LINES, Words, dense, in_lanes, list_chunks
from matchers.contract.matcher import Matcher, list_matches
from matchers.contract.tables import EventBatch, Int32, Int64, MatchBatch, SubscriptionTable
from matchers.kernels.counting import padded

DENSE_LANES = 40  # lanes of a row at least


@dataclass(frozen=True, eq=False)
class Counting(Matcher):
    columns: Columns

    def match(self, events: EventBatch) -> MatchBatch:
        n_columns = len(self.columns.start) - 1
        fit = self.columns.n_subscriptions <= MOST_LINES and self.columns.needed.itemsize == 1
        if fit and dense(events, n_columns, DENSE_LANES) and in_lanes(events, n_columns):

            def mark(base: int, bits: Words) -> None:
                counting_in_lanes(base, events.arrays, self.columns, bits)

            return list_chunks(mark, len(events), self.columns.n_subscriptions)

        def step(first: int, out: Int32, counts: Int64) -> int:
            return counting(first, events.arrays, self.columns, out, counts)

        return list_matches(step, len(events), self.columns.n_subscriptions)


def build(table: SubscriptionTable) -> Counting:
    order = np.lexsort((table.low, table.column))
    start = np.searchsorted(table.column[order], np.arange(table.n_columns + 1)).astype(np.int64)
    subscription, low, high = table.subscription[order], table.low[order], table.high[order]
    return Counting(Columns(start, subscription, low, high, padded(table.needed), table.n_subscriptions))


STORED = (Counting, Columns)
