"""Count, within the partitions of an event's attributes, the satisfied predicates of each subscription.

A partition holds the subscriptions of one pivot attribute in places side by side, ascending; a place has a counter. Its
predicates lie in lists, one an (operator, attribute), ascending by (partition, operator, attribute), and ascending by
operand within a list. So what an operand satisfies is one run, and counting it compares nothing:

    list of  >=   1   2   2   5        value = 3:  those up to 3      run 1 2 2
    list of  <=   2   4   6   9                    those from 3 on    run 4 6 9
    list of  =    1   3   3   7                    those equal        run 3 3

An event with several values in an attribute takes the greatest for >=, the least for <=, and all between for =. That
counts too much, never too little, so the result is checked.

A segment, the lists of one operator in one partition, has a signature: bit a & 63 is set if it has a list for attribute
a. Segments without a bit of the event, and values without a bit of the segment, look for no list.

Cost per event: a decrement for each satisfied predicate in the partitions of its attributes, two binary searches for
each list there, a byte for each subscription there, S / 64 words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.ascending import first_beyond, first_from
from matchers.kernels.bitsets import unmark, unmarked
from matchers.kernels.events import Events
from matchers.kernels.jit import inlined, kernel
from matchers.kernels.rows import Rows, read, settle

EQ, GE, LE = 0, 1, 2
OPERATORS = 3
PLACES = 8  # a partition begins at a multiple of these, so that its counters make up whole words


class Partitions(NamedTuple):
    """A attributes, of which each that is a pivot has a partition; L lists of E predicates; P places."""

    place: Any  # [A + 1] int64: partition a has places place[a] .. place[a + 1]
    subscription: Any  # [P] int32, ascending within a partition; -1 where none is
    needed: Any  # [P] of the least signed type that holds it: how many predicates are satisfied in a match
    signature: Any  # [A * OPERATORS] uint64
    segment: (
        Any  # [A * OPERATORS + 1] int64: operator o of partition a has lists segment[a * OPERATORS + o] .. the next
    )
    attribute: Any  # [L] int32, ascending within a segment
    start: Any  # [L + 1] int64: list i owns predicates start[i] .. start[i + 1]
    operand: Any  # [E] float64, ascending within a list
    of: Any  # [E] int32: place of the predicate's subscription


@kernel
def satisfied(lists: Any, i: int, operator: int, least: float, greatest: float, left: Any) -> None:
    """Count down for the predicates of list i that the values least .. greatest satisfy."""
    begin, end = lists.start[i], lists.start[i + 1]
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
        at, end = lists.segment[of], lists.segment[of + 1]
        for k in range(n):
            a = attributes[k]
            if signature >> np.uint64(a & 63) & np.uint64(1):
                at = first_from(lists.attribute, at, end, a)
                if at == end:
                    break
                if lists.attribute[at] == a:
                    satisfied(lists, at, operator, least[a], greatest[a], left)


@inlined
def exhausted(left: Any, begin: int, end: int, subscription: Any, bits: Any) -> None:
    """Clear the bits of the subscriptions with nothing left at places begin .. end, eight bytes of counters at a time.

    A counter x is 0 or less if x or x - 1 has its highest bit. Subtracting from a whole word borrows, which adds words
    to look at and hides none.
    """
    lanes = np.uint64(0xFFFFFFFFFFFFFFFF) // np.uint64((1 << 8 * left.itemsize) - 1)  # 1 in each counter
    highest = lanes << np.uint64(8 * left.itemsize - 1)
    words = left.view(np.uint64)
    per_word = 8 // left.itemsize
    for w in range(begin // per_word, end // per_word):
        x = words[w]
        if ((x - lanes) | x) & highest:
            for p in range(w * per_word, (w + 1) * per_word):
                if left[p] <= 0:
                    unmark(bits, subscription[p])


@kernel
def opindex(
    event: int, events: Events, lists: Partitions, unpartitioned: Any, rows: Rows, out: Any, counts: Any
) -> int:
    """`unpartitioned` has the bit clear of each subscription that always matches."""
    offsets, e_column, e_value = events
    n_subscriptions = rows.start.shape[0] - 1
    n_columns = lists.place.shape[0] - 1
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
            low_place, high_place = lists.place[pivot], lists.place[pivot + 1]
            if low_place < high_place:
                left[low_place:high_place] = lists.needed[low_place:high_place]
                search(lists, pivot, signature, attributes, n, least, greatest, left)
                exhausted(left, low_place, high_place, lists.subscription, bits)
        before = m
        m = unmarked(bits, n_subscriptions, out, m)
        if several:
            m = settle(events, event, several, rows, out, before, m, first, last)
        counts[event] = m - before
        event += 1
    return event
