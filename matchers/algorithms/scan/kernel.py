"""Test every subscription until its first column that the event misses.

The loop is that of `rows.satisfies`, written out: the baseline of all benchmarks should be the best scan there is, and
calling it instead takes half as long again.

Cost: O(S * intervals looked at before the first miss) per event, all of it in the order of memory.

A table of long lists has a kernel of its own, which searches a list instead of comparing its intervals one by one:
O(log length). In one loop for both, tables without lists would take up to twice as long.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.events import Events
from matchers.kernels.jit import inner, kernel
from matchers.kernels.rows import clear, lay_out, satisfies


class Table(NamedTuple):
    """I intervals of S subscriptions."""

    start: Any  # [S + 1] int64: subscription s owns intervals start[s] .. start[s + 1]
    column: Any  # [I] int32, ascending within a subscription
    low: Any  # [I] float64
    high: Any  # [I] float64


@kernel
def scan(event: int, events: Events, n_columns: int, table: Table, out: Any, counts: Any) -> int:
    offsets, e_column, e_value = events
    start, column, low, high = table
    n_subscriptions = start.shape[0] - 1
    first = np.zeros(n_columns, np.int64)
    last = np.zeros(n_columns, np.int64)
    m = 0
    while event < offsets.shape[0] - 1 and out.shape[0] - m >= n_subscriptions:
        lay_out(e_column, offsets[event], offsets[event + 1], first, last)
        before = m
        for s in range(n_subscriptions):
            i = start[s]
            end = start[s + 1]
            satisfied = True
            while i < end:
                c = column[i]
                hit = False
                while i < end and column[i] == c:
                    for k in range(first[c], last[c]):
                        hit |= low[i] <= e_value[k] <= high[i]
                    i += 1
                if not hit:
                    satisfied = False
                    break
            if satisfied:
                out[m] = s
                m += 1
        counts[event] = m - before
        clear(e_column, offsets[event], offsets[event + 1], first, last)
        event += 1
    return event


@inner
def _satisfied(
    start: Any, column: Any, low: Any, high: Any, value: Any, first: Any, last: Any, out: Any, m: int
) -> int:
    """Append to the m matches the subscriptions that the event laid out satisfies."""
    for s in range(start.shape[0] - 1):
        if satisfies(s, start, column, low, high, value, first, last):
            out[m] = s
            m += 1
    return m


@kernel
def scan_lists(event: int, events: Events, n_columns: int, table: Table, out: Any, counts: Any) -> int:
    offsets, e_column, e_value = events
    start, column, low, high = table
    n_subscriptions = start.shape[0] - 1
    first = np.zeros(n_columns, np.int64)
    last = np.zeros(n_columns, np.int64)
    m = 0
    while event < offsets.shape[0] - 1 and out.shape[0] - m >= n_subscriptions:
        lay_out(e_column, offsets[event], offsets[event + 1], first, last)
        before = m
        m = _satisfied(start, column, low, high, e_value, first, last, out, m)
        counts[event] = m - before
        clear(e_column, offsets[event], offsets[event + 1], first, last)
        event += 1
    return event


class Single(NamedTuple):
    """A table, and what `scan_single` needs besides."""

    table: Table
    n_columns: int
    out: Any  # [S] int32
    counts: Any  # [1] int64


@kernel
def scan_single(offsets: Any, column: Any, value: Any, held: Any) -> Any:
    """The subscriptions, ascending, that a batch of one event satisfies; a held `Single`."""
    table, n_columns, out, counts = held.arrays
    scan(0, Events(offsets, column, value), n_columns, table, out, counts)
    return out[: counts[0]].copy()


@kernel
def scan_lists_single(offsets: Any, column: Any, value: Any, held: Any) -> Any:
    """Match one event as `scan_single` does, in a table of long lists."""
    table, n_columns, out, counts = held.arrays
    scan_lists(0, Events(offsets, column, value), n_columns, table, out, counts)
    return out[: counts[0]].copy()
