"""Count, subscription by subscription, the columns in which the event hits an interval.

    column c owns intervals start[c] .. start[c + 1], ascending by low
        low:  1  2  2  5      value = 3 -> visit low <= 3, keep high >= 3
        high: 9  2  4  6                   ^1..9 counts, 2..2 does not, 2..4 counts

Intervals of one (subscription, column) are disjoint, so one value counts at most once; several values of one column
count once for each subscription (`kernels/counting.py`). An interval that is visited is hit about every other time, so
there is no branch on it: its counter is decremented by 0 or 1. Cost: O(visited + S / 8) per event.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.ascending import first_beyond
from matchers.kernels.counting import count_hit, group_of, list_complete, restart, stamps
from matchers.kernels.events import Events
from matchers.kernels.jit import kernel


class Columns(NamedTuple):
    """I intervals on A columns of S subscriptions, by column, ascending by low within a column."""

    start: Any  # [A + 1] int64: column c owns intervals start[c] .. start[c + 1]
    subscription: Any  # [I] int32
    low: Any  # [I] float64
    high: Any  # [I] float64
    needed: Any  # [S, padded], counters
    n_subscriptions: int


@kernel
def counting(event: int, events: Events, index: Columns, out: Any, counts: Any) -> int:
    offsets, e_column, e_value = events
    start, subscription, low, high, needed, n_subscriptions = index
    n_columns = start.shape[0] - 1
    left = np.empty_like(needed)
    stamp = stamps(event, offsets, e_column, n_columns, needed.shape[0])
    group = 0
    m = 0
    while event < offsets.shape[0] - 1 and out.shape[0] - m >= n_subscriptions:
        restart(left, needed)
        begin, end = offsets[event], offsets[event + 1]
        for k in range(begin, end):
            c = e_column[k]
            if c >= n_columns:  # the batch may know more columns than the table
                break
            group = group_of(e_column, k, begin, end, group)
            value = e_value[k]
            visited = first_beyond(low, start[c], start[c + 1], value)
            if group == 0:
                for i in range(start[c], visited):
                    left[np.uint32(subscription[i])] -= high[i] >= value  # unsigned: no index counts from the end
            else:
                for i in range(start[c], visited):
                    if high[i] >= value:
                        count_hit(subscription[i], group, stamp, left)
        before = m
        m = list_complete(left, out, m)
        counts[event] = m - before
        event += 1
    return event
