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
from matchers.kernels.jit import inner, kernel
from matchers.kernels.lanes import (
    LANES,
    begin_lines,
    forget_values,
    room_for_lanes,
    sort_values,
    sum_rows,
    unmark_complete,
    up_to,
    words_for,
)


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


@inner
def count_column(
    subscription: Any, low: Any, high: Any, begin: int, end: int, values: Any, n: int, sums: Any, left: Any
) -> None:
    """Count the intervals begin .. end of a column for the events of its n values (`kernels/lanes.py`, `sum_rows`)."""
    words = left.shape[1]
    i = 0
    for k in range(begin, end):
        while i < n and values[i] < low[k]:
            i += 1
        if i == n:
            break
        j = min(up_to(values, high[k]), n)
        if i < j:
            s = np.uint32(subscription[k])
            for w in range(words):
                left[s, w] -= sums[j, w] - sums[i, w]


@kernel
def counting_in_lanes(base: int, events: Events, index: Columns, bits: Any) -> None:
    """Match the events of a chunk, none with arrays, 64 at a time: bits[e] are those of event base + e."""
    start, subscription, low, high, needed, n_subscriptions = index
    n_columns, n_events = start.shape[0] - 1, bits.shape[0]
    lanes = room_for_lanes(n_columns, LANES * n_columns)
    lines = np.empty(n_subscriptions * words_for(min(n_events, LANES)), np.uint64)
    rows = np.empty((LANES + 1) * (LANES // 8), np.uint64)
    values = np.empty(LANES, np.float64)
    in_order = np.arange(n_subscriptions)
    for at in range(0, n_events, LANES):
        events_in = np.arange(base + at, base + min(at + LANES, n_events))
        words = words_for(events_in.shape[0])
        left = lines[: n_subscriptions * words].reshape(n_subscriptions, words)
        sums = rows[: (LANES + 1) * words].reshape(LANES + 1, words)
        begin_lines(needed, 0, n_subscriptions, left)
        n = sort_values(events_in, events, lanes)
        for k in range(n):
            c = lanes.columns[k]
            n_values = sum_rows(lanes, c, values, sums)
            count_column(subscription, low, high, start[c], start[c + 1], values, n_values, sums, left)
        unmark_complete(left, n_subscriptions, 0, in_order, events_in, base, bits)
        forget_values(n, lanes)
