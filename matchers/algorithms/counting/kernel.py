"""Count, subscription by subscription, the columns in which the event hits an interval.

    column c owns intervals start[c] .. start[c + 1], ascending by low
        low:  1  2  2  5      value = 3 -> visit low <= 3, keep high >= 3
        high: 9  2  4  6                   ^1..9 counts, 2..2 does not, 2..4 counts

Intervals of one (subscription, column) are disjoint, so one value counts at most once; several values of one column
count once for each subscription (`kernels/counting.py`). Cost: O(visited + S) per event.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.counting import count_hit, group_of, list_complete
from matchers.kernels.events import Events
from matchers.kernels.jit import kernel


class Columns(NamedTuple):
    """I intervals on A columns of S subscriptions, by column, ascending by low within a column."""

    start: Any  # [A + 1] int64: column c owns intervals start[c] .. start[c + 1]
    subscription: Any  # [I] int32
    low: Any  # [I] float64
    high: Any  # [I] float64
    needed: Any  # [S] int32


@kernel
def counting(event: int, events: Events, index: Columns, out: Any, counts: Any) -> int:
    offsets, e_column, e_value = events
    start, subscription, low, high, needed = index
    n_subscriptions = needed.shape[0]
    hits = np.zeros(n_subscriptions, np.int32)
    stamp = np.zeros(n_subscriptions, np.int64)
    group = 0
    m = 0
    while event < offsets.shape[0] - 1 and out.shape[0] - m >= n_subscriptions:
        hits[:] = 0
        begin = offsets[event]
        for k in range(begin, offsets[event + 1]):
            c = e_column[k]
            if c >= start.shape[0] - 1:  # the batch may know more columns than the table
                break
            group = group_of(e_column, k, begin, group)
            value = e_value[k]
            for i in range(start[c], start[c + 1]):
                if low[i] > value:
                    break
                if high[i] >= value:
                    count_hit(subscription[i], group, stamp, hits)
        before = m
        m = list_complete(hits, needed, out, m)
        counts[event] = m - before
        event += 1
    return event
