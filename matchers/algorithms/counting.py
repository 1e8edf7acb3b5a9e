"""`counting`: per column the intervals ascending by low; a subscription whose every column was hit matches.

Source: the counting algorithm of Siena's fast forwarding (Carzaniga and Wolf, SIGCOMM 2003), without its pruning.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matchers.base import Matcher, list_matches
from matchers.kernels.counting import counting
from matchers.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable


@dataclass(frozen=True, eq=False)
class Counting(Matcher):
    start: Int64  # [A + 1]: column c owns intervals start[c] .. start[c + 1]
    subscription: Int32  # [I], ascending by low within a column
    low: Float64  # [I]
    high: Float64  # [I]
    needed: Int32  # [S]

    def match(self, events: EventBatch) -> MatchBatch:
        def step(first: int, out: Int32, counts: Int64) -> int:
            return counting(
                first,
                events.offsets,
                events.column,
                events.value,
                self.start,
                self.subscription,
                self.low,
                self.high,
                self.needed,
                out,
                counts,
            )

        return list_matches(step, len(events), len(self.needed))


def build(table: SubscriptionTable) -> Counting:
    order = np.lexsort((table.low, table.column))
    start = np.searchsorted(table.column[order], np.arange(table.n_columns + 1)).astype(np.int64)
    return Counting(start, table.subscription[order], table.low[order], table.high[order], table.needed)
