"""Count the satisfied constraints of each filter; a constraint lists all filters that contain it.

A column has four runs of constraints, each constraint once however many filters have it. Bisection finds those that a
value visits:

    equal        7  9  12             value = 9:   equal to it                 9
    at least     1  2  5  11                       up to it                    1 2 5
    at most      4  9  30  40                      from it on                  9 30 40
    between      2..3  4..10  8..20                beginning up to it          4..10 8..20; 2..3 ends below it

The first three are runs of constraints that the value satisfies, and so runs of filters: nothing is compared. Counters
run down (`kernels/counting.py`). In `forward`, a filter with nothing left settles its interface.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.ascending import first_beyond, first_from
from matchers.kernels.counting import group_of, list_complete, restart, stamps
from matchers.kernels.events import Events
from matchers.kernels.jit import inlined, kernel
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

EQUAL, AT_LEAST, AT_MOST, BETWEEN = range(4)
KINDS = 4


class SharedConstraints(NamedTuple):
    """U different constraints on A columns, and the S filters that contain them."""

    run: Any  # [4 A + 1] int64: constraints of kind k on column c are run[4 c + k] .. run[4 c + k + 1]
    low: Any  # [U] float64, ascending within a run; AT_MOST: -inf
    high: Any  # [U] float64; AT_MOST: ascending within a run
    begin: Any  # [U + 1] int64: constraint u is in the filters filters[begin[u]] .. filters[begin[u + 1]]
    filters: Any  # [begin[U]] int32
    needed: Any  # [S, padded], counters: how many columns a filter has constraints on
    n_filters: int
    always: Any  # int32: the filters without constraints


class Target(NamedTuple):
    """The output: filters, or interfaces."""

    interface: Any  # [S] int32: of each filter; [0] where filters are listed
    most: int  # listed of an event


@inlined
def settle(f: Any, event: int, interface: Any, settled: Any, out: Any, m: int) -> int:
    """Write the interface of a filter that matches, unless it is settled; returns where the list ends."""
    i = interface[f]
    if settled[i] != event:
        settled[i] = event
        out[m] = i
        m += 1
    return m


@kernel
def sff(event: int, events: Events, constraints: SharedConstraints, target: Target, out: Any, counts: Any) -> int:
    """An event is done when all interfaces are settled."""
    offsets, e_column, e_value = events
    run, low, high, begin, filters, needed, _, always = constraints
    interface, most = target
    forwards = interface.shape[0] > 0
    n_columns = run.shape[0] // KINDS
    left = np.empty_like(needed)
    stamp = stamps(event, offsets, e_column, n_columns, needed.shape[0])
    settled = np.full(most if forwards else 0, -1, np.int64)
    m = 0
    while event < offsets.shape[0] - 1 and out.shape[0] - m >= most:
        restart(left, needed)
        before = m
        if forwards:
            for i in range(always.shape[0]):
                m = settle(always[i], event, interface, settled, out, m)
        group = 0
        first, last = offsets[event], offsets[event + 1]
        for k in range(first, last):
            c = e_column[k]
            if c >= n_columns or (forwards and m - before == most):  # the batch may know more columns than the table
                break
            group = group_of(e_column, k, first, last, group)
            value = e_value[k]
            for kind in range(KINDS):
                u, end = run[c * KINDS + kind], run[c * KINDS + kind + 1]
                if kind == AT_MOST:
                    u = first_from(high, u, end, value)
                else:
                    end = first_beyond(low, u, end, value)
                if kind == EQUAL:
                    u = first_from(low, u, end, value)
                while u < end:
                    after = u + 1 if kind == BETWEEN else end
                    if kind != BETWEEN or high[u] >= value:
                        for i in range(begin[u], begin[after]):
                            f = np.uint32(filters[i])  # unsigned: no index counts from the end
                            if group > 0:
                                if stamp[f] == group:
                                    continue
                                stamp[f] = group
                            left[f] -= 1
                            if forwards and left[f] == 0:
                                m = settle(f, event, interface, settled, out, m)
                    u = after
        if forwards:
            out[before:m].sort()
        else:
            m = list_complete(left, out, m)
        counts[event] = m - before
        event += 1
    return event


@kernel
def count_run(
    low: Any,
    high: Any,
    begin: Any,
    filters: Any,
    first: int,
    last: int,
    values: Any,
    n: int,
    sums: Any,
    left: Any,
) -> None:
    """Count the constraints first .. last of a run, for the events of its n values (`kernels/lanes.py`, `sum_rows`)."""
    words = left.shape[1]
    i = 0
    for u in range(first, last):
        while i < n and values[i] < low[u]:
            i += 1
        if i == n:
            break
        j = min(up_to(values, high[u]), n)
        if i < j:
            for p in range(begin[u], begin[u + 1]):
                f = np.uint32(filters[p])
                for w in range(words):
                    left[f, w] -= sums[j, w] - sums[i, w]


@kernel
def sff_in_lanes(base: int, events: Events, constraints: SharedConstraints, bits: Any) -> None:
    """Match the events of a chunk, none with arrays, 64 at a time: bits[e] are those of event base + e."""
    run, low, high, begin, filters, needed, n_filters, _ = constraints
    n_columns, n_events = run.shape[0] // KINDS, bits.shape[0]
    lanes = room_for_lanes(n_columns, LANES * n_columns)
    lines = np.empty(n_filters * words_for(min(n_events, LANES)), np.uint64)
    rows = np.empty((LANES + 1) * (LANES // 8), np.uint64)
    values = np.empty(LANES, np.float64)
    in_order = np.arange(n_filters)
    for at in range(0, n_events, LANES):
        events_in = np.arange(base + at, base + min(at + LANES, n_events))
        words = words_for(events_in.shape[0])
        left = lines[: n_filters * words].reshape(n_filters, words)
        sums = rows[: (LANES + 1) * words].reshape(LANES + 1, words)
        begin_lines(needed, 0, n_filters, left)
        n = sort_values(events_in, events, lanes)
        for k in range(n):
            c = lanes.columns[k]
            n_values = sum_rows(lanes, c, values, sums)
            for r in range(c * KINDS, (c + 1) * KINDS):
                count_run(low, high, begin, filters, run[r], run[r + 1], values, n_values, sums, left)
        unmark_complete(left, n_filters, 0, in_order, events_in, base, bits)
        forget_values(n, lanes)
