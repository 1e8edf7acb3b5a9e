"""Count for up to 64 events at once: a subscription has a counter for each of them, side by side in one cache line.

The events take lanes 0 .. 63. In each column their values are sorted, so the events that a bound separates are a prefix
or a suffix of them, and those that an interval holds are a run:

    column 2    value:   3    5    5    8        event 1 has 3, events 0 and 2 have 5, event 3 has 8
                lane:    1    0    2    3
    interval 4..7 holds the run 5 5: row of lanes 1 0 1 0, which is subtracted from the line of the subscription

A row replaces up to 64 decrements: the predicate and its line are loaded once, and two registers hold the row. For a
single event the same line would be loaded for one byte.

A counter is a byte, eight of them a word, and a line has as many words as the events need. Words are subtracted, which
is right as long as no counter falls below 0: so only events without arrays are counted like this.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.bitsets import unmark, unmarked
from matchers.kernels.events import Events
from matchers.kernels.jit import inlined, kernel
from matchers.kernels.rows import has_several_values

LANES = 64
_BYTES = np.uint64(0x0101010101010101)
_HIGHEST = np.uint64(0x8080808080808080)


class Lanes(NamedTuple):
    """The V values of up to 64 events by column: a column owns values first[a] .. end[a], ascending."""

    columns: Any  # [A] int64: those that some event has, ascending; as many as `sort_values` returns
    first: Any  # [A] int64
    end: Any  # [A] int64; 0 if no event has the column
    value: Any  # [V] float64
    lane: Any  # [V] int64


@kernel
def room_for_lanes(n_columns: int, n_values: int) -> Any:
    return Lanes(
        np.empty(n_columns, np.int64),
        np.zeros(n_columns, np.int64),
        np.zeros(n_columns, np.int64),
        np.empty(n_values, np.float64),
        np.empty(n_values, np.int64),
    )


@inlined
def words_for(n_events: int) -> int:
    """The words of a line. No three, five or six: registers hold one, four or eight."""
    return 1 if n_events <= 8 else 4 if n_events <= 32 else 8


@kernel
def sort_values(events_in: Any, events: Events, lanes: Lanes) -> int:
    """Give each of the events `events_in` a lane; returns the number of columns that they have."""
    offsets, e_column, e_value = events
    columns, first, end, value, lane = lanes
    n = 0
    for event in events_in:
        for i in range(offsets[event], offsets[event + 1]):
            a = e_column[i]
            if a >= end.shape[0]:  # the batch may know more columns than the table
                break
            if end[a] == 0:
                columns[n] = a
                n += 1
            end[a] += 1
    columns[:n].sort()
    at = 0
    for k in range(n):
        a = columns[k]
        first[a] = at
        at += end[a]
        end[a] = first[a]
    for of in range(events_in.shape[0]):
        for i in range(offsets[events_in[of]], offsets[events_in[of] + 1]):
            a = e_column[i]
            if a >= end.shape[0]:
                break
            k = end[a]
            while k > first[a] and value[k - 1] > e_value[i]:
                value[k] = value[k - 1]
                lane[k] = lane[k - 1]
                k -= 1
            value[k] = e_value[i]
            lane[k] = of
            end[a] += 1
    return n


@kernel
def forget_values(n: int, lanes: Lanes) -> None:
    """Undo `sort_values`, which returned n."""
    columns, _, end, _, _ = lanes
    for k in range(n):
        end[columns[k]] = 0


@kernel
def begin_lines(needed: Any, begin: int, end: int, left: Any) -> None:
    """Set lines 0 .. end - begin to what the subscriptions begin .. end need, in all lanes."""
    words = left.shape[1]
    for s in range(begin, end):
        line = np.uint64(needed[s]) * _BYTES
        for w in range(words):
            left[s - begin, w] = line


@kernel
def count_row(lines: Any, begin: int, end: int, row: Any, left: Any) -> None:
    """Count a hit for each of lines[begin : end] in the lanes where the row is 1.

    Not inlined: the compiler keeps the row in registers only where it sees no other arrays.
    """
    words = row.shape[0]
    for k in range(begin, end):
        line = np.uint32(lines[k])  # unsigned, so that no index counts from the end
        for w in range(words):
            left[line, w] -= row[w]


@kernel
def sum_rows(lanes: Lanes, column: int, values: Any, sums: Any) -> int:
    """Lay out the n values of a column, to find the row of an interval; returns n.

    values: [LANES] ascending, and then inf. sums[i], for i up to n: the row of the least i values. The interval that
    holds values i .. j has the row sums[j] - sums[i].
    """
    _, first, end, value, lane = lanes
    n = int(end[column] - first[column])
    values[n:] = np.inf
    for w in range(sums.shape[1]):
        sums[0, w] = 0
    for i in range(n):
        k = first[column] + i
        values[i] = value[k]
        for w in range(sums.shape[1]):
            sums[i + 1, w] = sums[i, w]
        sums[i + 1, lane[k] >> 3] += np.uint64(1) << np.uint64((lane[k] & 7) << 3)
    return n


@inlined
def up_to(values: Any, bound: float) -> Any:
    """The number of 64 ascending values that are at most the bound.

    To compare all of them is faster than a mispredicted branch.
    """
    n = 0
    for i in range(LANES):
        n += values[i] <= bound
    return n


@inlined
def below(values: Any, bound: float) -> Any:
    """The number of 64 values that are less than the bound."""
    n = 0
    for i in range(LANES):
        n += values[i] < bound
    return n


@kernel
def unmark_complete(left: Any, n: int, place: int, subscription: Any, events_in: Any, base: int, bits: Any) -> None:
    """Unmark the subscription of each of n lines, from `subscription[place]` on, for the lanes with nothing left.

    As in `list_complete` (kernels/counting.py), (x - 1) & ~x has its highest bit set if a counter x is 0.
    """
    for s in range(n):
        some = np.uint64(0)
        for w in range(left.shape[1]):
            x = left[s, w]
            some |= (x - _BYTES) & ~x
        if some & _HIGHEST == np.uint64(0):
            continue
        for of in range(events_in.shape[0]):
            if left[s, of >> 3] >> np.uint64((of & 7) << 3) & np.uint64(255) == np.uint64(0):
                unmark(bits[events_in[of] - base], subscription[place + s])


@kernel
def list_bits(event: int, n_subscriptions: int, bits: Any, out: Any, counts: Any) -> int:
    """List the unmarked subscriptions of the events of a chunk, from `event` on."""
    m = 0
    while event < bits.shape[0] and out.shape[0] - m >= n_subscriptions:
        before = m
        m = unmarked(bits[event], n_subscriptions, out, m)
        counts[event] = m - before
        event += 1
    return event


@kernel
def any_arrays(events: Events, n_columns: int) -> bool:
    """Whether some event has several values in one of the table's columns."""
    offsets, column, _ = events
    for e in range(offsets.shape[0] - 1):  # noqa: SIM110 - a loop that is compiled
        if has_several_values(column, offsets[e], offsets[e + 1], n_columns):
            return True
    return False
