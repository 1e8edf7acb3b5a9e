"""Mark the subscriptions that an event misses, and list the others.

Subscriptions are cut into blocks of 65,472 and predicates (the hull least low .. greatest high of a subscription in a
column) into rows, one a (block, column). A row owns a run of pairs (bound, subscription within its block) in the list
of lows and one in the list of highs, in buckets that ascend with the cell of the bound:

    lows   | none | cell 0 | cell 1 | cell 2 | ... |      greatest value in cell 1 -> compare there, mark from cell 2 on
    highs         | cell 0 | cell 1 | cell 2 | ... |      least value in cell 1    -> compare there, mark below cell 1

All that is marked without comparing is one contiguous run of 16-bit numbers. A predicate without a low end is in the
bucket `none`, which no value reaches, one without a high end in no bucket. An absent column marks the run of all lows.

A mark is a byte in the map of a block, which stays in the second cache: one store. A bit costs a load, an or and a
store, and the bits of many subscriptions leave the caches. Several events are marked in a block before the next, so
that its lists are read from memory once for all of them. But each row costs some ten lines of memory beside its marks:
where to begin, two anchor buckets, two runs. With hundreds of columns that is most of the time. So there is one block
of all subscriptions then (WHOLE), numbered by 32 bits and marked by bits, as in the paper.

Cost per event: a store for each end that the event misses, two anchor buckets for each row, S / 8 comparisons of words,
or S / 64 with bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.bitsets import mark, mark_bytes, mark_if, unmark, unmarked
from matchers.kernels.cells import cell_of
from matchers.kernels.events import Events
from matchers.kernels.groups import GROUP, group_size
from matchers.kernels.jit import inlined, kernel
from matchers.kernels.rows import Rows, read, settle

BLOCK = (1 << 16) - 64  # subscriptions: nearly as many as 16 bits number, in whole words of bits
WHOLE = (1 << 31) - 1  # all subscriptions: more are in no table
NOBODY = BLOCK  # the subscription of a free place in a bucket (rein_buckets.py); its mark is read by none
_ALL = np.uint64(0x0101010101010101)  # eight marks


class BucketLists(NamedTuple):
    """The two bucket lists of R = blocks * A rows, P predicates and c cells; row of (block, a): block * A + a."""

    block: int  # subscriptions: BLOCK, or WHOLE
    n: int  # c
    begin: Any  # [A] float64, as in Cells
    per_unit: Any  # [A] float64
    low_start: Any  # [R * (c + 1) + 1] int64: bucket j of row r owns pairs low_start[r * (c + 1) + j] .. the next
    low: Any  # [P] float64
    low_subscription: Any  # [P] uint16 within the block, or uint32
    high_start: Any  # [R * c + 1] int64
    high: Any  # [P or fewer] float64
    high_subscription: Any  # [P or fewer], the same


class EventGroup(NamedTuple):
    """Up to GROUP events of A columns, on S subscriptions."""

    present: Any  # [GROUP, A] bool: whether an event has a column
    least: Any  # [GROUP, A] float64
    greatest: Any  # [GROUP, A] float64
    arrays: Any  # [GROUP] bool: whether an event has several values in some column
    bits: Any  # [GROUP, S / 64] uint64: in the end 0 for each subscription that an event does not miss
    words: Any  # [BLOCK / 8 + 1] uint64: the map of a block and of `NOBODY`, eight marks at a time
    marks: Any  # [BLOCK + 8] uint8: the same memory


@kernel
def room_for(n_columns: int, n_subscriptions: int) -> Any:
    words = np.zeros((BLOCK >> 3) + 1, np.uint64)
    return EventGroup(
        np.zeros((GROUP, n_columns), np.bool_),
        np.zeros((GROUP, n_columns), np.float64),
        np.zeros((GROUP, n_columns), np.float64),
        np.zeros(GROUP, np.bool_),
        np.zeros((GROUP, (n_subscriptions + 63) >> 6), np.uint64),
        words,
        words.view(np.uint8),
    )


@kernel
def read_group(event: int, n: int, events: Events, group: EventGroup) -> None:
    """Read n events, the first of them `event`."""
    offsets, column, value = events
    for g in range(n):
        begin, end = offsets[event + g], offsets[event + g + 1]
        group.arrays[g] = read(column, value, begin, end, group.present[g], group.least[g], group.greatest[g])


@inlined
def low_bucket(low: float, begin: float, per_unit: float, n: int) -> int:
    """The bucket of a low end within its row: 0 if there is none."""
    return 0 if low == -np.inf else 1 + cell_of(low, begin, per_unit, n)


@kernel
def count(subscription: Any, column: Any, low: Any, high: Any, lists: Any) -> None:
    """Count the pairs of each bucket, at the place after its own: their running sums are then where buckets start."""
    n, columns = lists.n, lists.begin.shape[0]
    for p in range(subscription.shape[0]):
        a = column[p]
        row = subscription[p] // lists.block * columns + a
        bucket = low_bucket(low[p], lists.begin[a], lists.per_unit[a], n)
        lists.low_start[row * (n + 1) + bucket + 1] += 1
        if high[p] != np.inf:
            lists.high_start[row * n + cell_of(high[p], lists.begin[a], lists.per_unit[a], n) + 1] += 1


@kernel
def fill(subscription: Any, column: Any, low: Any, high: Any, lists: Any, low_next: Any, high_next: Any) -> None:
    """Put each pair into its bucket. The `next` arrays begin as copies of the starts."""
    n, columns = lists.n, lists.begin.shape[0]
    for p in range(subscription.shape[0]):
        a = column[p]
        row = subscription[p] // lists.block * columns + a
        within = subscription[p] % lists.block
        bucket = low_bucket(low[p], lists.begin[a], lists.per_unit[a], n)
        at = low_next[row * (n + 1) + bucket]
        low_next[row * (n + 1) + bucket] = at + 1
        lists.low[at] = low[p]
        lists.low_subscription[at] = within
        if high[p] != np.inf:
            bucket = row * n + cell_of(high[p], lists.begin[a], lists.per_unit[a], n)
            at = high_next[bucket]
            high_next[bucket] = at + 1
            lists.high[at] = high[p]
            lists.high_subscription[at] = within


@kernel
def mark_all(ids: Any, begin: int, end: int, marks: Any) -> None:
    """`marks`: [.] uint8 bytes, or [1, .] uint64 bits. It is compiled for one of them, so the branch costs nothing."""
    if marks.ndim == 1:
        mark_bytes(marks, ids, begin, end)
    else:
        bits = marks[0]
        for k in range(begin, end):
            mark(bits, ids[k])


@kernel
def mark_outside(ids: Any, ends: Any, begin: int, end: int, least: float, greatest: float, marks: Any) -> None:
    """Mark those of an anchor bucket whose end is not within least .. greatest: each with equal probability, so there
    is no branch on it."""
    if marks.ndim == 1:
        for k in range(begin, end):
            marks[np.uint64(ids[k])] |= (ends[k] < least) | (ends[k] > greatest)
    else:
        bits = marks[0]
        for k in range(begin, end):
            mark_if(bits, ids[k], (ends[k] < least) | (ends[k] > greatest))


@kernel
def mark_row(lists: Any, row: int, a: int, present: bool, least: float, greatest: float, marks: Any) -> None:
    """Mark the predicates of a row that the values least .. greatest of column a miss, in the marks of its block."""
    n = lists.n
    base = row * (n + 1)
    end = lists.low_start[base + n + 1]
    if not present:
        mark_all(lists.low_subscription, lists.low_start[base], end, marks)
        return
    if lists.low_start[base] == end:
        return
    base += 1 + cell_of(greatest, lists.begin[a], lists.per_unit[a], n)
    anchor, after = lists.low_start[base], lists.low_start[base + 1]
    mark_outside(lists.low_subscription, lists.low, anchor, after, -np.inf, greatest, marks)
    mark_all(lists.low_subscription, after, end, marks)
    first = lists.high_start[row * n]
    base = row * n + cell_of(least, lists.begin[a], lists.per_unit[a], n)
    anchor, after = lists.high_start[base], lists.high_start[base + 1]
    mark_all(lists.high_subscription, first, anchor, marks)
    mark_outside(lists.high_subscription, lists.high, anchor, after, least, np.inf, marks)


@kernel
def empty(marks: Any, length: int) -> None:
    """Empty the map of a block of `length` subscriptions; marks the places beyond them in the last word."""
    marks[:length] = 0
    marks[length : (length + 7) & ~7] = 1


@kernel
def as_bits(words: Any, marks: Any, base: int, length: int, bits: Any) -> None:
    """Have bit 0 for each unmarked subscription of a block that begins with subscription `base`, and 1 for others."""
    bits[base >> 6 : (base + length + 63) >> 6] = ~np.uint64(0)
    for w in range((length + 7) >> 3):
        if words[w] != _ALL:
            for within in range(w << 3, (w << 3) + 8):
                if marks[within] == 0:
                    unmark(bits, base + within)


@kernel
def mark_event(
    g: int, group: EventGroup, block: int, lists: BucketLists, columns: Any, some: BucketLists, column: int, marks: Any
) -> None:
    """Mark what event g of a group misses in a block."""
    present, least, greatest = group.present[g], group.least[g], group.greatest[g]
    row = block * lists.begin.shape[0]
    for a in columns:
        mark_row(lists, row + a, a, present[a], least[a], greatest[a], marks)
    if column >= 0:
        mark_row(some, block, 0, present[column], least[column], greatest[column], marks)


@kernel
def mark_group(
    n: int, n_subscriptions: int, group: EventGroup, lists: BucketLists, columns: Any, some: BucketLists, column: int
) -> None:
    """Have the misses of n events in their bits: of all predicates of `columns` and, unless `column` is -1, of those in
    `some`, which are lists of that column alone."""
    _, _, _, _, bits, words, marks = group
    for base in range(0, n_subscriptions, lists.block):
        for g in range(n):
            if lists.block == WHOLE:
                bits[g, :] = 0
                mark_event(g, group, 0, lists, columns, some, column, bits[g : g + 1])
            else:
                length = min(BLOCK, n_subscriptions - base)
                empty(marks, length)
                mark_event(g, group, base // BLOCK, lists, columns, some, column, marks)
                as_bits(words, marks, base, length, bits[g])


@kernel
def rein(event: int, events: Events, lists: BucketLists, rows: Rows, gone: Any, out: Any, counts: Any) -> int:
    """`gone` [S / 64, or less] uint64: the bit set of deleted subscriptions, which every event misses."""
    n_subscriptions = rows.start.shape[0] - 1
    n_columns = lists.begin.shape[0]
    n_events = events.offsets.shape[0] - 1
    group = room_for(n_columns, n_subscriptions)
    arrays, bits = group.arrays, group.bits
    columns = np.arange(n_columns)
    first = np.zeros(n_columns, np.int64)
    last = np.zeros(n_columns, np.int64)
    begun = event
    m = 0
    while event < n_events and out.shape[0] - m >= n_subscriptions:
        n = min(n_events - event, group_size(event - begun, m, out.shape[0] - m))
        read_group(event, n, events, group)
        mark_group(n, n_subscriptions, group, lists, columns, lists, -1)
        for g in range(n):
            if out.shape[0] - m < n_subscriptions:
                break
            before = m
            for w in range(gone.shape[0]):
                bits[g, w] |= gone[w]
            m = unmarked(bits[g], n_subscriptions, out, m)
            # a value on the hull, or least and greatest on it, may lie on no interval
            m = settle(events, event, arrays[g], rows, out, before, m, first, last)
            counts[event] = m - before
            event += 1
    return event
