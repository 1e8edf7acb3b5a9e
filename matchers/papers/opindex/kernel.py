"""Count, within the partitions of an event's attributes, the satisfied predicates of each subscription.

A partition holds the subscriptions of one pivot attribute in places side by side; a place has a counter. Its
predicates lie in lists, one an (operator, attribute), ascending by (partition, operator, attribute), and ascending by
operand within a list. So what an operand satisfies is one run, and counting it compares nothing:

    list of  >=   1   2   2   5        value = 3:  those up to 3      run 1 2 2
    list of  <=   2   4   6   9                    those from 3 on    run 4 6 9
    list of  =    1   3   3   7                    those equal        run 3 3

An event with several values in an attribute takes the greatest for >=, the least for <=, and all between for =. That
counts too much, never too little, so the result is checked.

A segment, the lists of one operator in one partition, has a signature: bit a & 63 is set if it has a list for attribute
a. Segments without a bit of the event, and values without a bit of the segment, look for no list.

A batch is matched partition by partition. The events that have the pivot take lanes (`kernels/lanes.py`), and each list
is gone through once for up to 64 of them. In a list of >= the lanes of the events up to 3 drop out behind operand 3, in
one of <= they join: between two values one row of lanes counts for all operands.

Cost per event: a decrement for each satisfied predicate in the partitions of its attributes, two binary searches for
each list there, a byte for each subscription there, S / 64 words. In lanes: the same for 64 events, and their bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.ascending import first_beyond, first_from
from matchers.kernels.bitsets import unmark, unmarked
from matchers.kernels.counting import restart
from matchers.kernels.events import Events
from matchers.kernels.jit import inlined, kernel
from matchers.kernels.lanes import (
    LANES,
    Lanes,
    begin_lines,
    count_row,
    forget_values,
    room_for_lanes,
    sort_values,
    unmark_complete,
    words_for,
)
from matchers.kernels.rows import Rows, read, settle

EQ, GE, LE = 0, 1, 2
OPERATORS = 3
NARROW = 5  # events that have a pivot: for fewer, a counter for each is faster than lanes
SPARSE_VALUES = 3  # values of an attribute, up to which a row would have too few lanes to be faster
PLACES = 8  # a partition begins at a multiple of these, so that its counters make up whole words


class Partitions(NamedTuple):
    """A attributes, of which each that is a pivot has a partition; L lists of E predicates; P places.

    Segment a * OPERATORS + o has the lists of operator o in partition a.
    """

    place: Any  # [A] int64: partition a has places place[a] .. place_end[a]
    place_end: Any  # [A] int64
    subscription: Any  # [P] int32; below 0 where none is
    needed: Any  # [P] of the least signed type that holds it: how many predicates are satisfied in a match
    signature: Any  # [A * OPERATORS] uint64
    segment: Any  # [A * OPERATORS] int64: segment g has lists segment[g] .. segment_end[g]
    segment_end: Any  # [A * OPERATORS] int64
    attribute: Any  # [L] int32, ascending within a segment
    start: Any  # [L] int64: list i owns predicates start[i] .. end[i]
    end: Any  # [L] int64
    operand: Any  # [E] float64, ascending within a list
    of: Any  # [E] int32: place of the predicate's subscription, within the partition


@kernel
def satisfied(lists: Any, i: int, operator: int, least: float, greatest: float, left: Any) -> None:
    """Count down for the predicates of list i that the values least .. greatest satisfy."""
    begin, end = lists.start[i], lists.end[i]
    if operator != GE:
        begin = first_from(lists.operand, begin, end, least)
    if operator != LE:
        end = first_beyond(lists.operand, begin, end, greatest)
    for k in range(begin, end):
        left[np.uint32(lists.of[k])] -= 1  # unsigned, so that no index counts from the end


@kernel
def search(lists: Any, pivot: int, bits: Any, attributes: Any, n: int, least: Any, greatest: Any, left: Any) -> None:
    """Count in one partition what the event's n attributes satisfy. `bits` are the signature of the event."""
    for operator in range(OPERATORS):
        of = pivot * OPERATORS + operator
        signature = lists.signature[of]
        if signature & bits == np.uint64(0):
            continue
        at, end = lists.segment[of], lists.segment_end[of]
        for k in range(n):
            a = attributes[k]
            if signature >> np.uint64(a & 63) & np.uint64(1):
                at = first_from(lists.attribute, at, end, a)
                if at == end:
                    break
                if lists.attribute[at] == a:
                    satisfied(lists, at, operator, least[a], greatest[a], left)


@inlined
def exhausted(left: Any, place: int, subscription: Any, bits: Any) -> None:
    """Clear the bits of the subscriptions with nothing left in a partition that begins at `place`.

    Eight bytes of counters at a time. A counter x is 0 or less if x or x - 1 has its highest bit. Subtracting from a
    whole word borrows, which adds words to look at and hides none.
    """
    lanes = np.uint64(0xFFFFFFFFFFFFFFFF) // np.uint64((1 << 8 * left.itemsize) - 1)  # 1 in each counter
    highest = lanes << np.uint64(8 * left.itemsize - 1)
    words = left.view(np.uint64)
    per_word = 8 // left.itemsize
    for w in range(words.shape[0]):
        x = words[w]
        if ((x - lanes) | x) & highest:
            for p in range(w * per_word, (w + 1) * per_word):
                if left[p] <= 0:
                    unmark(bits, subscription[place + p])


@kernel
def opindex(
    event: int, events: Events, lists: Partitions, unpartitioned: Any, rows: Rows, out: Any, counts: Any
) -> int:
    """`unpartitioned` has the bit clear of each subscription that always matches."""
    offsets, e_column, e_value = events
    n_subscriptions = rows.start.shape[0] - 1
    n_columns = lists.place.shape[0]
    present = np.zeros(n_columns, np.bool_)
    least = np.zeros(n_columns, np.float64)
    greatest = np.zeros(n_columns, np.float64)
    attributes = np.zeros(n_columns, np.int64)
    first = np.zeros(n_columns, np.int64)
    last = np.zeros(n_columns, np.int64)
    left = np.empty_like(lists.needed)
    bits = np.empty_like(unpartitioned)
    m = 0
    while event < offsets.shape[0] - 1 and out.shape[0] - m >= n_subscriptions:
        begin, end = offsets[event], offsets[event + 1]
        several = read(e_column, e_value, begin, end, present, least, greatest)
        n = 0
        signature = np.uint64(0)
        for i in range(begin, end):
            a = e_column[i]
            if a < n_columns and (n == 0 or attributes[n - 1] != a):  # the batch may know more columns than the table
                attributes[n] = a
                n += 1
                signature |= np.uint64(1) << np.uint64(a & 63)
        bits[:] = unpartitioned
        for k in range(n):
            pivot = attributes[k]
            low_place, high_place = lists.place[pivot], lists.place_end[pivot]
            if low_place < high_place:
                counters = left[low_place:high_place]
                counters[:] = lists.needed[low_place:high_place]
                search(lists, pivot, signature, attributes, n, least, greatest, counters)
                exhausted(counters, low_place, lists.subscription, bits)
        before = m
        m = unmarked(bits, n_subscriptions, out, m)
        if several:
            m = settle(events, event, several, rows, out, before, m, first, last)
        counts[event] = m - before
        event += 1
    return event


@inlined
def _count_each(
    operator: int, operand: Any, of: Any, begin: int, end: int, first: int, last: int, value: Any, lane: Any, left: Any
) -> None:
    """Count down the predicates begin .. end of a list, for one value after the other of first .. last."""
    for j in range(first, last):
        low = begin if operator == GE else first_from(operand, begin, end, value[j])
        high = end if operator == LE else first_beyond(operand, low, end, value[j])
        for p in range(low, high):
            left[np.uint32(of[p]), lane[j]] -= 1


@kernel
def search_in_lanes(lists: Partitions, pivot: int, n_columns: int, lanes: Lanes, row: Any, left: Any) -> None:
    """Count in one partition what the events in the lanes, which have n columns, satisfy.

    All operands between two values that follow each other are satisfied by the same lanes, which are a row.
    """
    signatures, segment, segment_end, attribute = lists.signature, lists.segment, lists.segment_end, lists.attribute
    start, list_end, operand, of = lists.start, lists.end, lists.operand, lists.of
    columns, first_of, last_of, value, lane = lanes
    counters, in_row = left.view(np.uint8), row.view(np.uint8)
    for operator in range(OPERATORS):
        segment_of = pivot * OPERATORS + operator
        signature = signatures[segment_of]
        at, at_end = segment[segment_of], segment_end[segment_of]
        for k in range(n_columns):
            a = columns[k]
            if not signature >> np.uint64(a & 63) & np.uint64(1):
                continue
            at = first_from(attribute, at, at_end, a)
            if at == at_end:
                break
            if attribute[at] != a:
                continue
            first, last = first_of[a], last_of[a]
            begin, end = start[at], list_end[at]
            if operator == EQ or last - first <= SPARSE_VALUES:
                _count_each(operator, operand, of, begin, end, first, last, value, lane, counters)
            elif operator == GE:
                for j in range(first, last):
                    in_row[lane[j]] = 1
                for j in range(first, last):
                    to = first_beyond(operand, begin, end, value[j])
                    count_row(of, begin, to, row, left)
                    begin = to
                    in_row[lane[j]] = 0
            else:
                begin = first_from(operand, begin, end, value[first])
                for j in range(first, last):
                    in_row[lane[j]] = 1
                    to = first_from(operand, begin, end, value[j + 1]) if j + 1 < last else end
                    count_row(of, begin, to, row, left)
                    begin = to
                row[:] = 0


@kernel
def events_by_column(base: int, n_events: int, events: Events, begins: Any, having: Any) -> None:
    """The events base .. base + n_events that have column a: having[begins[a] .. begins[a + 1]]."""
    offsets, column, _ = events
    n_columns = begins.shape[0] - 1
    begins[:] = 0
    for i in range(offsets[base], offsets[base + n_events]):
        if column[i] < n_columns:
            begins[column[i] + 1] += 1
    for a in range(n_columns):
        begins[a + 1] += begins[a]
    for e in range(base, base + n_events):
        for i in range(offsets[e], offsets[e + 1]):
            if column[i] < n_columns:
                having[begins[column[i]]] = e
                begins[column[i]] += 1
    for a in range(n_columns, 0, -1):
        begins[a] = begins[a - 1]
    begins[0] = 0


@kernel
def lay_out_attributes(event: int, events: Events, attributes: Any, value: Any) -> tuple[int, Any]:
    """The attributes of an event, and the value of each; returns how many, and their signature."""
    offsets, e_column, e_value = events
    n = 0
    signature = np.uint64(0)
    for i in range(offsets[event], offsets[event + 1]):
        a = e_column[i]
        if a >= value.shape[0]:  # the batch may know more columns than the table
            break
        attributes[n] = a
        value[a] = e_value[i]
        signature |= np.uint64(1) << np.uint64(a & 63)
        n += 1
    return n, signature


@kernel
def opindex_in_lanes(base: int, events: Events, lists: Partitions, bits: Any) -> None:
    """Match the events of a chunk, none with arrays, partition by partition: bits[e] are those of event base + e.

    The first 64 events of all partitions come first, then the next ones: where all events have all attributes, their
    values are sorted once, and not again for each partition.
    """
    place, place_end, subscription, needed = lists.place, lists.place_end, lists.subscription, lists.needed
    offsets = events.offsets
    n_events = bits.shape[0]
    n_columns = place.shape[0]
    begins = np.empty(n_columns + 1, np.int64)
    room = offsets[base + n_events] - offsets[base]
    having = np.empty(room, np.int64)
    lanes = room_for_lanes(n_columns, room)
    row = np.zeros(LANES // 8, np.uint64)
    largest = 0
    for pivot in range(n_columns):
        largest = max(largest, place_end[pivot] - place[pivot])
    lines = np.empty(largest * (LANES // 8), np.uint64)
    events_by_column(base, n_events, events, begins, having)
    attributes = np.empty(n_columns, np.int64)
    value = np.empty(n_columns, np.float64)
    before = having[:0]
    n = 0
    for first in range(0, n_events, LANES):
        for pivot in range(n_columns):
            low_place, size = place[pivot], place_end[pivot] - place[pivot]
            at = begins[pivot] + first
            if size == 0 or at >= begins[pivot + 1]:
                continue
            events_in = having[at : min(at + LANES, begins[pivot + 1])]
            if events_in.shape[0] < NARROW:
                counters = lines.view(np.int8)[:size]
                for e in events_in:
                    n_own, signature = lay_out_attributes(e, events, attributes, value)
                    restart(counters, needed[low_place : low_place + size])
                    search(lists, pivot, signature, attributes, n_own, value, value, counters)
                    exhausted(counters, low_place, subscription, bits[e - base])
                continue
            if not np.array_equal(events_in, before):
                forget_values(n, lanes)
                n = sort_values(events_in, events, lanes)
                before = events_in
            words = words_for(events_in.shape[0])
            left = lines[: size * words].reshape(size, words)
            begin_lines(needed, low_place, low_place + size, left)
            search_in_lanes(lists, pivot, n, lanes, row[:words], left)
            unmark_complete(left, size, low_place, subscription, events_in, base, bits)
