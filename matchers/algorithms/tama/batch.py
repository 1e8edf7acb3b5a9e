"""Count for up to 128 events at once, block by block, in sets that have a bit for each subscription of the block.

The values of the events in one column are sorted (`kernels/lanes.py`), so those in a cell are a run. From the root
down, a run has a set: what is in the cells that all of its values visit. It is copied where runs part, so the list of a
cell is gone through once, for all events that visit it:

    values:    v0 v1        v2    v3         cell 1:   set 0 := its list                    for v0 .. v3
    cells:    [           1          ]       cell 3:   set 3 := set 0, then its list        for v3
              [     2       |   3    ]       cell 2:   set 0 gets its list                  for v0 .. v2
              [  4    |  5  | 6 | 7  ]       cell 5:   set 2 := set 0, then its list        for v2
                                             cell 4:   set 0 gets its list                  for v0, v1

The right half comes first, as the left one goes on with the set of both. Last come the values of each finest cell,
with the intervals that end there. Then every event subtracts the set of its value from its counters, 64 subscriptions a
word: plane p has bit p of each counter, and a borrow ripples from plane to plane.

Why it is fast: an interval of width 0.3 is hit by 38 of 128 values, but marked in 5.5 cells. A set holds a column's
hits once, however many; so several values of one column would need no stamps. What it costs: to subtract a set takes as
long for few hits as for many, so it pays only where there are many (`pays`).

Lists ascend, so each is continued from block to block. The next ids of all lists of a column are read before, without a
branch, so that the processor waits for many of them at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.algorithms.tama.kernel import Dyadic, Intervals, Visited
from matchers.kernels.cells import cell_of
from matchers.kernels.events import Events
from matchers.kernels.jit import inlined, kernel
from matchers.kernels.lanes import Lanes, forget_values, room_for_lanes, sort_values

# What it takes, in units of 0.025 ns of the AMD EPYC that it was measured on, for the hits of a group of events: one by
# one, or with an id of a list, a counter of an event, and a bit of a set that is subtracted.
HIT, LISTED, COUNTER, BIT = 36, 80, 6, 1
ASKED = 8  # columns of which `pays` looks at the cells


class Runs(NamedTuple):
    """R lists, each with the run of values that it is for."""

    begin: Any  # [A + 1] int64: column k of the group has runs begin[k] .. begin[k + 1], deepest cells first
    at: Any  # [R] int64: where the list is continued
    end: Any  # [R] int64
    into: Any  # [R] int64: the set, which has the number of the run's first value
    source: Any  # [R] int64: the set that it begins with; itself, if not a copy


@kernel
def room_for_runs(n_columns: int, n: int) -> Any:
    return Runs(
        np.zeros(n_columns + 1, np.int64),
        *(np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)),
    )


@inlined
def add_run(r: int, at: int, end: int, into: int, source: int, runs: Runs) -> None:
    runs.at[r] = at
    runs.end[r] = end
    runs.into[r] = into
    runs.source[r] = source


@kernel
def visit(lanes: Lanes, n: int, cells: Dyadic, visited: Visited, covers: Runs, ends: Runs) -> Any:
    """Find the lists of cells that a group's values in n columns visit, and by value those of the finest cells' ends.

    Returns the number of hits in cells, and of ids in their lists.
    """
    begin, per_unit, leaves, base, edge = cells
    start, after, _, edge_start, edge_after, _ = visited
    most = 1
    for k in range(n):
        most = max(most, lanes.end[lanes.columns[k]] - lanes.first[lanes.columns[k]])
    cell = np.empty(most, np.int64)
    first = np.empty(most + 1, np.int64)
    r = 0
    q = 0
    hits = 0
    listed = 0
    for k in range(n):
        c = lanes.columns[k]
        own = lanes.first[c]
        n_cells = 0
        ends.begin[k] = q
        for i in range(lanes.end[c] - own):
            value = lanes.value[own + i]
            if i > 0 and value == lanes.value[own + i - 1]:
                continue
            at = leaves[c] + cell_of(value, begin[c], per_unit[c], leaves[c])
            if n_cells == 0 or cell[n_cells - 1] != at:
                cell[n_cells] = at
                first[n_cells] = i
                n_cells += 1
            low, high = edge_start[edge[c] + at - leaves[c]], edge_after[edge[c] + at - leaves[c]]
            add_run(q, low, high, i, first[n_cells - 1], ends)
            q += 1
        first[n_cells] = lanes.end[c] - own
        covers.begin[k] = r
        while cell[0] > 0:
            parents = 0
            for i in range(n_cells):
                low, high = start[base[c] + cell[i]], after[base[c] + cell[i]]
                hits += (high - low) * (first[i + 1] - first[i])
                listed += high - low
                right = parents > 0 and cell[parents - 1] == cell[i] >> 1
                source = first[parents - 1] if right else first[i]
                if low < high or right:
                    add_run(r, low, high, first[i], source, covers)
                    r += 1
                if not right:
                    cell[parents] = cell[i] >> 1
                    first[parents] = first[i]
                    parents += 1
            first[parents] = first[n_cells]
            n_cells = parents
    covers.begin[n] = r
    ends.begin[n] = q
    return hits, listed


@inlined
def begun(r: int, at: Any, end: Any, into: Any, source: Any, next_id: Any, stop: int) -> int:
    """1 if run r has something to do in the block before `stop`."""
    return (int(at[r] < end[r]) & int(next_id < stop)) | int(source[r] != into[r])


@inlined
def begin_set(of: Any, source: Any, sets: Any) -> None:
    if source != of:
        for w in range(sets.shape[1]):
            sets[of, w] = sets[source, w]


@kernel
def mark_covers(k: int, runs: Runs, ids: Any, begin: int, stop: int, which: Any, sets: Any) -> None:
    """Mark what the cells of column k list of the subscriptions begin .. stop. `which` is room for its runs."""
    first, at, end, into, source = runs
    n = 0
    for r in range(first[k + 1] - 1, first[k] - 1, -1):
        which[n] = r
        n += begun(r, at, end, into, source, ids[np.uint64(min(at[r], ids.shape[0] - 1))], stop)
    for i in range(n):
        r = which[i]
        of = np.uint64(into[r])
        begin_set(of, np.uint64(source[r]), sets)
        x, last = at[r], end[r]
        while x < last:
            s = ids[np.uint64(x)]
            if s >= stop:
                break
            place = np.uint64(s - begin)
            sets[of, place >> np.uint64(6)] |= np.uint64(1) << (place & np.uint64(63))
            x += 1
        at[r] = x


@kernel
def mark_ends(
    k: int, runs: Runs, rows: Any, intervals: Intervals, value: Any, begin: int, stop: int, which: Any, sets: Any
) -> None:
    """Mark those that end in a value's finest cell and hold it. `value` are the values of column k."""
    first, at, end, into, source = runs
    subscription, low, high = intervals
    n = 0
    for r in range(first[k + 1] - 1, first[k] - 1, -1):
        which[n] = r
        row = np.uint64(rows[np.uint64(min(at[r], rows.shape[0] - 1))])
        n += begun(r, at, end, into, source, subscription[row], stop)
    for i in range(n):
        r = which[i]
        of = np.uint64(into[r])
        begin_set(of, np.uint64(source[r]), sets)
        x, last = at[r], end[r]
        while x < last:
            row = np.uint64(rows[np.uint64(x)])
            if subscription[row] >= stop:
                break
            if low[row] <= value[of] <= high[row]:
                place = np.uint64(subscription[row] - begin)
                sets[of, place >> np.uint64(6)] |= np.uint64(1) << (place & np.uint64(63))
            x += 1
        at[r] = x


@kernel
def subtract(value: Any, lane: Any, sets: Any, borrow: Any, planes: Any) -> None:
    """Count the set of each value for the event in its lane. Equal values have one set."""
    of = 0
    for i in range(value.shape[0]):
        if i > 0 and value[i] != value[i - 1]:
            of = i
        e = lane[i]
        for w in range(sets.shape[1]):
            counter, taken = planes[e, 0, w], sets[of, w]
            planes[e, 0, w] = counter ^ taken
            borrow[w] = taken & ~counter
        for p in range(1, planes.shape[1]):
            for w in range(sets.shape[1]):
                counter, taken = planes[e, p, w], borrow[w]
                planes[e, p, w] = counter ^ taken
                borrow[w] = taken & ~counter


@kernel
def begin_planes(needed: Any, begin: int, stop: int, n: int, planes: Any) -> None:
    """Set the counters of n events to what the subscriptions begin .. stop need."""
    planes[0] = np.uint64(0)
    for s in range(begin, stop):
        at = np.uint64(s - begin)
        for p in range(planes.shape[1]):
            planes[0, p, at >> np.uint64(6)] |= np.uint64(needed[s] >> p & 1) << (at & np.uint64(63))
    for e in range(1, n):
        for p in range(planes.shape[1]):
            for w in range(planes.shape[2]):
                planes[e, p, w] = planes[0, p, w]


@kernel
def unite_planes(planes: Any, n: int, first_event: int, first_word: int, bits: Any) -> None:
    """Set the bits of n events: a counter is 0 if it is in all planes."""
    for e in range(n):
        for w in range(min(planes.shape[2], bits.shape[1] - first_word)):
            some = planes[e, 0, w]
            for p in range(1, planes.shape[1]):
                some |= planes[e, p, w]
            bits[first_event + e, first_word + w] = some


@kernel
def most_values(events: Events, first_event: int, last_event: int, group: int) -> int:
    """Return the most values of a group of events."""
    offsets, _, _ = events
    most = 0
    for e in range(first_event, last_event, group):
        most = max(most, offsets[min(e + group, last_event)] - offsets[e])
    return most


@kernel
def depth_of(cells: Dyadic) -> int:
    """The cells that a value visits at most."""
    depth = 1
    for leaves in cells.leaves:
        while 1 << depth <= leaves:
            depth += 1
    return depth


@kernel
def pays(events: Events, cells: Dyadic, visited: Visited, n_subscriptions: int, group: int) -> bool:
    """Whether the first group of events takes less time together than one by one, judged by some of its columns."""
    n_columns = cells.leaves.shape[0]
    n_events = min(group, events.offsets.shape[0] - 1)
    n_values = most_values(events, 0, n_events, group)
    lanes = room_for_lanes(n_columns, n_values)
    covers, ends = room_for_runs(n_columns, n_values * depth_of(cells)), room_for_runs(n_columns, n_values)
    n = sort_values(np.arange(n_events), events, lanes)
    asked = min(n, ASKED)
    n_bits = 0
    for k in range(asked):
        c = lanes.columns[k * n // asked]
        lanes.columns[k] = c
        n_bits += lanes.end[c] - lanes.first[c]
    hits, listed = visit(lanes, asked, cells, visited, covers, ends)
    n_counters = n_events * asked // max(n, 1)
    return bool(HIT * hits > LISTED * listed + (COUNTER * n_counters + BIT * n_bits) * n_subscriptions)


@kernel
def match_batch(
    base: int,
    events: Events,
    cells: Dyadic,
    visited: Visited,
    intervals: Intervals,
    needed: Any,
    n_subscriptions: int,
    bits: Any,
    group: int,
    block: int,
) -> None:
    """Match the events of a chunk, none with arrays: bits[e] are those of event base + e.

    `group` events go through a `block` of subscriptions, a multiple of 64, together.
    """
    n_columns, n_events = cells.leaves.shape[0], bits.shape[0]
    words = min(block, n_subscriptions + 63) >> 6
    n_planes = 1
    for s in range(n_subscriptions):
        while needed[s] >> n_planes:
            n_planes += 1
    n_values, depth = most_values(events, base, base + n_events, group), depth_of(cells)
    lanes = room_for_lanes(n_columns, n_values)
    covers, ends = room_for_runs(n_columns, n_values * depth), room_for_runs(n_columns, n_values)
    group = min(group, n_events)
    which = np.empty(group * depth + 1, np.int64)
    sets = np.empty((group, words), np.uint64)
    borrow = np.empty(words, np.uint64)
    planes = np.empty((group, n_planes, words), np.uint64)
    for first_event in range(0, n_events, group):
        events_in = np.arange(base + first_event, base + min(first_event + group, n_events))
        n = sort_values(events_in, events, lanes)
        visit(lanes, n, cells, visited, covers, ends)
        for begin in range(0, n_subscriptions, block):
            stop = min(begin + block, n_subscriptions)
            begin_planes(needed, begin, stop, events_in.shape[0], planes)
            for k in range(n):
                c = lanes.columns[k]
                value, lane = lanes.value[lanes.first[c] : lanes.end[c]], lanes.lane[lanes.first[c] : lanes.end[c]]
                sets[0] = np.uint64(0)
                mark_covers(k, covers, visited.ids, begin, stop, which, sets)
                mark_ends(k, ends, visited.rows, intervals, value, begin, stop, which, sets)
                subtract(value, lane, sets, borrow, planes)
            unite_planes(planes, events_in.shape[0], first_event, begin >> 6, bits)
        forget_values(n, lanes)
