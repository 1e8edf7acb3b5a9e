"""Check contiguous subscriptions, in the order of an index, on up to 64 events at once.

An index that groups subscriptions brings events to places begin .. end. The cost is that of memory: the first access to
each place. So events go through the index together, and a place is read once for all events that come there:

    place:   0   1   2   3     the predicates of place i are start[i] .. start[i + 1]; ids[i] is the subscription there
    ids:     7   2   9   4
    mask:    bit e: event e of the group comes here
    bits:    bit s of bits[e] is 0 if event e satisfies subscription s, as far as the hulls of both show

least[a, e] .. greatest[a, e] is the hull of the values of event e on attribute a, NaN where it has none. The bit sets
list the matches ascending, at the same cost for few and for many.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.bitsets import mark, unmark, unmarked
from matchers.kernels.events import Events
from matchers.kernels.jit import inlined, kernel
from matchers.kernels.rows import Rows, settle

GROUP = 64  # events, a bit of a mask each


class Hulls(NamedTuple):
    """P predicates, one for each (subscription, column): the hull of its intervals. Subscription s owns start[s] .."""

    start: Any  # [S + 1] int64: subscription s owns predicates start[s] .. start[s + 1]
    column: Any  # [P] int32, ascending within a subscription
    low: Any  # [P] float64
    high: Any  # [P] float64


class Places(NamedTuple):
    """P predicates of n subscriptions in the order of an index."""

    ids: Any  # [n] int32: the subscription at each place
    start: Any  # [n + 1] int64: place i owns predicates start[i] .. start[i + 1]
    column: Any  # [P] int32
    low: Any  # [P] float64
    high: Any  # [P] float64


class PlacedHulls(NamedTuple):
    """Places as they are read. Each has a start and an end of its own, since an index that changes may leave gaps."""

    ids: Any  # [n] int32
    start: Any  # [n] int64: place i owns predicates start[i] .. end[i]
    end: Any  # [n] int64
    column: Any  # [P] int32
    low: Any  # [P] float64
    high: Any  # [P] float64


class Group(NamedTuple):
    """Up to 64 events of A attributes and S subscriptions. Between groups all is as `room_for` returns it."""

    least: Any  # [A, events] float64
    greatest: Any  # [A, events] float64
    has: Any  # [A] uint64: the mask of the events that have a value
    arrays: Any  # [events] bool: whether an event has several values on some attribute
    bits: Any  # [events, S / 64] uint64
    members: Any  # [events] int64: room for the events of a mask
    first: Any  # [A] int64: room for one event laid out
    last: Any  # [A] int64


class Stack(NamedTuple):
    """C nodes of a tree, each with the mask of the events that visit it: from the front on those still to be visited,
    and from the back on the visited ones whose places are to be checked. No node is both, so there is room for all.
    """

    node: Any  # [C] int32
    mask: Any  # [C] uint64


@kernel
def is_possible(s: int, hulls: Hulls) -> bool:
    """Whether no predicate of a subscription is the empty interval."""
    found = True
    for p in range(hulls.start[s], hulls.start[s + 1]):
        found &= hulls.low[p] <= hulls.high[p]
    return found


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


@kernel
def stack_for(n_nodes: int) -> Any:
    return Stack(np.empty(n_nodes, np.int32), np.empty(n_nodes, np.uint64))


@inlined
def bit(e: int) -> Any:
    return np.uint64(1) << np.uint64(e)


@inlined
def all_events(n: int) -> Any:
    """The mask of n events, 1 .. 64."""
    return ~np.uint64(0) >> np.uint64(64 - n)


@inlined
def push(nodes: Any, masks: Any, top: int, node: int, mask: Any) -> int:
    """Put a node on the stack if an event visits it; returns the number of nodes there.

    Without a branch: with one, the compiled loop counts references to both arrays for each node.
    """
    nodes[top] = node
    masks[top] = mask
    return top + int(mask != np.uint64(0))


@kernel
def read_group(event: int, n: int, events: Events, group: Group) -> None:
    """The hulls of n events, the first of them `event`."""
    offsets, column, value = events
    least, greatest, has, arrays, _, _, _, _ = group
    for e in range(n):
        arrays[e] = False
        for k in range(offsets[event + e], offsets[event + e + 1]):
            a = column[k]
            if a >= has.shape[0]:  # the batch may know more columns than the table
                continue
            if has[a] & bit(e):
                least[a, e] = min(least[a, e], value[k])
                greatest[a, e] = max(greatest[a, e], value[k])
                arrays[e] = True
            else:
                has[a] |= bit(e)
                least[a, e] = value[k]
                greatest[a, e] = value[k]


@kernel
def clear_group(event: int, n: int, events: Events, group: Group) -> None:
    offsets, column, _ = events
    least, greatest, has, _, _, _, _, _ = group
    for e in range(n):
        for k in range(offsets[event + e], offsets[event + e + 1]):
            a = column[k]
            if a < has.shape[0]:
                has[a] = np.uint64(0)
                least[a, e] = np.nan
                greatest[a, e] = np.nan


@inlined
def list_members(mask: Any, members: Any) -> int:
    """Write the events of a mask, ascending; returns their number."""
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
def check_places(nodes: Any, n_visited: int, stack: Stack, places: PlacedHulls, group: Group) -> None:
    """Clear the bits of the subscriptions at the places of visited nodes that their events satisfy, by their hulls.

    `nodes` [C] are records with `begin` and `end`: the places of a node. One call for all nodes, since a call for each
    would cost more than the check of its few places.
    """
    visited, masks = stack
    ids, start, end, column, low, high = places
    least, greatest, _, _, bits, members, _, _ = group
    for v in range(visited.shape[0] - 1, visited.shape[0] - 1 - n_visited, -1):
        n = list_members(masks[v], members)
        for i in range(nodes[visited[v]]["begin"], nodes[visited[v]]["end"]):
            for j in range(n):
                e = members[j]
                satisfied = True
                for p in range(start[i], end[i]):
                    a = column[p]
                    if not (greatest[a, e] >= low[p] and least[a, e] <= high[p]):
                        satisfied = False
                        break
                if satisfied:
                    unmark(bits[e], ids[i])


@kernel
def list_group(event: int, n: int, events: Events, rows: Rows, group: Group, out: Any, m: int, counts: Any) -> Any:
    """Write the matches of n events and set their bits again; returns the first event not done, and where `out` ends.

    It stops before an event for which there might not be room.
    """
    n_subscriptions, any_several = rows.start.shape[0] - 1, rows.any_several
    for e in range(event, event + n):
        if out.shape[0] - m < n_subscriptions:
            return e, m
        before = m
        bits = group.bits[e - event]
        m = unmarked(bits, n_subscriptions, out, m)
        for i in range(before, m):
            mark(bits, out[i])
        if group.arrays[e - event] or any_several:
            m = settle(events, e, group.arrays[e - event], rows, out, before, m, group.first, group.last)
        counts[e] = m - before
    return event + n, m
