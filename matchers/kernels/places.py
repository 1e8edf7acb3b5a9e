"""Check contiguous subscriptions, in the order of an index, on up to 64 events at once.

An index by groups of subscriptions brings events to places begin .. end. What that costs is memory, the first look at
each of these places, so events go through the index together and what they visit is read once for all of them:

    place:   0   1   2   3     the predicates of place i are start[i] .. start[i + 1]; ids[i] is the subscription there
    ids:     7   2   9   4
    mask:    bit e: event e of the group comes here
    bits:    bit s of bits[e] is 0 if event e satisfies subscription s, as far as the hulls of both tell

least[a, e] .. greatest[a, e] is the hull of the values of event e on attribute a, NaN where it has none. A bit set puts
what matches in order, however much it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.bitsets import mark, unmark, unmarked
from matchers.kernels.jit import inlined, kernel
from matchers.kernels.rows import clear, keep_satisfied, lay_out

GROUP = 64  # events, a bit of a mask each


class Places(NamedTuple):
    """Predicates in the order of an index, and the table as it is, which settles what their hulls leave open."""

    ids: Any  # [places] int32
    start: Any  # [places + 1] int64
    column: Any  # [P] int32
    low: Any  # [P] float64
    high: Any  # [P] float64
    several: Any  # [S] bool: whether a predicate is of several intervals
    any_several: bool
    t_start: Any  # [S + 1] int64
    t_column: Any  # [I] int32
    t_low: Any  # [I] float64
    t_high: Any  # [I] float64


class Group(NamedTuple):
    """Up to 64 events. Between groups nothing is set."""

    least: Any  # [A, events] float64
    greatest: Any  # [A, events] float64
    has: Any  # [A] uint64: the events that have a value
    arrays: Any  # [events] bool: whether some attribute of an event has several
    bits: Any  # [events, S / 64] uint64
    members: Any  # [events] int64, room for the events of a mask
    first: Any  # [A] int64, room for one event laid out
    last: Any  # [A] int64


@kernel
def room_for(n_events: int, n_columns: int, n_subscriptions: int) -> Any:
    n = max(1, min(n_events, GROUP))
    return Group(
        np.full((n_columns, n), np.nan),
        np.full((n_columns, n), np.nan),
        np.zeros(n_columns, np.uint64),
        np.zeros(n, np.bool_),
        np.full((n, (n_subscriptions + 63) >> 6), ~np.uint64(0), np.uint64),
        np.zeros(n, np.int64),
        np.zeros(n_columns, np.int64),
        np.zeros(n_columns, np.int64),
    )


@inlined
def bit(e: int) -> Any:
    return np.uint64(1) << np.uint64(e)


@kernel
def read_group(event: int, n: int, offsets: Any, column: Any, value: Any, group: Any) -> None:
    for e in range(n):
        group.arrays[e] = False
        for k in range(offsets[event + e], offsets[event + e + 1]):
            a = column[k]
            if a >= group.has.shape[0]:  # the batch may know more columns than the table
                continue
            if group.has[a] & bit(e):
                group.least[a, e] = min(group.least[a, e], value[k])
                group.greatest[a, e] = max(group.greatest[a, e], value[k])
                group.arrays[e] = True
            else:
                group.has[a] |= bit(e)
                group.least[a, e] = value[k]
                group.greatest[a, e] = value[k]


@kernel
def clear_group(event: int, n: int, offsets: Any, column: Any, group: Any) -> None:
    for e in range(n):
        for k in range(offsets[event + e], offsets[event + e + 1]):
            a = column[k]
            if a < group.has.shape[0]:
                group.has[a] = np.uint64(0)
                group.least[a, e] = np.nan
                group.greatest[a, e] = np.nan


@inlined
def list_members(mask: Any, members: Any) -> int:
    """Write the events of a mask, ascending; says how many."""
    n = 0
    e = 0
    while mask != np.uint64(0):
        if mask & np.uint64(0xFF) == np.uint64(0):
            mask >>= np.uint64(8)
            e += 8
            continue
        members[n] = e
        n += 1 if mask & np.uint64(1) else 0
        mask >>= np.uint64(1)
        e += 1
    return n


@kernel
def check_places(begin: int, end: int, mask: Any, places: Any, group: Any) -> None:
    n = list_members(mask, group.members)
    for i in range(begin, end):
        for j in range(n):
            e = group.members[j]
            satisfied = True
            for p in range(places.start[i], places.start[i + 1]):
                a = places.column[p]
                if not (group.greatest[a, e] >= places.low[p] and group.least[a, e] <= places.high[p]):
                    satisfied = False
                    break
            if satisfied:
                unmark(group.bits[e], places.ids[i])


@kernel
def list_group(
    event: int, n: int, offsets: Any, column: Any, value: Any, places: Any, group: Any, out: Any, m: int, counts: Any
) -> Any:
    """Write what each event satisfies and set its bits again; says which event comes next, and where the list ends.

    Ends before an event for which there might not be room.
    """
    n_subscriptions = places.several.shape[0]
    for e in range(event, event + n):
        if out.shape[0] - m < n_subscriptions:
            return e, m
        before = m
        m = unmarked(group.bits[e - event], n_subscriptions, out, m)
        for i in range(before, m):
            mark(group.bits[e - event], out[i])
        if group.arrays[e - event] or places.any_several:
            lay_out(column, offsets[e], offsets[e + 1], group.first, group.last)
            m = keep_satisfied(
                out,
                before,
                m,
                group.arrays[e - event],
                places.several,
                places.t_start,
                places.t_column,
                places.t_low,
                places.t_high,
                value,
                group.first,
                group.last,
            )
            clear(column, offsets[e], offsets[e + 1], group.first, group.last)
        counts[e] = m - before
    return event + n, m
