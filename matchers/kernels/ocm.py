"""Filter selection, constraint selection, constraint evaluation and counting: PCM, sec. 3 and 3.2, for one thread.

    event {0, 2, 5}    NV_e = 100101    tables 000001, 000101, 100100 ... are within it, 000010 is not

A table's counters (FiltersCount) lie side by side and are as few as its filters, so they are cleared table by table and
stay in the nearest cache. Counting has no branch; who is satisfied is read off the counters when a table is done, and
only where some constraint passed the Bloom filter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.jit import inlined, kernel
from matchers.kernels.rows import clear, lay_out

_OUT = 1  # an operator, as in matchers/name_vectors.py
_ONE = np.uint64(1)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@kernel
def index(vector: Any, slots: Any, shift: np.uint64) -> None:
    """Fill a hash table of 2^(64 - shift) slots: a NameVector's table, from 1; 0 is a free slot."""
    mask = slots.shape[0] - 1
    for t in range(vector.shape[0]):
        at = np.int64((vector[t] * _GOLDEN) >> shift)
        while slots[at] != 0:
            at = (at + 1) & mask
        slots[at] = t + 1


@inlined
def _find(wanted: np.uint64, vector: Any, slots: Any, shift: np.uint64) -> int:
    """The table of a NameVector, or -1."""
    at = np.int64((wanted * _GOLDEN) >> shift)
    while slots[at] != 0 and vector[slots[at] - 1] != wanted:
        at = (at + 1) & (slots.shape[0] - 1)
    return int(slots[at]) - 1


@inlined
def _bits(word: np.uint64) -> int:
    n = 0
    while word != np.uint64(0):
        word &= word - _ONE
        n += 1
    return n


@kernel
def fewest_bits(vector: Any) -> int:
    fewest = 64
    for t in range(vector.shape[0]):
        fewest = min(fewest, _bits(vector[t]))
    return fewest


@kernel
def _select(
    nv: np.uint64,
    fewest: int,
    vector: Any,
    slots: Any,
    shift: np.uint64,
    first: int,
    last: int,
    selected: Any,
) -> int:
    """Filter selection: the tables whose NameVector is within nv. All vectors within it that have the `fewest` bits of
    a table or more are looked up where these are not many; else all tables are looked at."""
    n = 0
    if _bits(nv) < 30 and (1 << _bits(nv)) * 8 < vector.shape[0]:  # a slot is a miss of the cache, a look is not
        within = nv
        while True:
            if _bits(within) >= fewest:
                t = _find(within, vector, slots, shift)
                if first <= t < last:
                    selected[n] = t
                    n += 1
            if within == np.uint64(0):
                break
            within = (within - _ONE) & nv
        return n
    for t in range(first, last):
        selected[n] = t
        n += vector[t] & ~nv == np.uint64(0)
    return n


@inlined
def _evaluate(
    begin: int,
    end: int,
    names: np.uint64,
    operator: Any,
    low: Any,
    high: Any,
    rank: Any,
    bloom: Any,
    e_value: Any,
    at: int,
    stop: int,
    filters_count: Any,
) -> bool:
    """Constraints that an interval decides. Says whether one of them passed the Bloom filter."""
    passed = False
    if stop == at + 1:
        value = e_value[at]
        for k in range(begin, end):
            if bloom[k] & ~names == np.uint64(0):
                passed = True
                filters_count[rank[k]] += ((low[k] <= value) & (value <= high[k])) ^ (operator[k] == _OUT)
        begin = end
    for k in range(begin, end):
        if bloom[k] & ~names == np.uint64(0):
            passed = True
            hit = False
            for j in range(at, stop):
                hit |= ((low[k] <= e_value[j]) & (e_value[j] <= high[k])) ^ (operator[k] == _OUT)
            filters_count[rank[k]] += hit
    return passed


@kernel
def _evaluate_several(
    begin: int,
    end: int,
    names: np.uint64,
    low: Any,
    high: Any,
    rank: Any,
    bloom: Any,
    interval_low: Any,
    interval_high: Any,
    e_value: Any,
    at: int,
    stop: int,
    filters_count: Any,
) -> bool:
    """Those that several intervals decide: a loop of its own, without which the one above is five times as fast."""
    passed = False
    for k in range(begin, end):
        if bloom[k] & ~names == np.uint64(0):
            passed = True
            hit = False
            for i in range(int(low[k]), int(high[k])):
                for j in range(at, stop):
                    hit |= interval_low[i] <= e_value[j] <= interval_high[i]
            filters_count[rank[k]] += hit
    return passed


@kernel
def ocm(
    event: int,
    offsets: Any,
    e_column: Any,
    e_value: Any,
    n_columns: int,
    bits: int,
    bloom_of: Any,
    fewest: int,
    vector: Any,
    slots: Any,
    shift: np.uint64,
    first_table: int,
    last_table: int,
    filter_begin: Any,
    filter_id: Any,
    size: Any,
    row_begin: Any,
    row_name: Any,
    constraint_begin: Any,
    several_begin: Any,
    operator: Any,
    low: Any,
    high: Any,
    rank: Any,
    bloom: Any,
    interval_low: Any,
    interval_high: Any,
    most: int,
    interface: Any,
    asked: int,
    out: Any,
    counts: Any,
) -> int:
    """With interfaces it lists these; without, `interface` is empty. `most` filters a table has, `asked` an event."""
    first = np.zeros(n_columns, np.int64)
    last = np.zeros(n_columns, np.int64)
    selected = np.empty(last_table - first_table + 1, np.int64)
    filters_count = np.zeros(most, np.int32)
    settled = np.full(asked if interface.shape[0] > 0 else 0, -1, np.int64)
    m = 0
    while event < offsets.shape[0] - 1 and out.shape[0] - m >= asked:
        begin, end = offsets[event], offsets[event + 1]
        lay_out(e_column, begin, end, first, last)
        nv = np.uint64(0)
        names = np.uint64(0)
        for k in range(begin, end):
            if e_column[k] < n_columns:
                nv |= _ONE << np.uint64(e_column[k] % bits)
                names |= bloom_of[e_column[k]]
        before = m
        for i in range(_select(nv, fewest, vector, slots, shift, first_table, last_table, selected)):
            t = selected[i]
            origin = filter_begin[t]
            filters_count[: filter_begin[t + 1] - origin] = 0
            counted = size[origin] == 0  # filters without constraints are a table of their own
            for row in range(row_begin[t], row_begin[t + 1]):
                at, stop = first[row_name[row]], last[row_name[row]]
                if stop == 0:
                    continue
                simple, several, end_of_row = constraint_begin[row], several_begin[row], constraint_begin[row + 1]
                counted |= _evaluate(
                    simple, several, names, operator, low, high, rank, bloom, e_value, at, stop, filters_count
                )
                if several < end_of_row:
                    counted |= _evaluate_several(
                        several,
                        end_of_row,
                        names,
                        low,
                        high,
                        rank,
                        bloom,
                        interval_low,
                        interval_high,
                        e_value,
                        at,
                        stop,
                        filters_count,
                    )
            if not counted:
                continue
            for f in range(filter_begin[t + 1] - origin):
                if filters_count[f] == size[origin + f]:
                    found = filter_id[origin + f]
                    if interface.shape[0] > 0:
                        found = interface[found]
                        if settled[found] == event:
                            continue
                        settled[found] = event
                    out[m] = found
                    m += 1
        out[before:m].sort()
        counts[event] = m - before
        clear(e_column, begin, end, first, last)
        event += 1
    return event
