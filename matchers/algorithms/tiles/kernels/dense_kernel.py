"""Match events that match much: subscription by subscription, 512 events at once, by rows of bits of events.

A column has a row for each of its cells, and one more: which events have a lower cell there.

    cells of six events      0  3  1  2  3  1        0: no value
    below cell 1             1  0  0  0  0  0        a predicate from cell 1 to 2 misses those below 1,
    below cell 2             1  0  1  0  0  1        and those not below 3
    below cell 3             1  0  1  1  0  1

Whether an event surely hits, since its cell lies between the first and the last one, is seen in the same way. The
others are in doubt, where no predicate excludes them: there doubles are compared.

Why it is fast where tiles exclude little: a predicate is compared with 512 events by four loads, and those of its first
and last cell lie side by side. Subscriptions are read in the order of memory, and once for all these events. What is
left are sets of events, turned into sets of subscriptions 64 by 64.

Cost for 512 events: 4 ns a predicate, 40 a subscription to turn what is left, and the rows, 12 a cell of a column.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.algorithms.tiles.kernels.arrays import AT_ONCE, Arrays, Batch
from matchers.algorithms.tiles.kernels.lists import LONG, on_lists
from matchers.algorithms.tiles.kernels.runs_kernel import CANDIDATES, VERIFIED, MatchRuns
from matchers.kernels.jit import inlined, inner
from matchers.kernels.vectors import (
    LANES,
    WORDS,
    both,
    either,
    everything,
    full,
    invert,
    load,
    lowest,
    nothing,
    ones,
    store,
)


@inner
def match_dense(n: int, some: Any, index: Arrays, batch: Batch, runs: MatchRuns, counters: Any) -> None:
    """Match the n events that are laid out against a range of parents. There is room for the sets of all."""
    parent, slot, id_start = index.parent, index.slot, index.id_start
    first, last = int(slot[parent[some[0]]]), int(slot[parent[some[1]]])
    set_event, set_at, used = runs.set_event, runs.set_at, runs.used
    for begin in range(0, n, AT_ONCE):
        events = min(n - begin, AT_ONCE)
        _fill(begin, events, index, batch)
        for u in range(first, last, AT_ONCE):
            end = min(u + AT_ONCE, last)
            _ask_dense(begin, u, end, index, batch, counters)
            at = int(id_start[u])
            if id_start[end] - id_start[u] != end - u:  # some share a slot
                at = -1 - u
            for e in range(events):
                set_event[used[2] + e], set_at[used[2] + e] = begin + e, at
            _turn(events, batch.left, batch.turned, runs.set, used[2] * WORDS)
            used[2] += events


@inlined
def _fill(begin: int, n: int, index: Arrays, batch: Batch) -> None:
    """The rows of all columns, of n events from `begin` on."""
    edge_start, cells, below = index.edge_start, batch.cells, batch.below
    n_events = batch.valid.shape[0] * LANES
    for c in range(index.begin.shape[0]):
        first, end = (edge_start[c] + 2 * c) * WORDS, (edge_start[c + 1] + 2 * (c + 1)) * WORDS
        for w in range(first, end):
            below[w] = np.uint64(0)
        for e in range(n):
            at = first + (np.int64(cells[c * n_events + begin + e]) + 1) * WORDS
            below[at + (e >> 6)] |= np.uint64(1) << np.uint64(e & 63)
        row = nothing()
        for at in range(np.uint64(first), np.uint64(end), np.uint64(WORDS)):
            row = either(row, load(below, at))
            store(row, below, at)


@inlined
def _ask_dense(begin: int, first: int, last: int, index: Arrays, batch: Batch, counters: Any) -> None:
    """Write to `left` which of the events from `begin` on match the slots first .. last, up to 512."""
    start, range_, edge_start = index.start, index.range, index.edge_start
    below, left = batch.below, batch.left
    two, three = np.uint64(2), np.uint64(3)
    words = np.uint64(WORDS)
    invalid = invert(load(batch.valid, np.uint64(begin >> 6)))
    candidates, verified = 0, 0
    for u in range(first, last):
        at = (u - first) * WORDS
        excluded, unsure = invalid, nothing()
        i, end = np.uint64(start[u]), np.uint64(start[u + 1])
        while i < end:
            c = np.uint64(range_[three * i])
            origin = np.uint64(edge_start[c]) + two * c
            missed, doubtful = everything(), everything()
            while i < end and np.uint64(range_[three * i]) == c:
                low = (origin + np.uint64(range_[three * i + np.uint64(1)])) * words
                high = (origin + np.uint64(range_[three * i + two])) * words
                missed = both(missed, either(load(below, low), invert(load(below, high + words))))
                doubtful = both(doubtful, either(load(below, low + words), invert(load(below, high))))
                i += np.uint64(1)
            excluded, unsure = either(excluded, missed), either(unsure, doubtful)
        remaining = invert(excluded)
        store(remaining, left, np.uint64(at))
        for w in range(WORDS):
            candidates += ones(left[at + w])
        certain = either(excluded, invert(unsure))
        if full(certain):
            continue
        store(certain, batch.found, np.uint64(0))
        for w in range(WORDS):
            in_doubt = ~batch.found[w]
            while in_doubt != np.uint64(0):
                e = lowest(in_doubt)
                in_doubt &= in_doubt - np.uint64(1)
                left[at + w] ^= np.uint64(not _verify_dense(u, begin + (w << 6) + int(e), index, batch)) << e
                verified += 1
    for w in range((last - first) * WORDS, AT_ONCE * WORDS):
        left[w] = np.uint64(0)
    counters[CANDIDATES] += candidates
    counters[VERIFIED] += verified


@inlined
def _verify_dense(u: int, e: int, index: Arrays, batch: Batch) -> bool:
    """Compares all doubles, since most hit: there is no branch that could be mispredicted."""
    range_, low, high, values = index.range, index.low, index.high, batch.values
    origin = e * index.begin.shape[0]
    begin, end = index.start[u], index.start[u + 1]
    if end - begin > LONG:
        return on_lists(np.uint64(begin), np.uint64(end), values, np.uint64(origin), range_, low, high)
    hits, columns = 0, 0
    before: Any = -1
    for i in range(begin, end):
        c = np.int64(range_[3 * i])
        value = values[origin + c]
        hits += int((low[i] <= value) & (value <= high[i]))  # at most one in a column
        columns += int(c != before)
        before = c
    return hits == columns


@inlined
def _turn(n: int, left: Any, square: Any, sets: Any, at: int) -> None:
    """Write the sets of n events from `at` on: bit j of set e is bit e of the j-th row of `left`."""
    for w in range((n + 63) >> 6):
        events = min(n - (w << 6), 64)
        for s in range(WORDS):
            some = np.uint64(0)
            for j in range(64):
                square[j] = left[((s << 6) + j) * WORDS + w]
                some |= square[j]
            if some != np.uint64(0):
                _transpose(square)
            for e in range(events):
                sets[at + ((w << 6) + e) * WORDS + s] = square[e]


@inlined
def _transpose(square: Any) -> None:
    """Swap bit i of word j and bit j of word i, of 64 words: halves of the square first, then halves of these."""
    width = np.int64(32)
    mask: Any = np.uint64(0xFFFFFFFF)
    while width > 0:
        shift = np.uint64(width)
        for first in range(0, 64, 2 * width):
            for k in range(first, first + width):
                swapped = ((square[k] >> shift) ^ square[k + width]) & mask
                square[k] ^= swapped << shift
                square[k + width] ^= swapped
        width >>= 1
        mask ^= mask << np.uint64(width)
