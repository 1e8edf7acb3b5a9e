"""Insert predicates into the lists of OpIndex's partitions, and delete them.

    places of a partition:     7   2  -4   9  -1         a free place has -2 less the next one, or -1 if it is the last
    lists of a segment:        price  volume  -          - is room
    predicates of a list:      0.31 0.33 0.35  -         ascending by operand

What is full moves behind all others of its kind, with room for twice as many. So what is left behind is at most what is
in use. A list without predicates leaves its segment, and the signature loses the bit that no other list has.

Cost: O(1) for a place; for each predicate two binary searches, and for each list with changes moving what is behind the
first of them, however many they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.ascending import first_from
from matchers.kernels.jit import kernel
from matchers.papers.opindex.kernel import PLACES, Partitions

NOWHERE = -1  # where no place is free
FEWEST_LISTS = 2  # of a segment that has moved
FEWEST_PREDICATES = 4  # of a list that has moved
OF_PLACES, OF_LISTS, OF_PREDICATES = range(3)


class GrowingPartitions(NamedTuple):
    """A attributes with 3 segments each, L lists."""

    partitions: Partitions
    free: Any  # [A] int64: the first free place of each partition, or NOWHERE
    segment_room: Any  # [3 A] int64: lists for which a segment has room from its start on
    list_room: Any  # [L] int64: predicates for which a list has room
    tail: Any  # [3] int64: where room begins that nothing has: of places, of lists, of predicates
    wanted: Any  # [3] int64: the lengths without which an insertion stopped


class PlacedPredicates(NamedTuple):
    """Q predicates of subscriptions that have places, ascending by segment, attribute and operand."""

    segment: Any  # [Q] int64
    attribute: Any  # [Q] int32
    operand: Any  # [Q] float64
    place: Any  # [Q] int32, within the partition


@kernel
def has_room(kind: int, room: int, length: int, index: GrowingPartitions) -> bool:
    """Whether an array of that length has room behind its tail; if not, it is noted as wanted."""
    index.wanted[kind] = index.tail[kind] + room
    return bool(index.wanted[kind] <= length)


@kernel
def take_places(i: int, first: int, pivot: Any, needed: Any, index: GrowingPartitions, taken: Any) -> int:
    """Give subscriptions i .. places in their partitions, which they note in `taken`; the first of all is `first`.

    Returns the first for which there is no room, or the end.
    """
    place, _, subscription, counters = index.partitions[:4]
    while i < pivot.shape[0]:
        a = pivot[i]
        if a >= 0:
            if index.free[a] == NOWHERE and not move_places(a, index):
                return i
            taken[i] = index.free[a]
            at = place[a] + index.free[a]
            index.free[a] = -2 - subscription[at]
            subscription[at] = first + i
            counters[at] = needed[i]
        i += 1
    return i


@kernel
def move_places(a: int, index: GrowingPartitions) -> bool:
    """Move a partition of which no place is free; False if there is no room."""
    place, place_end, subscription, counters = index.partitions[:4]
    size = place_end[a] - place[a]
    room = max(PLACES, 2 * size)
    if not has_room(OF_PLACES, room, subscription.shape[0], index):
        return False
    to = index.tail[OF_PLACES]
    index.tail[OF_PLACES] += room
    for k in range(room):
        if k < size:
            subscription[to + k] = subscription[place[a] + k]
            counters[to + k] = counters[place[a] + k]
        else:
            subscription[to + k] = -2 - (k + 1) if k + 1 < room else -1
            counters[to + k] = 1
    place[a] = to
    place_end[a] = to + room
    index.free[a] = size
    return True


@kernel
def leave_places(pivot: Any, taken: Any, index: GrowingPartitions) -> None:
    """The counters stay: without predicates nothing counts them down."""
    place, _, subscription = index.partitions[:3]
    for i in range(pivot.shape[0]):
        a = pivot[i]
        if a >= 0:
            at = place[a] + taken[i]
            subscription[at] = -2 - index.free[a]
            index.free[a] = taken[i]


@kernel
def insert_predicates(q: int, predicates: PlacedPredicates, index: GrowingPartitions) -> int:
    """Insert the predicates q ..; returns the first for which there is no room, or the end."""
    partitions = index.partitions
    segment, segment_end, attribute = partitions.segment, partitions.segment_end, partitions.attribute
    start, end, operand, of = partitions.start, partitions.end, partitions.operand, partitions.of
    while q < predicates.segment.shape[0]:
        g = predicates.segment[q]
        a = predicates.attribute[q]
        at = first_from(attribute, segment[g], segment_end[g], a)
        if at == segment_end[g] or attribute[at] != a:
            at = new_list(g, at, a, index)
            if at == NOWHERE:
                return q
        last = list_end(q, predicates)
        if end[at] - start[at] + last - q > index.list_room[at] and not move_list(at, last - q, index):
            return q
        old = end[at] - 1
        end[at] += last - q
        to = end[at] - 1
        for new in range(last - 1, q - 1, -1):
            while old >= start[at] and operand[old] > predicates.operand[new]:
                operand[to] = operand[old]
                of[to] = of[old]
                old -= 1
                to -= 1
            operand[to] = predicates.operand[new]
            of[to] = predicates.place[new]
            to -= 1
        q = last
    return q


@kernel
def list_end(q: int, predicates: PlacedPredicates) -> int:
    """The end of the predicates from q on that are in the same list."""
    last = q + 1
    while (
        last < predicates.segment.shape[0]
        and predicates.segment[last] == predicates.segment[q]
        and predicates.attribute[last] == predicates.attribute[q]
    ):
        last += 1
    return last


@kernel
def new_list(g: int, at: int, a: int, index: GrowingPartitions) -> int:
    """Open a list for attribute a in segment g before list `at`; returns where it is, or NOWHERE without room."""
    partitions, room = index.partitions, index.list_room
    segment, segment_end, attribute = partitions.segment, partitions.segment_end, partitions.attribute
    start, end = partitions.start, partitions.end
    size = segment_end[g] - segment[g]
    if size == index.segment_room[g]:
        larger = max(FEWEST_LISTS, 2 * size)
        if not has_room(OF_LISTS, larger, attribute.shape[0], index):
            return NOWHERE
        to = index.tail[OF_LISTS]
        index.tail[OF_LISTS] += larger
        for k in range(size):
            copy_list(segment[g] + k, to + k, attribute, start, end, room)
        at += to - segment[g]
        segment[g] = to
        segment_end[g] = to + size
        index.segment_room[g] = larger
    for k in range(segment_end[g], at, -1):
        copy_list(k - 1, k, attribute, start, end, room)
    attribute[at] = a
    start[at] = end[at] = room[at] = 0
    segment_end[g] += 1
    partitions.signature[g] |= np.uint64(1) << np.uint64(a & 63)
    return at


@kernel
def copy_list(at: int, to: int, attribute: Any, start: Any, end: Any, room: Any) -> None:
    attribute[to] = attribute[at]
    start[to] = start[at]
    end[to] = end[at]
    room[to] = room[at]


@kernel
def move_list(at: int, more: int, index: GrowingPartitions) -> bool:
    """Move the predicates of a list that has no room for so many more; False if there is no room behind all others."""
    start, end, operand, of = index.partitions[8:]
    room = max(FEWEST_PREDICATES, 2 * index.list_room[at], end[at] - start[at] + more)
    if not has_room(OF_PREDICATES, room, operand.shape[0], index):
        return False
    to = index.tail[OF_PREDICATES]
    index.tail[OF_PREDICATES] += room
    for k in range(start[at], end[at]):
        operand[to + k - start[at]] = operand[k]
        of[to + k - start[at]] = of[k]
    end[at] += to - start[at]
    start[at] = to
    index.list_room[at] = room
    return True


@kernel
def delete_predicates(predicates: PlacedPredicates, index: GrowingPartitions) -> None:
    partitions = index.partitions
    segment, segment_end, attribute = partitions.segment, partitions.segment_end, partitions.attribute
    start, end, operand, of = partitions.start, partitions.end, partitions.operand, partitions.of
    q = 0
    while q < predicates.segment.shape[0]:
        g = predicates.segment[q]
        at = first_from(attribute, segment[g], segment_end[g], predicates.attribute[q])
        last = list_end(q, predicates)
        first = end[at]
        for old in range(q, last):
            k = first_from(operand, start[at], end[at], predicates.operand[old])
            while of[k] != predicates.place[old]:
                k += 1
            of[k] = NOWHERE
            first = min(first, k)
        to = first
        for k in range(first, end[at]):
            if of[k] != NOWHERE:
                operand[to] = operand[k]
                of[to] = of[k]
                to += 1
        end[at] = to
        if start[at] == to:
            drop_list(g, at, index)
        q = last


@kernel
def drop_list(g: int, at: int, index: GrowingPartitions) -> None:
    """Take an empty list out of its segment."""
    partitions = index.partitions
    segment, segment_end, attribute = partitions.segment, partitions.segment_end, partitions.attribute
    segment_end[g] -= 1
    for k in range(at, segment_end[g]):
        copy_list(k + 1, k, attribute, partitions.start, partitions.end, index.list_room)
    partitions.signature[g] = np.uint64(0)
    for k in range(segment[g], segment_end[g]):
        partitions.signature[g] |= np.uint64(1) << np.uint64(attribute[k] & 63)
