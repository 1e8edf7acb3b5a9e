"""Count the satisfied constraints of each filter; a constraint lists all filters that contain it.

    column c has four runs of constraints, each once however many filters have it:

        equal        7  9  12             found by bisection            value = 9
        at least     1  2  5  11          from the left until one above it
        at most      40  30  9  4         from the left until one below it
        between      2..3  4..10  8..20   from the left until one begins above it

    constraint u is a part of filters filter[begin[u]] .. filter[begin[u + 1]]

Counters are not cleared for each event: one below `base` stands for 0, and each event has a higher base. Where an event
has several values in a column, two of them may satisfy one constraint, or two alternatives of a filter: `stamp` keeps
the last (event, column) that a filter was counted for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.jit import inlined, kernel

EQUAL, AT_LEAST, AT_MOST, BETWEEN = range(4)
KINDS = 4


@inlined
def _count(
    constraint: int,
    begin: Any,
    filters: Any,
    needed: Any,
    count: Any,
    base: int,
    group: int,
    stamp: Any,
    interface: Any,
    settled: Any,
    event: int,
    out: Any,
    before: int,
    m: int,
) -> int:
    """A satisfied constraint. `group` is 0 where the column has one value, `interface` empty where none are asked."""
    for k in range(begin[constraint], begin[constraint + 1]):
        f = filters[k]
        if interface.shape[0] > 0 and m > before and settled[interface[f]] == event:
            continue
        if group > 0:
            if stamp[f] == group:
                continue
            stamp[f] = group
        satisfied = max(count[f], base) + 1
        count[f] = satisfied
        if satisfied == base + needed[f]:
            if interface.shape[0] > 0:
                settled[interface[f]] = event
                f = interface[f]
            out[m] = f
            m += 1
    return m


@kernel
def _of_value(
    value: float,
    column: int,
    run: Any,
    low: Any,
    high: Any,
    begin: Any,
    filters: Any,
    needed: Any,
    count: Any,
    base: int,
    group: int,
    stamp: Any,
    interface: Any,
    settled: Any,
    event: int,
    out: Any,
    before: int,
    m: int,
) -> int:
    """All constraints of a column that a value satisfies."""
    at = column * KINDS
    u = run[at] + np.searchsorted(low[run[at] : run[at + 1]], value)
    if u < run[at + 1] and low[u] == value:
        m = _count(u, begin, filters, needed, count, base, group, stamp, interface, settled, event, out, before, m)
    for u in range(run[at + 1], run[at + 2]):
        if low[u] > value:
            break
        m = _count(u, begin, filters, needed, count, base, group, stamp, interface, settled, event, out, before, m)
    for u in range(run[at + 2], run[at + 3]):
        if high[u] < value:
            break
        m = _count(u, begin, filters, needed, count, base, group, stamp, interface, settled, event, out, before, m)
    for u in range(run[at + 3], run[at + 4]):
        if low[u] > value:
            break
        if high[u] >= value:
            m = _count(u, begin, filters, needed, count, base, group, stamp, interface, settled, event, out, before, m)
    return m


@kernel
def sff(
    event: int,
    offsets: Any,
    e_column: Any,
    e_value: Any,
    run: Any,
    low: Any,
    high: Any,
    begin: Any,
    filters: Any,
    needed: Any,
    most: int,
    always: Any,
    interface: Any,
    n_interfaces: int,
    out: Any,
    counts: Any,
) -> int:
    """With interfaces it lists these, and stops at the event's last one; without, `interface` is empty."""
    n_columns = run.shape[0] // KINDS
    n_filters = needed.shape[0]
    asked = n_interfaces if interface.shape[0] > 0 else n_filters
    count = np.zeros(n_filters, np.int64)
    stamp = np.zeros(n_filters, np.int64)
    settled = np.full(n_interfaces, -1, np.int64)
    base = 0
    m = 0
    while event < offsets.shape[0] - 1 and out.shape[0] - m >= asked:
        base += most + 1
        before = m
        for k in range(always.shape[0]):
            f = always[k]
            if interface.shape[0] > 0:
                f = interface[f]
                if settled[f] == event:
                    continue
                settled[f] = event
            out[m] = f
            m += 1
        group = 0
        first, last = offsets[event], offsets[event + 1]
        for k in range(first, last):
            c = e_column[k]
            if c >= n_columns or m - before == asked:  # the batch may know more columns than the table
                break
            if k == first or e_column[k - 1] != c:
                group = k + 1 if k + 1 < last and e_column[k + 1] == c else 0
            m = _of_value(
                e_value[k],
                c,
                run,
                low,
                high,
                begin,
                filters,
                needed,
                count,
                base,
                group,
                stamp,
                interface,
                settled,
                event,
                out,
                before,
                m,
            )
        _sort(out, before, m, needed, count, base, interface.shape[0] == 0)
        counts[event] = m - before
        event += 1
    return event


@kernel
def _sort(out: Any, before: int, m: int, needed: Any, count: Any, base: int, filters: bool) -> None:
    """Of many filters the counters are read in order instead, which costs less than sorting."""
    if not filters or (m - before) * 16 < needed.shape[0]:
        out[before:m].sort()
        return
    m = before
    for f in range(needed.shape[0]):
        if max(count[f], base) == base + needed[f]:
            out[m] = f
            m += 1
