"""Mark like `rein`, but leave out the predicates at the front of the skipping order.

The order goes column by column. The first `bar` predicates are skipped: some whole columns, whose lists are not
visited, and a part of one column, whose other predicates are in a second pair of lists:

    order    0 1 2 3 | 4 5 6 7 8 9 | 10 11 ...        bar = 6
    column   c: skip | a: 4 5 skip | b                marked by: the lists of b, and the lists of 6 7 8 9 alone

A subscription passes when the event hits its predicates from `bar` on; all that match pass. If one passes at some bar,
the last predicate that the event misses shows at which lower bars it passes too: at those above that predicate's place.
The intervals of a subscription ascend by the place of their predicate in the order, so the search begins at the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.bitsets import unmarked
from matchers.kernels.events import Events
from matchers.kernels.groups import group_size
from matchers.kernels.jit import kernel
from matchers.kernels.rows import clear, lay_out
from matchers.papers.rein.kernel import BucketLists, mark_group, read_group, room_for


class Ordered(NamedTuple):
    """The I intervals of S subscriptions on A columns, by (subscription, place of their predicate in the order)."""

    start: Any  # [S + 1] int64: subscription s owns intervals start[s] .. start[s + 1]
    column: Any  # [I] int32
    place: Any  # [I] int32: of the interval's predicate
    low: Any  # [I] float64
    high: Any  # [I] float64
    several: Any  # [S] bool: whether the lists hold only the hull of a predicate
    any_several: bool


class Skipped(NamedTuple):
    """The predicates skipped at one bar, and the lists of the others."""

    bar: int  # predicates
    columns: Any  # int64: the columns of which none is skipped
    partial: BucketLists  # the predicates kept of the column of which some are skipped
    partial_column: int  # -1: there is none


@kernel
def arrange(subscription: Any, place: Any, order: Any) -> None:
    """Sort the predicates in `order`, contiguous by subscription, by place within each: few each, so by insertion."""
    for i in range(1, order.shape[0]):
        p = order[i]
        k = i
        while k > 0 and subscription[order[k - 1]] == subscription[p] and place[order[k - 1]] > place[p]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = p


@kernel
def passes(
    s: int, bar: int, start: Any, column: Any, place: Any, low: Any, high: Any, value: Any, first: Any, last: Any
) -> bool:
    """Whether the event laid out in first and last hits each predicate of subscription s from `bar` on."""
    i = start[s]
    end = start[s + 1]
    while i < end:
        c = column[i]
        hit = place[i] < bar
        while i < end and column[i] == c:
            for k in range(first[c], last[c]):
                hit |= low[i] <= value[k] <= high[i]
            i += 1
        if not hit:
            return False
    return True


@kernel
def last_miss(
    s: int, start: Any, column: Any, place: Any, low: Any, high: Any, value: Any, first: Any, last: Any
) -> int:
    """The place of the last predicate of subscription s that the event misses; -1 if it hits all."""
    begin = start[s]
    i = start[s + 1] - 1
    while i >= begin:
        c = column[i]
        at: int = place[i]
        hit = False
        while i >= begin and column[i] == c:
            for k in range(first[c], last[c]):
                hit |= low[i] <= value[k] <= high[i]
            i -= 1
        if not hit:
            return at
    return -1


@kernel
def last_misses(events: Events, n_columns: int, ordered: Ordered, listed: Any, subscription: Any, out: Any) -> None:
    """Fill out[i] with `last_miss` of subscription[i]; event e has listed[e] .. listed[e + 1]."""
    offsets, e_column, e_value = events
    start, column, place, low, high, _, _ = ordered
    first = np.zeros(n_columns, np.int64)
    last = np.zeros(n_columns, np.int64)
    for event in range(offsets.shape[0] - 1):
        lay_out(e_column, offsets[event], offsets[event + 1], first, last)
        for i in range(listed[event], listed[event + 1]):
            out[i] = last_miss(subscription[i], start, column, place, low, high, e_value, first, last)
        clear(e_column, offsets[event], offsets[event + 1], first, last)


@kernel
def ada_rein(
    event: int, events: Events, lists: BucketLists, skips: Skipped, exact: bool, ordered: Ordered, out: Any, counts: Any
) -> int:
    """List the subscriptions that pass, or match if `exact`."""
    offsets, e_column, e_value = events
    bar, columns, partial, partial_column = skips
    start, column, place, low, high, several, any_several = ordered
    n_subscriptions = start.shape[0] - 1
    n_columns = lists.begin.shape[0]
    n_events = offsets.shape[0] - 1
    group = room_for(n_columns, n_subscriptions)
    arrays, bits = group.arrays, group.bits
    first = np.zeros(n_columns, np.int64)
    last = np.zeros(n_columns, np.int64)
    doubt = exact and bar > 0
    required = 0 if exact else bar
    begun = event
    m = 0
    while event < n_events and out.shape[0] - m >= n_subscriptions:
        n = min(n_events - event, group_size(event - begun, m, out.shape[0] - m))
        read_group(event, n, events, group)
        mark_group(n, n_subscriptions, group, lists, columns, partial, partial_column)
        for g in range(n):
            if out.shape[0] - m < n_subscriptions:
                break
            before = m
            m = unmarked(bits[g], n_subscriptions, out, m)
            if doubt or arrays[g] or any_several:
                lay_out(e_column, offsets[event], offsets[event + 1], first, last)
                end, m = m, before
                for i in range(before, end):
                    s = out[i]
                    if not (doubt or arrays[g] or several[s]) or passes(
                        s, required, start, column, place, low, high, e_value, first, last
                    ):
                        out[m] = s
                        m += 1
                clear(e_column, offsets[event], offsets[event + 1], first, last)
            counts[event] = m - before
            event += 1
    return event
