"""Count the satisfied constraints of each filter; a constraint lists all filters that contain it.

A column has four runs of constraints, each constraint once however many filters have it. Bisection finds those that a
value visits:

    equal        7  9  12             value = 9:   equal to it                 9
    at least     1  2  5  11                       up to it                    1 2 5
    at most      4  9  30  40                      from it on                  9 30 40
    between      2..3  4..10  8..20                beginning up to it          4..10 8..20; 2..3 ends below it

Counters are not cleared for each event: a counter below the event's `base` stands for 0, and each event has a higher
base. If an event has several values in a column, two of them may satisfy one constraint, or two alternatives of a
filter: `stamp` keeps the last (event, column) that a filter was counted for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.ascending import first_beyond, first_from
from matchers.kernels.events import Events
from matchers.kernels.jit import inlined, kernel

EQUAL, AT_LEAST, AT_MOST, BETWEEN = range(4)
KINDS = 4


class Constraints(NamedTuple):
    """U different constraints on A columns, and the S filters that contain them."""

    run: Any  # [4 A + 1] int64: constraints of kind k on column c are run[4 c + k] .. run[4 c + k + 1]
    low: Any  # [U] float64, ascending within a run; AT_MOST: -inf
    high: Any  # [U] float64; AT_MOST: ascending within a run
    begin: Any  # [U + 1] int64: constraint u is in the filters filters[begin[u]] .. filters[begin[u + 1]]
    filters: Any  # [begin[U]] int32
    needed: Any  # [S] int32: how many constraints a filter has
    most: int  # constraints of a filter
    always: Any  # int32: the filters without constraints


class Target(NamedTuple):
    """The output: filters, or interfaces."""

    interface: Any  # [S] int32: of each filter; [0] where filters are listed
    most: int  # listed of an event


@inlined
def list_filter(f: int, event: int, interface: Any, settled: Any, out: Any, m: int) -> int:
    """Write a filter that matches, or its interface unless it is settled; returns where the list ends."""
    if interface.shape[0] > 0:
        f = interface[f]
        if settled[f] == event:
            return m
        settled[f] = event
    out[m] = f
    return m + 1


@kernel
def sff(event: int, events: Events, constraints: Constraints, target: Target, out: Any, counts: Any) -> int:
    """An event is done when all interfaces are settled."""
    offsets, e_column, e_value = events
    run, low, high, begin, filters, needed, most, always = constraints
    interface, asked = target
    n_columns = run.shape[0] // KINDS
    n_filters = needed.shape[0]
    count = np.zeros(n_filters, np.int64)
    stamp = np.zeros(n_filters, np.int64)
    settled = np.full(asked if interface.shape[0] > 0 else 0, -1, np.int64)
    base = 0
    m = 0
    while event < offsets.shape[0] - 1 and out.shape[0] - m >= asked:
        base += most + 1
        before = m
        for i in range(always.shape[0]):
            m = list_filter(always[i], event, interface, settled, out, m)
        group = 0  # of a value that is the only one in its column
        first, last = offsets[event], offsets[event + 1]
        for k in range(first, last):
            c = e_column[k]
            if c >= n_columns or m - before == asked:  # the batch may know more columns than the table
                break
            if k == first or e_column[k - 1] != c:
                group = k + 1 if k + 1 < last and e_column[k + 1] == c else 0
            value = e_value[k]
            for kind in range(KINDS):
                left, right = run[c * KINDS + kind], run[c * KINDS + kind + 1]
                if kind == AT_MOST:
                    left = first_from(high, left, right, value)
                else:
                    right = first_beyond(low, left, right, value)
                if kind == EQUAL:
                    left = first_from(low, left, right, value)
                for u in range(left, right):
                    if kind == BETWEEN and high[u] < value:
                        continue
                    for i in range(begin[u], begin[u + 1]):
                        f = filters[i]
                        if interface.shape[0] > 0 and m > before and settled[interface[f]] == event:
                            continue
                        if group > 0:
                            if stamp[f] == group:
                                continue
                            stamp[f] = group
                        satisfied = max(count[f], base) + 1
                        count[f] = satisfied
                        if satisfied == base + needed[f]:
                            m = list_filter(f, event, interface, settled, out, m)
        if interface.shape[0] == 0 and (m - before) * 16 >= n_filters:
            list_counted(count, needed, base, out, before)
        else:
            out[before:m].sort()
        counts[event] = m - before
        event += 1
    return event


@kernel
def list_counted(count: Any, needed: Any, base: int, out: Any, m: int) -> None:
    """Write the filters that match in order from m on: if they are many, this costs less than sorting them."""
    for f in range(needed.shape[0]):
        if max(count[f], base) == base + needed[f]:
            out[m] = f
            m += 1
