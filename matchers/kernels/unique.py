"""Find subscriptions with equal intervals by a hash."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.jit import inlined, kernel
from matchers.kernels.vectors import prefetch

AHEAD = 8  # rows


class Intervals(NamedTuple):
    """The I intervals of S subscriptions; subscription s owns start[s] .. start[s + 1]."""

    start: Any  # [S + 1] int64
    column: Any  # [I] int32
    low: Any  # [I] float64, the bits of these as uint64, or cells as uint16
    high: Any  # [I] of the type of low


@inlined
def _mixed(hash: Any, word: Any) -> Any:
    """Multiplication carries upwards and the shift brings it down again, so that every bit reaches every other."""
    hash = (hash ^ word) * np.uint64(0x9E3779B97F4A7C15)
    return hash ^ (hash >> np.uint64(32))


@kernel
def hash_rows(first: int, last: int, intervals: Intervals, out: Any) -> None:
    """Fill out [S] uint64 for the subscriptions first .. last, whose bounds are given as bits."""
    start, column, low, high = intervals
    for s in range(first, last):
        hash = np.uint64(start[s + 1] - start[s])
        for i in range(start[s], start[s + 1]):
            hash = _mixed(_mixed(_mixed(hash, np.uint64(column[i])), low[i]), high[i])
        out[s] = hash


@kernel
def mark_new(order: Any, hash: Any, intervals: Intervals, new: Any) -> None:
    """Fill new [n] bool: whether order[i] has other intervals than the last new one of the same hash."""
    start, column, low, high = intervals
    leader = 0
    for i in range(order.shape[0]):
        s, b = order[i], order[leader]
        same = i > 0 and hash[s] == hash[b] and start[s + 1] - start[s] == start[b + 1] - start[b]
        if same:
            for k in range(start[s + 1] - start[s]):
                x, y = start[s] + k, start[b] + k
                same &= column[x] == column[y] and low[x] == low[y] and high[x] == high[y]
        new[i] = not same
        if not same:
            leader = i


@kernel
def take_rows(first: int, last: int, order: Any, intervals: Intervals, out: Intervals) -> None:
    """Copy the intervals of the subscriptions order[first : last] to the positions in `out.start`.

    They lie anywhere in memory, so both are prefetched: first their `start`, later the intervals.
    """
    start, column, low, high = intervals
    to, c, a, b = out
    for i in range(first, last):
        if i + 2 * AHEAD < last:
            prefetch(start, np.uint64(order[i + 2 * AHEAD]))
            ahead = np.uint64(start[order[i + AHEAD]])
            prefetch(column, ahead)
            prefetch(low, ahead)
            prefetch(high, ahead)
        at = to[i]
        for k in range(start[order[i]], start[order[i] + 1]):
            c[at], a[at], b[at] = column[k], low[k], high[k]
            at += 1
