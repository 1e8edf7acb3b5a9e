"""Count, subscription by subscription, the columns in which the event hits an interval.

    column c owns intervals start[c] .. start[c + 1], ascending by low
        low:  1  2  2  5      value = 3 -> visit low <= 3, keep high >= 3
        high: 9  2  4  6                   ^1..9 counts, 2..2 does not, 2..4 counts

Intervals of one (subscription, column) are disjoint, so one value counts at most once. Several values of one column
may count twice, so there `stamp` remembers the last (event, column) that counted. Cost: O(visited + S) per event.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.jit import kernel


@kernel
def counting(
    event: int,
    offsets: Any,
    e_column: Any,
    e_value: Any,
    start: Any,
    subscription: Any,
    low: Any,
    high: Any,
    needed: Any,
    out: Any,
    counts: Any,
) -> int:
    n_columns = start.shape[0] - 1
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
            if c >= n_columns:  # the batch may know more columns than the table
                continue
            if k == begin or e_column[k - 1] != c:
                group = k + 1
            value = e_value[k]
            for i in range(start[c], start[c + 1]):
                if low[i] > value:
                    break
                s = subscription[i]
                if high[i] >= value and stamp[s] != group:
                    stamp[s] = group
                    hits[s] += 1
        before = m
        for s in range(n_subscriptions):
            if hits[s] == needed[s]:
                out[m] = s
                m += 1
        counts[event] = m - before
        event += 1
    return event
