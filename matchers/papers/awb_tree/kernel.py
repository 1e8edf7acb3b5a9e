"""Count the narrow predicates that an event satisfies, mark the wide ones that it misses, and list what is left.

Subscriptions are cut into blocks of 32,704. A predicate is the hull least low .. greatest high of a subscription in a
column. Predicates of one (block, column) are a row, narrow ones of a row and of about one width a class. No class is
empty.

    narrow   of a class of widths 2 .. 3, ascending by low      value = 7: 7 - 3 = 4, 7 - 2 = 5
             low:   1  3 | 4  4  | 5  6  7 | 8  9                 up to the 1st bar missed, from the 3rd on too
             high:  4  5 | 6  7  | 7  9  9 | 10 12                up to the 2nd compared; up to the 3rd satisfied

    wide     low:   1  2  3 | 4  5       ascending by low        value = 3: marked behind the bar, low > 3
             high:  2 | 6  7  8  9       ascending by high                  marked before the bar, high < 3

A subscription has one counter, which begins with its number of narrow predicates. Each satisfied one takes 1 from it.
When all columns are counted, a mark sets it to 1. So the counters at 0 are the matches. A block's counters stay in the
first cache; several events are matched in a block before the next, so that its lists are read from memory once.

Rounding. The widths of a class are bounded by doubles below the least and above the greatest exact one. With one more
double added to each difference, `value - width` is on the safe side of the exact one: between both, ends are compared.

Cost per event: a decrement for each narrow predicate satisfied, a store for each wide one missed, two binary searches
for each class and for each row, S bytes copied and S / 8 words compared.
"""

from __future__ import annotations

from math import inf, nextafter
from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.ascending import first_beyond, first_from
from matchers.kernels.bitsets import mark_bytes, unmark, unmarked
from matchers.kernels.counting import restart
from matchers.kernels.events import Events
from matchers.kernels.groups import GROUP, group_size
from matchers.kernels.jit import inlined, inner, kernel
from matchers.kernels.rows import Rows, read, settle

BLOCK = (1 << 15) - 64  # subscriptions, in whole words of bits and of counters; their bytes nearly fill the first cache
_GATHER = np.uint64(0x0102040810204080)  # bit 8 i times it has bit 56 + i, and no other of the highest byte


class Narrow(NamedTuple):
    """P predicates in C classes of R = blocks * A rows; row of (block, a): block * A + a."""

    row: Any  # [R + 1] int64: row r owns classes row[r] .. row[r + 1]
    begin: Any  # [C + 1] int64: class c owns predicates begin[c] .. begin[c + 1]
    least_width: Any  # [C] float64: at most the exact width of any predicate
    greatest_width: Any  # [C] float64: at least
    low: Any  # [P] float64, ascending within a class
    high: Any  # [P] float64
    subscription: Any  # [P] uint16, within the block


class Wide(NamedTuple):
    """P predicates of R rows, in two orders."""

    begin: Any  # [R + 1] int64: row r owns predicates begin[r] .. begin[r + 1]
    low: Any  # [P] float64, ascending within a row
    low_subscription: Any  # [P] uint16, within the block
    high: Any  # [P] float64, ascending within a row
    high_subscription: Any  # [P] uint16


class Index(NamedTuple):
    """A columns of S subscriptions."""

    begin: Any  # [A] float64: the domain, from the least finite bound
    end: Any  # [A] float64: to the greatest
    needed: Any  # [S, padded], counters: narrow predicates of each subscription
    narrow: Narrow
    wide: Wide


@inlined
def in_domain(value: float, begin: float, end: float) -> float:
    """The value, or what stands for it beyond the domain: two doubles on each side, of which the outer is infinity.

    Finite bounds lie in the domain. So a bound is at most a value if and only if this holds for what stands for them,
    and differences are finite unless the domain is nearly that of all doubles.
    """
    if value < begin:
        below = nextafter(begin, -inf)
        return nextafter(below, -inf) if value == -inf else below
    if value > end:
        above = nextafter(end, inf)
        return nextafter(above, inf) if value == inf else above
    return value


@kernel
def bounds_in_domain(bound: Any, column: Any, begin: Any, end: Any) -> Any:
    placed = np.empty_like(bound)
    for i in range(bound.shape[0]):
        placed[i] = in_domain(bound[i], begin[column[i]], end[column[i]])
    return placed


@inner
def count_row(narrow: Narrow, row: int, least: float, greatest: float, left: Any) -> None:
    """Count the narrow predicates of a row on which a value may lie that is one of least .. greatest."""
    rows, begins, least_width, greatest_width, low, high, subscription = narrow
    for c in range(rows[row], rows[row + 1]):
        i, end = begins[c], begins[c + 1]
        if greatest_width[c] < inf:  # else some ends are infinite, because the domain is that of nearly all doubles
            i = first_from(low, i, end, nextafter(least - greatest_width[c], -inf))
        satisfied_from = nextafter(least - least_width[c], inf)
        while i < end and low[i] < satisfied_from:
            left[np.uint64(subscription[i])] -= (low[i] <= greatest) & (least <= high[i])
            i += 1
        for k in range(i, first_beyond(low, i, end, greatest)):
            left[np.uint64(subscription[k])] -= 1  # unsigned: no index counts from the end


@inner
def mark_row(wide: Wide, row: int, present: bool, least: float, greatest: float, left: Any) -> None:
    """Mark the wide predicates of a row that the values least .. greatest miss: all if the column is absent."""
    begins, low, low_subscription, high, high_subscription = wide
    begin, end = begins[row], begins[row + 1]
    if not present:
        mark_bytes(left, low_subscription, begin, end)
        return
    mark_bytes(left, low_subscription, first_beyond(low, begin, end, greatest), end)
    mark_bytes(left, high_subscription, begin, first_from(high, begin, end, least))


@inlined
def keep_complete(left: Any, n: int, base: int, bits: Any) -> None:
    """Clear the bit of each of n subscriptions from `base` on whose counter is 0, as `list_complete` finds them.

    Eight counters of a byte become eight bits without a branch: adding 127 sets the highest bit of each that is not 0,
    and the product moves the highest bits of all into one byte.
    """
    lanes = np.uint64(0xFFFFFFFFFFFFFFFF) // np.uint64((1 << 8 * left.itemsize) - 1)  # 1 in each counter
    highest = lanes << np.uint64(8 * left.itemsize - 1)
    words = left.view(np.uint64)
    eighths = bits.view(np.uint8)
    per_word = 8 // left.itemsize
    for w in range(n // per_word):
        x = words[w]
        if not (x - lanes) & ~x & highest:
            continue
        if per_word == 8:
            more = (((x & ~highest) + ~highest) | x) & highest
            eighths[(base >> 3) + w] = ((more >> np.uint64(7)) * _GATHER) >> np.uint64(56)
            continue
        for s in range(w * per_word, (w + 1) * per_word):
            if left[s] == 0:
                unmark(bits, base + s)


@kernel
def awb_tree(event: int, events: Events, index: Index, rows: Rows, out: Any, counts: Any) -> int:
    offsets, e_column, e_value = events
    domain_begin, domain_end, needed, narrow, wide = index
    n_subscriptions = rows.start.shape[0] - 1
    n_columns = domain_begin.shape[0]
    n_events = offsets.shape[0] - 1
    most = min(GROUP, n_events - event)
    present = np.zeros((most, n_columns), np.bool_)
    least = np.zeros((most, n_columns), np.float64)
    greatest = np.zeros((most, n_columns), np.float64)
    arrays = np.zeros(most, np.bool_)
    bits = np.zeros((most, (n_subscriptions + 63) >> 6), np.uint64)
    left = np.empty(min(BLOCK, needed.shape[0]), needed.dtype)
    first = np.zeros(n_columns, np.int64)
    last = np.zeros(n_columns, np.int64)
    begun = event
    m = 0
    while event < n_events and out.shape[0] - m >= n_subscriptions:
        n = min(n_events - event, group_size(event - begun, m, out.shape[0] - m))
        for g in range(n):
            begin, end = offsets[event + g], offsets[event + g + 1]
            arrays[g] = read(e_column, e_value, begin, end, present[g], least[g], greatest[g])
            for a in range(n_columns):
                least[g, a] = in_domain(least[g, a], domain_begin[a], domain_end[a])
                greatest[g, a] = in_domain(greatest[g, a], domain_begin[a], domain_end[a])
            bits[g, :] = ~np.uint64(0)
        for base in range(0, n_subscriptions, BLOCK):
            length = min(BLOCK, needed.shape[0] - base)
            row = base // BLOCK * n_columns
            for g in range(n):
                restart(left, needed[base : base + length])
                for a in range(n_columns):
                    if present[g, a]:
                        count_row(narrow, row + a, least[g, a], greatest[g, a], left)
                for a in range(n_columns):  # after all that is counted: a mark is final
                    mark_row(wide, row + a, present[g, a], least[g, a], greatest[g, a], left)
                keep_complete(left, length, base, bits[g])
        for g in range(n):
            if out.shape[0] - m < n_subscriptions:
                break
            before = m
            m = unmarked(bits[g], n_subscriptions, out, m)
            if arrays[g] or rows.any_several:  # a value on the hull, or two around it, may lie on no interval
                m = settle(events, event, arrays[g], rows, out, before, m, first, last)
            counts[event] = m - before
            event += 1
    return event
