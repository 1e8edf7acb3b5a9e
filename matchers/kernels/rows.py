"""Lay out an event by column, so that a kernel finds a column's values at once, and check table rows against it.

An event has its values sorted by column, and may hold several in one:

    column:  2  2  5        first[2] = 0, last[2] = 2     last - first = how many
    value:   7  9  1        first[5] = 2, last[5] = 3     0 where the event has none
"""

from __future__ import annotations

from typing import Any, NamedTuple

from matchers.kernels.ascending import first_beyond
from matchers.kernels.events import Events
from matchers.kernels.jit import inlined, inner, kernel

FEW = 8  # intervals of a subscription in a column, up to which they are compared one by one


class Rows(NamedTuple):
    """The I intervals of S subscriptions, with which survivors of an index by hulls are checked."""

    start: Any  # [S + 1] int64: subscription s owns intervals start[s] .. start[s + 1]
    column: Any  # [I] int32, ascending within a subscription
    low: Any  # [I] float64
    high: Any  # [I] float64
    several: Any  # [S] bool: has several intervals in some column, of which an index stores only the hull
    any_several: bool


@kernel
def lay_out(column: Any, begin: int, end: int, first: Any, last: Any) -> None:
    for i in range(begin, end):
        c = column[i]
        if c < first.shape[0]:  # the batch may know more columns than the table
            if last[c] == 0:
                first[c] = i
            last[c] = i + 1


@kernel
def clear(column: Any, begin: int, end: int, first: Any, last: Any) -> None:
    for i in range(begin, end):
        c = column[i]
        if c < first.shape[0]:
            first[c] = 0
            last[c] = 0


@inner
def search(i: int, end: int, column: Any, low: Any, high: Any, value: Any, first: Any, last: Any) -> Any:
    """Whether one of the event's values lies on an interval from i on, of those in the column of i; and where they end.

    Two binary searches, of the column's end and of the value: some 20 steps for a list of 1,000 values, which takes 500
    comparisons one by one. It is not inlined, so that the loops that call it stay as short as they are without it.
    """
    c = column[i]
    beyond = end if column[end - 1] == c else first_beyond(column, i, end, c)
    hit = False
    for k in range(first[c], last[c]):
        at = first_beyond(low, i, beyond, value[k])  # they are disjoint: only the last that begins before can hold it
        hit |= at > i and value[k] <= high[at - 1]
    return hit, beyond


@inlined
def satisfies(s: int, start: Any, column: Any, low: Any, high: Any, value: Any, first: Any, last: Any) -> bool:
    """Whether the event laid out in first and last hits an interval of subscription s in each of its columns.

    Subscription s owns intervals start[s] .. start[s + 1], those of one column side by side. Ends at the first miss:

        column:  2      2        7            value of column 2 = 8: misses 1..5, hits 8..9, go on with column 7
        range:   1..5   8..9     0..inf

    More than FEW in a column are searched.
    """
    i = start[s]
    end = start[s + 1]
    hit = True
    while hit and i < end:
        c = column[i]
        hit = False
        if i + FEW < end and column[i + FEW] == c:
            hit, i = search(i, end, column, low, high, value, first, last)
        while i < end and column[i] == c:
            for k in range(first[c], last[c]):
                hit |= low[i] <= value[k] <= high[i]
            i += 1
    return hit


@kernel
def settle(
    events: Events, event: int, every: bool, rows: Rows, out: Any, begin: int, end: int, first: Any, last: Any
) -> int:
    """Keep of out[begin : end] the subscriptions that an event satisfies; returns where they end.

    Those in doubt are checked: all of them where `every`, else those with `several` intervals in a column, of which an
    index by hulls stores only the hull. `first` and `last`, [A] int64, are 0 before and after.

    A kernel tests `every or rows.any_several` before it calls this for an event, because a call counts 16 references,
    which takes 50 ns.
    """
    offsets, e_column, value = events
    lay_out(e_column, offsets[event], offsets[event + 1], first, last)
    m = _keep(value, every, rows, out, begin, end, first, last)
    clear(e_column, offsets[event], offsets[event + 1], first, last)
    return m


@inner
def _keep(value: Any, every: bool, rows: Rows, out: Any, begin: int, end: int, first: Any, last: Any) -> int:
    """The loop of `settle`, where a call of `search` counts no references."""
    start, column, low, high, several, _ = rows
    m = begin
    for i in range(begin, end):
        s = out[i]
        if not (every or several[s]) or satisfies(s, start, column, low, high, value, first, last):
            out[m] = s
            m += 1
    return m


@kernel
def has_several_values(column: Any, begin: int, end: int, n_columns: int) -> bool:
    """Whether an event has an array: several values in one of the table's columns."""
    for k in range(begin + 1, end):  # noqa: SIM110 - a loop that is compiled
        if column[k] == column[k - 1] and column[k] < n_columns:
            return True
    return False


@kernel
def read(column: Any, value: Any, begin: int, end: int, present: Any, least: Any, greatest: Any) -> bool:
    """Fill `present`, `least` and `greatest` of each column; returns whether some column has several values."""
    several = False
    present[:] = False
    for i in range(begin, end):
        a = column[i]
        if a >= present.shape[0]:  # the batch may know more columns than the table
            continue
        if present[a]:
            least[a] = min(least[a], value[i])
            greatest[a] = max(greatest[a], value[i])
            several = True
        else:
            present[a] = True
            least[a] = greatest[a] = value[i]
    return several
