"""Match sparse events, which have few of many columns: by which columns they have, before any value is looked at.

A subscription matches only events that have all its columns. So it is filed under four of them, the rarest ones; where
it has fewer, no column is the others. Each column has a row of bits of 512 events, set where an event lacks it:

    column 3                          1101 0110 ...
    column 8                          0101 0011 ...
    or of both: the pair 3, 8         1101 0111 ...     all subscriptions of the pair are passed over if all are set
    column 5                          0111 1110 ...
    or of three                       1111 1111 ...     zeros are candidates, if they are zeros in a fourth column too

Why it is fast: a pair tests 512 events by two loads and an OR of 64 bytes, and so does a subscription of it. With 4 of
100 columns in an event, half of the pairs have one of 512 events, and one of 100,000 subscriptions is left to an event.
These are compared with the event's values at once: there are no cells, and their bounds are prefetched
while others are found.

Cost for 512 events: pairs of the columns that they have + subscriptions of the pairs that one of them has; and for each
event its candidates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.algorithms.tiles.kernels.arrays import AT_ONCE, CANDIDATES_AT_ONCE
from matchers.algorithms.tiles.kernels.lists import end_of_list, on_list
from matchers.algorithms.tiles.kernels.runs_kernel import CANDIDATES, VERIFIED, MatchRuns, arrange, count_matches
from matchers.kernels.events import Events
from matchers.kernels.jit import borrower, inlined, inner, kernel
from matchers.kernels.rows import FEW
from matchers.kernels.vectors import WORDS, either, full, load, lowest, prefetch, store

TRIED = 1 / 64  # of the candidates that are worth it; these show how many there will be
MATCHED, NO_ROOM, TOO_MANY = range(3)  # candidates


class ColumnIndex(NamedTuple):
    """U slots of an index of A columns, ascending by four columns of each; column A is none. G pairs of columns."""

    pair_start: Any  # [A + 2] int64: column c is the first of the pairs pair_start[c] .. pair_start[c + 1]
    second: Any  # [G] int32
    begin: Any  # [G + 1] int64: pair g has the places begin[g] .. begin[g + 1]
    third: Any  # [U] int32
    fourth: Any  # [U] int32
    slot: Any  # [U] int32


class SlotBounds(NamedTuple):
    """The fields of `Arrays` that verify candidates and list their subscriptions."""

    start: Any
    range: Any
    low: Any
    high: Any
    id_start: Any
    id: Any


class Filed(NamedTuple):
    """The arrays with which batches of sparse events are matched."""

    by_columns: ColumnIndex
    slots: SlotBounds
    n_subscriptions: int


class Room(NamedTuple):
    """Room for N events in A columns, unchanged between calls; W words are what N bits take, rounded up to rows."""

    lacking: Any  # [(A + 1) * W] uint64, all bits set: column by column, which events lack it
    column: Any  # [A + 2] int32: those that some event has, and a place to write to
    known: Any  # [A + 1] bool, False: whether a column is among these
    found: Any  # [8] uint64: what is left of a row
    candidate: Any  # [CANDIDATES_AT_ONCE + 512] uint64: event and slot


@kernel
def match_filed(
    first: int, last: int, offsets: Any, column: Any, value: Any, held: Any, most: int, matches: int, counters: Any
) -> tuple[bool, Any, Any]:
    """Whether they have no more than about `most` candidates, and the offsets and subscriptions of the `MatchBatch` of
    the events first .. last, of no use if not; `matches` is how many there is room for at first.

    All that a call needs is made here, as a small batch takes less time than some calls do. A held `Filed`.
    """
    by_columns, slots, n_subscriptions = held.arrays
    events, n = Events(offsets, column, value), last - first
    room = columns_for(n, by_columns.pair_start.shape[0] - 2)
    no_sets = np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint64)
    outcome, runs_at = NO_ROOM, np.zeros(3, np.int64)
    runs = MatchRuns(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int32), *no_sets, runs_at)
    while outcome == NO_ROOM:
        runs = MatchRuns(
            np.empty(matches, np.int32), np.empty(matches, np.int64), np.empty(matches, np.int32), *no_sets, runs_at
        )
        outcome = match_sparse(first, last, events, by_columns, slots, room, most, runs, counters)
        matches *= 2
    of_event = np.zeros(n + 1, np.int64)
    count_matches(runs, slots.id_start, of_event)
    subscription = np.empty(of_event[n], np.int32)
    arrange(runs, slots.id, slots.id_start, n_subscriptions, of_event, subscription)
    return outcome == MATCHED, of_event, subscription


@kernel
def columns_for(n: int, d: int) -> Room:
    """Room for the columns of n events in d columns."""
    size = (d + 1) * ((n + AT_ONCE - 1) // AT_ONCE) * WORDS
    words = np.full(size + WORDS, ~np.uint64(0), np.uint64)
    begin = (64 - words.ctypes.data % 64) % 64 // 8  # a row is a cache line
    return Room(
        words[begin : begin + size],
        np.zeros(d + 2, np.int32),
        np.zeros(d + 1, np.bool_),
        np.empty(WORDS, np.uint64),
        np.empty(CANDIDATES_AT_ONCE + AT_ONCE, np.uint64),
    )


@borrower
def match_sparse(
    first: int,
    last: int,
    events: Events,
    by_columns: ColumnIndex,
    slots: SlotBounds,
    room: Room,
    most: int,
    runs: MatchRuns,
    counters: Any,
) -> int:
    """Append what the events first .. last match to `runs`.

    TOO_MANY: with more than about `most` candidates it is not worth it. Then `runs` is as before, and so it is if there
    was NO_ROOM.
    """
    lacking, column, known = room.lacking, room.column, room.known
    words = lacking.shape[0] // known.shape[0]
    used = (last - first + AT_ONCE - 1) // AT_ONCE * WORDS
    n_runs, n_ids = runs.used[0], runs.used[1]
    n = _lay_out_sparse(first, last, events, words, room)
    result = _match_block(n, used, first, events, by_columns, slots, room, most, runs, counters)
    if result != MATCHED:
        runs.used[0], runs.used[1] = n_runs, n_ids
    for x in range(n):
        c = column[x]
        known[c] = False
        for w in range(c * words, c * words + used):
            lacking[w] = ~np.uint64(0)
    return result


@inlined
def _lay_out_sparse(first: int, last: int, events: Events, words: int, room: Room) -> int:
    """Clear the bits of the columns that events have, and list these columns; returns how many there are."""
    offsets, column = events.offsets, events.column
    lacking, listed, known = room.lacking, room.column, room.known
    none = known.shape[0] - 1
    listed[0] = none
    n = 1
    for e in range(first, last):
        word, bit = (e - first) >> 6, np.uint64(1) << np.uint64((e - first) & 63)
        lacking[none * words + word] &= ~bit
        for i in range(offsets[e + 1] - 1, offsets[e] - 1, -1):  # the first of several comes last
            c = column[i]
            if c < none:
                lacking[c * words + word] &= ~bit
                listed[n] = c
                n += int(not known[c])
                known[c] = True
    return n


@inner
def _match_block(
    n: int,
    used: int,
    first: int,
    events: Events,
    by_columns: ColumnIndex,
    slots: SlotBounds,
    room: Room,
    most: int,
    runs: MatchRuns,
    counters: Any,
) -> int:
    """Match the first `used` words of n columns."""
    pair_start, second, begin, third, fourth, slot = by_columns
    lacking, column, known, found, candidate = room.lacking, room.column, room.known, room.found, room.candidate
    words = lacking.shape[0] // known.shape[0]
    m, total = 0, 0
    places, asked = 0, 0
    for x in range(n):
        places += used // WORDS * (begin[pair_start[column[x] + 1]] - begin[pair_start[column[x]]])
    for x in range(n):
        own = np.uint64(column[x] * words)
        for g in range(pair_start[column[x]], pair_start[column[x] + 1]):
            other = np.uint64(second[g] * words)
            for block in range(np.uint64(0), np.uint64(used), np.uint64(WORDS)):
                asked += begin[g + 1] - begin[g]
                pair = either(load(lacking, own + block), load(lacking, other + block))
                if full(pair):
                    continue
                for i in range(begin[g], begin[g + 1]):
                    left = either(pair, load(lacking, np.uint64(third[i] * words) + block))
                    if full(left):
                        continue
                    left = either(left, load(lacking, np.uint64(fourth[i] * words) + block))
                    if full(left):
                        continue
                    store(left, found, np.uint64(0))
                    m = _collect(found, block, slot[i], slots, candidate, m)
                    if m >= CANDIDATES_AT_ONCE:
                        total += m
                        done = asked - (begin[g + 1] - i - 1)
                        if total > TRIED * most and total * np.float64(places) > most * np.float64(done):
                            return TOO_MANY
                        if not _verify_sparse(m, first, events, slots, room, runs, counters):
                            return NO_ROOM
                        m = 0
    return MATCHED if _verify_sparse(m, first, events, slots, room, runs, counters) else NO_ROOM


@inlined
def _collect(found: Any, block: Any, slot: Any, slots: SlotBounds, candidate: Any, m: int) -> int:
    """Append the slot to the m candidates of each event whose bit is clear; returns how many there are then."""
    prefetch(slots.start, np.uint64(slot))
    prefetch(slots.id_start, np.uint64(slot))
    for w in range(np.uint64(WORDS)):
        left = ~found[w]
        while left != np.uint64(0):
            event = ((block + w) << np.uint64(6)) + lowest(left)
            left &= left - np.uint64(1)
            candidate[np.uint64(m)] = event << np.uint64(32) | np.uint64(slot)
            m += 1
    return m


@inner
def _verify_sparse(
    n: int, first: int, events: Events, slots: SlotBounds, room: Room, runs: MatchRuns, counters: Any
) -> bool:
    """Append those of n candidates that match. False: no room."""
    start, range_, low, high, id_start, id = slots
    run_event, run_begin, run_id, used, candidate = runs.event, runs.begin, runs.id, runs.used, room.candidate
    mask = np.uint64(0xFFFFFFFF)
    for x in range(n):
        at = np.uint64(start[candidate[x] & mask])
        prefetch(range_, np.uint64(3) * at)
        prefetch(low, at)
        prefetch(high, at)
    r, m = used[0], used[1]
    for x in range(n):
        u, e = candidate[x] & mask, np.int64(candidate[x] >> np.uint64(32))
        if not _satisfies_by_values(u, e, first, events, slots, room):
            continue
        begin, end = id_start[u], id_start[u + np.uint64(1)]
        if r == 0 or run_event[r - 1] != e:
            if r == run_event.shape[0]:
                return False
            run_event[r], run_begin[r] = e, m
            r += 1
        if m + end - begin > run_id.shape[0]:
            return False
        for k in range(begin, end):
            run_id[m] = id[k]
            m += 1
    used[0], used[1] = r, m
    counters[CANDIDATES] += n
    counters[VERIFIED] += n
    return True


@inlined
def _satisfies_by_values(u: Any, e: Any, first: int, events: Events, slots: SlotBounds, room: Room) -> bool:
    """Whether event first + e hits an interval of slot u in each of its columns."""
    start, range_, low, high, _, _ = slots
    offsets, column, value = events
    i, end = start[u], start[u + np.uint64(1)]
    k, last = offsets[first + e], offsets[first + e + 1]
    hit = True
    while hit and i < end:
        c = range_[3 * i]
        while k < last and column[k] < c:
            k += 1
        hit = False
        if i + FEW < end and range_[3 * (i + FEW)] == c:
            beyond = end_of_list(np.uint64(i), np.uint64(end), range_)
            j = k
            while j < last and column[j] == c:
                hit |= on_list(value[j], np.uint64(i), beyond, low, high)
                j += 1
            i = np.int64(beyond)
        while i < end and range_[3 * i] == c:
            j = k
            while j < last and column[j] == c:
                hit |= low[i] <= value[j] <= high[i]
                j += 1
            i += 1
    return hit
