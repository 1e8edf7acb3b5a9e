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

_OUT, _SEVERAL = 1, 2  # operators, as in matchers/name_vectors.py
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
    nv: np.uint64, fewest: int, vector: Any, slots: Any, shift: np.uint64, first: int, last: int, selected: Any
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
def _satisfied(operator: int, low: float, high: float, value: float, interval_low: Any, interval_high: Any) -> bool:
    if operator != _SEVERAL:
        return ((low <= value) & (value <= high)) ^ (operator == _OUT)
    hit = False
    for i in range(int(low), int(high)):
        hit |= interval_low[i] <= value <= interval_high[i]
    return hit


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
                value = e_value[at]
                for k in range(constraint_begin[row], constraint_begin[row + 1]):
                    if bloom[k] & ~names != np.uint64(0):
                        continue
                    counted = True
                    hit = _satisfied(operator[k], low[k], high[k], value, interval_low, interval_high)
                    for j in range(at + 1, stop):
                        hit |= _satisfied(operator[k], low[k], high[k], e_value[j], interval_low, interval_high)
                    filters_count[rank[k]] += hit
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
