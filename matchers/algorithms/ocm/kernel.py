"""Filter selection, constraint selection, constraint evaluation and counting: PCM, sec. 3 and 3.2, for one thread.

    event {0, 2, 5}    NV_e = 100101    tables 000001, 000101, 100100 ... are within it, 000010 is not

A table's counters (FiltersCount) lie side by side and are as few as its filters, so they are cleared table by table and
stay in the nearest cache. Counting has no branch; who is satisfied is read off the counters when a table is done, and
only where some constraint passed the Bloom filter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.events import Events
from matchers.kernels.jit import inlined, inner, kernel
from matchers.kernels.lanes import (
    LANES,
    begin_lines,
    below,
    forget_values,
    room_for_lanes,
    sort_values,
    sum_rows,
    unmark_complete,
    up_to,
    words_for,
)
from matchers.kernels.rows import clear, lay_out

_OUT = 1  # an operator, as in algorithms/name_vectors.py
_ONE = np.uint64(1)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Names(NamedTuple):
    """The names by which T tables are selected for an event, of A columns."""

    bits: int  # of a NameVector
    bloom_of: Any  # [A] uint64: the Bloom filter of a column's name
    fewest: int  # bits of a table's NameVector
    vector: Any  # [T] uint64
    slots: Any  # [2^(64 - shift)] int32: the tables by NameVector, see `index`
    shift: np.uint64


class Tables(NamedTuple):
    """Filters, rows and constraints of T tables, as in `algorithms/name_vectors.py`: R rows, a name each, S filters."""

    filter_begin: Any  # [T + 1] int64: table t owns filters filter_begin[t] .. filter_begin[t + 1]
    filter_id: Any  # [S] int32
    size: Any  # [S] int32: constraints of a filter
    row_begin: Any  # [T + 1] int64
    row_name: Any  # [R] int32
    constraint_begin: Any  # [R + 1] int64
    several_begin: Any  # [R] int64: the first of a row's constraints that several intervals decide
    most: int  # filters of a table


class Constraints(NamedTuple):
    """P constraints and the I intervals of those that have several."""

    operator: Any  # [P] uint8: ConstrOp
    low: Any  # [P] float64; of several intervals: the first
    high: Any  # [P] float64; of several intervals: the end
    rank: Any  # [P] int32: the filter within its table
    bloom: Any  # [P] uint64
    interval_low: Any  # [I] float64
    interval_high: Any  # [I] float64


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


@inner
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
    constraints: Constraints,
    e_value: Any,
    at: int,
    stop: int,
    filters_count: Any,
) -> bool:
    """Evaluate constraints that one interval decides. Returns whether one of them passed the Bloom filter."""
    operator, low, high, rank, bloom, _, _ = constraints
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


@inner
def _evaluate_several(
    begin: int,
    end: int,
    names: np.uint64,
    constraints: Constraints,
    e_value: Any,
    at: int,
    stop: int,
    filters_count: Any,
) -> bool:
    """Evaluate constraints that several intervals decide. `_evaluate` is five times as fast without this loop."""
    _, low, high, rank, bloom, interval_low, interval_high = constraints
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
    events: Events,
    names_of: Names,
    tables: Tables,
    constraints: Constraints,
    share: tuple[int, int],
    interface: Any,
    most_listed: int,
    out: Any,
    counts: Any,
) -> int:
    """List the filters of the tables share[0] .. share[1] that match, or the interfaces behind which one does.

    interface: [S] int32, of each filter; [0] where filters are listed. An event lists `most_listed` at most.
    """
    offsets, e_column, e_value = events
    bits, bloom_of, fewest, vector, slots, shift = names_of
    filter_begin, filter_id, size, row_begin, row_name, constraint_begin, several_begin, most = tables
    first_table, last_table = share
    n_columns = bloom_of.shape[0]
    first = np.zeros(n_columns, np.int64)
    last = np.zeros(n_columns, np.int64)
    selected = np.empty(last_table - first_table + 1, np.int64)
    filters_count = np.zeros(most, np.int32)
    settled = np.full(most_listed if interface.shape[0] > 0 else 0, -1, np.int64)
    m = 0
    while event < offsets.shape[0] - 1 and out.shape[0] - m >= most_listed:
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
                counted |= _evaluate(simple, several, names, constraints, e_value, at, stop, filters_count)
                if several < end_of_row:
                    counted |= _evaluate_several(
                        several, end_of_row, names, constraints, e_value, at, stop, filters_count
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


@inner
def _count_row(
    begin: int, end: int, names: np.uint64, constraints: Constraints, values: Any, n: int, sums: Any, left: Any
) -> None:
    """Count constraints that one interval decides, for the events of a name's n values (`kernels/lanes.py`)."""
    operator, low, high, rank, bloom, _, _ = constraints
    for k in range(begin, end):
        if bloom[k] & ~names == np.uint64(0):
            i, j = min(below(values, low[k]), n), min(up_to(values, high[k]), n)
            f = np.uint32(rank[k])
            if operator[k] == _OUT:
                for w in range(left.shape[1]):
                    left[f, w] -= sums[n, w] - (sums[j, w] - sums[i, w])
            else:
                for w in range(left.shape[1]):
                    left[f, w] -= sums[max(i, j), w] - sums[i, w]


@inner
def _count_several(
    begin: int, end: int, names: np.uint64, constraints: Constraints, values: Any, n: int, sums: Any, left: Any
) -> None:
    """Count constraints that several disjoint intervals decide, like `_count_row`."""
    _, low, high, rank, bloom, interval_low, interval_high = constraints
    for k in range(begin, end):
        if bloom[k] & ~names == np.uint64(0):
            f = np.uint32(rank[k])
            for of in range(int(low[k]), int(high[k])):
                i, j = min(below(values, interval_low[of]), n), min(up_to(values, interval_high[of]), n)
                for w in range(left.shape[1]):
                    left[f, w] -= sums[max(i, j), w] - sums[i, w]


@inner
def _covers_some(vector: np.uint64, name_vectors: Any) -> bool:
    for nv in name_vectors:  # noqa: SIM110 - a loop that is compiled
        if vector & ~nv == np.uint64(0):
            return True
    return False


@kernel
def ocm_in_lanes(
    base: int, events: Events, names_of: Names, tables: Tables, constraints: Constraints, bits: Any
) -> None:
    """Match the events of a chunk, none with arrays, 64 at a time: bits[e] are those of event base + e.

    A table is gone through once if some event selects it. The others in the lanes lack a name of all its filters.
    """
    offsets, e_column, _ = events
    n_bits, bloom_of, _, vector, _, _ = names_of
    filter_begin, filter_id, size, row_begin, row_name, constraint_begin, several_begin, most = tables
    n_columns, n_events = bloom_of.shape[0], bits.shape[0]
    lanes = room_for_lanes(n_columns, LANES * n_columns)
    lines = np.empty(most * (LANES // 8), np.uint64)
    all_sums = np.empty(n_columns * (LANES + 1) * (LANES // 8), np.uint64)
    all_values = np.empty((n_columns, LANES), np.float64)
    n_values = np.zeros(n_columns, np.int64)
    name_vectors = np.empty(LANES, np.uint64)
    for at in range(0, n_events, LANES):
        events_in = np.arange(base + at, base + min(at + LANES, n_events))
        words = words_for(events_in.shape[0])
        sums = all_sums[: n_columns * (LANES + 1) * words].reshape(n_columns, LANES + 1, words)
        names = np.uint64(0)
        for of in range(events_in.shape[0]):
            nv = np.uint64(0)
            for i in range(offsets[events_in[of]], offsets[events_in[of] + 1]):
                if e_column[i] < n_columns:
                    nv |= _ONE << np.uint64(e_column[i] % n_bits)
                    names |= bloom_of[e_column[i]]
            name_vectors[of] = nv
        n = sort_values(events_in, events, lanes)
        n_values[:] = 0
        for k in range(n):
            c = lanes.columns[k]
            n_values[c] = sum_rows(lanes, c, all_values[c], sums[c])
        for t in range(vector.shape[0]):
            if not _covers_some(vector[t], name_vectors[: events_in.shape[0]]):
                continue
            origin, filters = filter_begin[t], filter_begin[t + 1] - filter_begin[t]
            left = lines[: filters * words].reshape(filters, words)
            begin_lines(size, origin, origin + filters, left)
            for row in range(row_begin[t], row_begin[t + 1]):
                c = row_name[row]
                if n_values[c] == 0:
                    continue
                simple, several, end = constraint_begin[row], several_begin[row], constraint_begin[row + 1]
                _count_row(simple, several, names, constraints, all_values[c], n_values[c], sums[c], left)
                if several < end:
                    _count_several(several, end, names, constraints, all_values[c], n_values[c], sums[c], left)
            unmark_complete(left, filters, origin, filter_id, events_in, base, bits)
        forget_values(n, lanes)
