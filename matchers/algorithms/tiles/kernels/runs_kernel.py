"""Collect matches as they are found, and arrange them by event."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.jit import borrower, inlined, inner, kernel
from matchers.kernels.vectors import WORDS, lowest, ones

RUN = 32  # matches that are sorted by insertion

TILES, PASSED, ROWS, CANDIDATES, VERIFIED = range(5)  # counters


class MatchRuns(NamedTuple):
    """Matches as they are found: run r is of event event[r], its subscriptions at id[begin[r]] up to the next.

    In a precise tile they are sets instead; there is room for one of each event and such a tile.
    """

    event: Any  # int32
    begin: Any  # int64
    id: Any  # int32
    set_event: Any  # int32: set r is of event set_event[r], its bits from 8 * r on,
    set_at: Any  # int64: of which bit j is the subscription at set_at[r] + j of the index's `id`; if some share a slot
    #              it is below 0, and bit j is all those of slot j - 1 - set_at[r]
    set: Any  # uint64
    used: Any  # [3] int64: runs, ids, sets


@borrower
def count_matches(runs: MatchRuns, id_start: Any, offsets: Any) -> None:
    """Fill the offsets[N + 1] of a MatchBatch, which are 0."""
    event, begin, n, m = runs.event, runs.begin, runs.used[0], runs.used[1]
    sets, set_event, set_at = runs.set, runs.set_event, runs.set_at
    for r in range(n):
        offsets[event[r] + 1] += (begin[r + 1] if r + 1 < n else m) - begin[r]
    for r in range(runs.used[2]):
        count = 0
        for w in range(WORDS):
            word = sets[r * WORDS + w]
            if set_at[r] >= 0:
                count += ones(word)
                continue
            while word != np.uint64(0):
                u = (w << 6) + np.int64(lowest(word)) - 1 - set_at[r]
                count += id_start[u + 1] - id_start[u]
                word &= word - np.uint64(1)
        offsets[set_event[r] + 1] += count
    for e in range(offsets.shape[0] - 1):
        offsets[e + 1] += offsets[e]


@kernel
def arrange(runs: MatchRuns, ids: Any, id_start: Any, n_ids: int, offsets: Any, out: Any) -> None:
    """Turn runs and sets into the subscriptions of a MatchBatch with these offsets."""
    event, begin, id, n, m = runs.event, runs.begin, runs.id, runs.used[0], runs.used[1]
    sets, set_event, set_at, n_sets = runs.set, runs.set_event, runs.set_at, runs.used[2]
    at = offsets[:-1].copy()
    for r in range(n_sets):
        to = at[set_event[r]]
        for w in range(WORDS):
            word = sets[r * WORDS + w]
            if set_at[r] >= 0:
                first = set_at[r] + (w << 6)
                while word != np.uint64(0):
                    out[to] = ids[first + np.int64(lowest(word))]
                    to += 1
                    word &= word - np.uint64(1)
            while word != np.uint64(0):
                u = (w << 6) + np.int64(lowest(word)) - 1 - set_at[r]
                for k in range(id_start[u], id_start[u + 1]):
                    out[to] = ids[k]
                    to += 1
                word &= word - np.uint64(1)
        at[set_event[r]] = to
    for r in range(n):
        to = at[event[r]]
        for i in range(begin[r], begin[r + 1] if r + 1 < n else m):
            out[to] = id[i]
            to += 1
        at[event[r]] = to
    sort_each(offsets, n_ids, out)


@inlined
def sort_each(offsets: Any, n_ids: int, out: Any) -> None:
    """Sort the different numbers below n_ids at each offsets[e] .. offsets[e + 1], whose first are often ascending."""
    bits = np.zeros(0, np.uint64)
    spare = np.empty(0, np.int32)
    for e in range(offsets.shape[0] - 1):
        b, end = offsets[e], offsets[e + 1]
        sorted_end = b + 1
        while sorted_end < end and out[sorted_end] > out[sorted_end - 1]:
            sorted_end += 1
        if sorted_end >= end:
            continue
        if sorted_end - b < end - sorted_end:
            sorted_end = b
        left = end - sorted_end
        if spare.shape[0] < left:
            spare = np.empty(left, np.int32)
        if left <= 48 or left * 2048 < n_ids:
            _sort(out, sorted_end, end, spare)
        else:
            if bits.shape[0] == 0:
                bits = np.zeros((n_ids + 63) >> 6, np.uint64)
            _by_bits(out, sorted_end, end, bits)
        if sorted_end > b:
            _merge(out, b, sorted_end, end, spare)


@inlined
def _sort(out: Any, begin: int, end: int, spare: Any) -> None:
    """Sort runs by insertion and merge them: as fast as the sort of numba, which takes a second to compile."""
    for run in range(begin, end, RUN):
        for i in range(run + 1, min(run + RUN, end)):
            x = out[i]
            j = i
            while j > run and out[j - 1] > x:
                out[j] = out[j - 1]
                j -= 1
            out[j] = x
    width = RUN
    while width < end - begin:
        for run in range(begin, end - width, 2 * width):
            _merge(out, run, run + width, min(run + 2 * width, end), spare)
        width *= 2


@inner
def _by_bits(out: Any, begin: int, end: int, bits: Any) -> None:
    """Sort different numbers by marking them in a map of all, which must be empty and is left so."""
    for i in range(begin, end):
        x = np.uint64(out[i])
        bits[x >> np.uint64(6)] |= np.uint64(1) << (x & np.uint64(63))
    m = begin
    for w in range(bits.shape[0]):
        word = bits[w]
        bits[w] = np.uint64(0)
        while word != np.uint64(0):
            out[m] = (w << 6) + np.int64(lowest(word))
            m += 1
            word &= word - np.uint64(1)


@inner
def _merge(out: Any, begin: int, middle: int, end: int, spare: Any) -> None:
    """Merge two ascending parts from the back, the second one from a copy."""
    n = end - middle
    for i in range(n):
        spare[i] = out[middle + i]
    i, j = middle - 1, n - 1
    for m in range(end - 1, begin - 1, -1):
        if j < 0:
            break
        if i >= begin and out[i] > spare[j]:
            out[m] = out[i]
            i -= 1
        else:
            out[m] = spare[j]
            j -= 1
