"""Insert intervals into the cells that cover them, and delete them, in lists that move when they are full.

    list:      0                1             2 (moved, was here)    2
    array:     4 7 9 .  .  .  . 1 2 .  .      3 5                    3 5 8 .        tail
               start    end           room 4                         room 4

A full list moves behind all others, with room for twice as many. So what is left behind is at most what is in use.
Lists ascend: what is inserted is greater than all that is there.

Cost: O(cells) to insert an interval, 2 a level at most; to delete it, in each cell a binary search, and moving what is
behind it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.algorithms.tama.kernel import Dyadic, cover, ends
from matchers.kernels.ascending import first_from
from matchers.kernels.growing import twice
from matchers.kernels.jit import kernel

FEWEST_PLACES = 4  # places of a list that has moved


class GrowingLists(NamedTuple):
    """L lists in one array."""

    start: Any  # [L] int64
    end: Any  # [L] int64: list i is contents[start[i]] .. contents[end[i]]
    room: Any  # [L] int64: places of a list from its start on
    contents: Any  # int32
    tail: int  # where free places begin that no list has


@kernel
def append(i: int, x: int, start: Any, end: Any, room: Any, contents: Any, tail: int) -> Any:
    """Append x to list i; returns the array, which is a larger one if it was full, and its new tail."""
    if end[i] - start[i] == room[i]:
        room[i] = max(FEWEST_PLACES, 2 * room[i])
        while tail + room[i] > contents.shape[0]:
            contents = twice(contents)
        for k in range(start[i], end[i]):
            contents[tail + k - start[i]] = contents[k]
        end[i] = tail + end[i] - start[i]
        start[i] = tail
        tail += room[i]
    contents[end[i]] = x
    end[i] += 1
    return contents, tail


@kernel
def remove(i: int, x: int, start: Any, end: Any, contents: Any) -> None:
    """Slices, and no index that might count from the end, let the compiler move several numbers at once."""
    at = first_from(contents, start[i], end[i], x)
    to, behind = contents[at : end[i] - 1], contents[at + 1 : end[i]]
    for k in range(to.shape[0]):
        to[k] = behind[k]
    end[i] -= 1


@kernel
def insert_intervals(
    first: int,
    last: int,
    subscription: Any,
    column: Any,
    low: Any,
    high: Any,
    cells: Dyadic,
    covers: GrowingLists,
    edges: GrowingLists,
) -> Any:
    """Insert the intervals first .. last; returns the arrays and tails of both kinds of lists."""
    begin, per_unit, leaves, base, edge = cells
    start, end, room, ids, tail = covers
    edge_start, edge_end, edge_room, rows, edge_tail = edges
    covering = np.empty(128, np.int64)
    for r in range(first, last):
        if not low[r] <= high[r]:  # the empty interval
            continue
        c = column[r]
        low_cell, high_cell = ends(low[r], high[r], begin[c], per_unit[c], leaves[c])
        for k in range(cover(low_cell + 1, high_cell - 1, leaves[c], covering)):
            ids, tail = append(base[c] + covering[k], subscription[r], start, end, room, ids, tail)
        if low_cell >= 0:
            rows, edge_tail = append(edge[c] + low_cell, r, edge_start, edge_end, edge_room, rows, edge_tail)
        if high_cell != low_cell and high_cell < leaves[c]:
            rows, edge_tail = append(edge[c] + high_cell, r, edge_start, edge_end, edge_room, rows, edge_tail)
    return ids, tail, rows, edge_tail


@kernel
def delete_intervals(
    intervals: Any,
    subscription: Any,
    column: Any,
    low: Any,
    high: Any,
    cells: Dyadic,
    covers: GrowingLists,
    edges: GrowingLists,
) -> None:
    begin, per_unit, leaves, base, edge = cells
    start, end, _, ids, _ = covers
    edge_start, edge_end, _, rows, _ = edges
    covering = np.empty(128, np.int64)
    for r in intervals:
        if not low[r] <= high[r]:
            continue
        c = column[r]
        low_cell, high_cell = ends(low[r], high[r], begin[c], per_unit[c], leaves[c])
        for k in range(cover(low_cell + 1, high_cell - 1, leaves[c], covering)):
            remove(base[c] + covering[k], subscription[r], start, end, ids)
        if low_cell >= 0:
            remove(edge[c] + low_cell, r, edge_start, edge_end, rows)
        if high_cell != low_cell and high_cell < leaves[c]:
            remove(edge[c] + high_cell, r, edge_start, edge_end, rows)
