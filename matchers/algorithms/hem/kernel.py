"""HEM's matching procedure, block by block: `__init__.py` draws the layout and names the symbols.

Why it is fast: one attribute of one block is asked by all events of a batch before the next, so its sets and pairs (1.2
MB for 65,536 subscriptions, 32 groups and predicates on every other one) come from a cache. A row, an attribute of a
block, costs a single event 0.8 us whatever it marks; so a block has as many as 16 bits number. The sets of both ends
are OR-ed into B in one pass, words side by side without a branch, which the compiler turns into its widest registers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.bitsets import mark, mark_if, unite, unmark, unmarked
from matchers.kernels.cells import cell_of
from matchers.kernels.events import Events
from matchers.kernels.jit import inlined, kernel
from matchers.kernels.rows import Rows, has_several_values, settle


class Domain(NamedTuple):
    """The c cells of each of d attributes, as in `algorithms/cells.py`."""

    begin: Any  # [d] float64
    per_unit: Any  # [d] float64
    c: int


class Pairs(NamedTuple):
    """P predicates by the cell of one of their ends: a cell k owns the pairs start[k] .. start[k + 1]."""

    start: Any  # [cells + 1] int64
    value: Any  # [P] float64: the end
    id: Any  # [P] uint16: the subscription within its block


class Index(NamedTuple):
    """Block b and attribute a are row r = b * d + a of R rows; n places for subscriptions, W words of bits in all."""

    block: int  # subscriptions in a block, a multiple of 64
    c: int  # cells of an attribute, at most
    cells: Any  # [R] int32: c of the row, at most c
    groups: Any  # [R] int32: g of the row; 0: no sets
    first_cell: Any  # [R + 1] int64: a row owns cells first_cell[r] .. first_cell[r + 1]
    first_set: Any  # [R] int64: LVE: B_1 .. B_g, then HVE: B_1 .. B_(g - 1), whose last would be the same as LVE's
    sets: Any  # [sets, block / 64] uint64
    low: Pairs  # at LVE
    high: Pairs  # at HVE
    needed: Any  # [n] int32: predicates of each subscription
    constrained: Any  # [W] uint64: a bit for each place: has predicates
    gone: Any  # [W] uint64: a bit for each place: is free


class Chains(NamedTuple):
    """Predicates inserted after the build (`updates.py`): chains that hang on the cells, in a pool of fixed size Q."""

    rows: Any  # [R] int32: how many each row has
    low: Any  # [Q] float64
    high: Any  # [Q] float64
    id: Any  # [Q] uint16
    next_low: Any  # [Q] int32: the next in the chain; -1: none
    next_high: Any  # [Q] int32
    head_low: Any  # [cells] int32: first in the chain of a cell; [0] where there is no room for predicates
    head_high: Any  # [cells] int32


class Located(NamedTuple):
    """The V values of some events by attribute: a has begins[a] .. begins[a + 1], one of each event that has it.

    Of several values of one event only the least and the greatest matter. Events count from the first of them.
    """

    begins: Any  # [d + 1] int64
    event: Any  # [V] int32
    least: Any  # [V] float64
    greatest: Any  # [V] float64
    least_cell: Any  # [V] int64
    greatest_cell: Any  # [V] int64


@kernel
def locate(first_event: int, last_event: int, events: Events, domain: Domain) -> Located:
    offsets, column, value = events
    begin, per_unit, c = domain
    d = begin.shape[0]
    room = offsets[last_event] - offsets[first_event]
    begins, event = np.zeros(d + 1, np.int64), np.empty(room, np.int32)
    least, greatest = np.empty(room), np.empty(room)
    least_cell, greatest_cell = np.empty(room, np.int64), np.empty(room, np.int64)
    for step in (0, 1):  # how many each attribute has, then which
        for e in range(first_event, last_event):
            before = -1
            for i in range(offsets[e], offsets[e + 1]):
                a = column[i]
                if a >= d:  # the batch may know more attributes than the table
                    break
                if step == 0:
                    begins[a + 1] += a != before
                elif a != before:
                    k = begins[a]
                    begins[a] += 1
                    event[k] = e - first_event
                    least[k] = value[i]
                    greatest[k] = value[i]
                else:
                    k = begins[a] - 1
                    least[k] = min(least[k], value[i])
                    greatest[k] = max(greatest[k], value[i])
                before = a
        if step == 0:
            for a in range(d):
                begins[a + 1] += begins[a]
        else:
            for a in range(d, 0, -1):
                begins[a] = begins[a - 1]
            begins[0] = 0
    for a in range(d):
        for k in range(begins[a], begins[a + 1]):
            least_cell[k] = cell_of(least[k], begin[a], per_unit[a], c)
            greatest_cell[k] = cell_of(greatest[k], begin[a], per_unit[a], c)
    return Located(begins, event, least, greatest, least_cell, greatest_cell)


@kernel
def cell(value: float, begin: float, per_unit: float, c: int) -> int:
    return cell_of(value, begin, per_unit, c)


@kernel
def cells(value: Any, at: Any, begin: Any, per_unit: Any, c: int) -> Any:
    """The cell of each value on its attribute."""
    found = np.empty(value.shape[0], np.int32)
    for i in range(value.shape[0]):
        found[i] = cell_of(value[i], begin[at[i]], per_unit[at[i]], c)
    return found


@inlined
def group_below(x: int, c: int, g: int) -> int:
    """The largest i < g for which i of g groups, i * c // g cells, lie within x cells; x < c."""
    return ((x + 1) * g - 1) // c


@kernel
def mark_mismatches(
    first_event: int, n_events: int, events: Events, domain: Domain, index: Index, chains: Chains, marks: Any
) -> None:
    """Algorithm 2 but its last line, for all events and blocks: marks[b, e] is B of the event in the block."""
    offsets, e_column, _ = events
    begins, event, least, greatest, least_cell, greatest_cell = locate(
        first_event, first_event + n_events, events, domain
    )
    block, c, cells, groups, first_cell, first_set, sets, lows, highs, _, constrained, gone = index
    low_start, low, low_id = lows
    high_start, high, high_id = highs
    later, later_low, later_high, later_id, next_low, next_high, head_low, head_high = chains
    words = marks.shape[2]
    d = begins.shape[0] - 1
    lacking = np.empty(n_events, np.int64)  # attributes of the block that an event lacks; 0 also where it was counted
    touched = np.empty(n_events, np.int64)  # predicates on those it has
    has = np.full(n_events, -1, np.int64)  # the last attribute that an event was found to have
    counted = np.zeros(block, np.int32)
    for b in range(marks.shape[0]):
        base = b * d
        used = 0
        touched[:] = 0
        lacking[:] = 0
        for a in range(d):
            r = base + a
            if cells[r] > 0:
                used += 1
                predicates = low_start[first_cell[r + 1]] - low_start[first_cell[r]] + later[r]
                for k in range(begins[a], begins[a + 1]):
                    lacking[event[k]] -= 1
                    touched[event[k]] += predicates
        some_lack = False
        for e in range(n_events):
            bits = marks[b, e]
            lacking[e] += used
            if lacking[e] * words <= 2 * touched[e] + words:
                bits[:] = gone[b * words : (b + 1) * words]
                some_lack |= lacking[e] > 0
                continue
            lacking[e] = 0
            bits[:] = constrained[b * words : (b + 1) * words]
            begin, end = offsets[first_event + e], offsets[first_event + e + 1]
            count_present(begin, end, e_column, d, b, index, chains, counted, bits)
            for w in range(words):
                bits[w] |= gone[b * words + w]
        has[:] = -1
        for a in range(d):
            r = base + a
            n_cells = cells[r]
            if n_cells == 0:
                continue
            g = groups[r]
            origin = first_cell[r]
            for k in range(begins[a], begins[a + 1]):
                has[event[k]] = a
                bits = marks[b, event[k]]

                # LVE: low values above the greatest value; HVE: high values below the least
                low_cell = greatest_cell[k] * n_cells // c
                high_cell = least_cell[k] * n_cells // c
                low_end = origin + n_cells
                high_begin = origin
                if g > 0:
                    i = group_below(n_cells - 1 - low_cell, n_cells, g)
                    j = group_below(high_cell, n_cells, g)
                    low_end -= i * n_cells // g
                    high_begin += j * n_cells // g
                    if i > 0 and j > 0:
                        unite_two(bits, sets[first_set[r] + i - 1], sets[first_set[r] + g + j - 1])
                    elif i > 0:
                        unite(bits, sets[first_set[r] + i - 1])
                    elif j > 0:
                        unite(bits, sets[first_set[r] + g + j - 1])
                low_cell += origin
                high_cell += origin
                v = greatest[k]
                for p in range(low_start[low_cell], low_start[low_cell + 1]):
                    mark_if(bits, low_id[p], low[p] > v)
                for p in range(low_start[low_cell + 1], low_start[low_end]):
                    mark(bits, low_id[p])
                v = least[k]
                for p in range(high_start[high_begin], high_start[high_cell]):
                    mark(bits, high_id[p])
                for p in range(high_start[high_cell], high_start[high_cell + 1]):
                    mark_if(bits, high_id[p], high[p] < v)
                if later[r] > 0:
                    p = head_low[low_cell]
                    while p >= 0:
                        if later_low[p] > greatest[k]:
                            mark(bits, later_id[p])
                        p = next_low[p]
                    for cell in range(low_cell + 1, low_end):
                        mark_chain(bits, head_low[cell], next_low, later_id)
                    p = head_high[high_cell]
                    while p >= 0:
                        if later_high[p] < least[k]:
                            mark(bits, later_id[p])
                        p = next_high[p]
                    for cell in range(high_begin, high_cell):
                        mark_chain(bits, head_high[cell], next_high, later_id)
            if not some_lack:
                continue
            for e in range(n_events):  # line 8
                if lacking[e] == 0 or has[e] == a:
                    continue
                bits = marks[b, e]
                if g > 0:
                    unite(bits, sets[first_set[r] + g - 1])
                else:
                    for p in range(low_start[origin], low_start[origin + n_cells]):
                        mark(bits, low_id[p])
                    if later[r] > 0:
                        for cell in range(origin, origin + n_cells):
                            mark_chain(bits, head_low[cell], next_low, later_id)


@kernel
def unite_two(bits: Any, one: Any, two: Any) -> None:
    """Both ends in one pass: B is loaded and stored once."""
    for w in range(bits.shape[0]):
        bits[w] |= one[w] | two[w]


@kernel
def count_present(
    begin: int, end: int, e_column: Any, d: int, b: int, index: Index, chains: Chains, counted: Any, bits: Any
) -> None:
    """Unmark the subscriptions of block b of which an event has all attributes."""
    first_cell, low_start, low_id, needed = index.first_cell, index.low.start, index.low.id, index.needed
    later, later_id, next_low, head_low = chains.rows, chains.id, chains.next_low, chains.head_low
    first, base = b * index.block, b * d
    for step in (1, 0):
        before = -1
        for i in range(begin, end):
            a = e_column[i]
            if a >= d:
                break
            if a == before:
                continue
            before = a
            r = base + a
            for p in range(low_start[first_cell[r]], low_start[first_cell[r + 1]]):
                count(step, low_id[p], needed[first + low_id[p]], counted, bits)
            if later[r] > 0:
                for cell in range(first_cell[r], first_cell[r + 1]):
                    p = head_low[cell]
                    while p >= 0:
                        count(step, later_id[p], needed[first + later_id[p]], counted, bits)
                        p = next_low[p]


@kernel
def mark_chain(bits: Any, i: int, following: Any, ids: Any) -> None:
    while i >= 0:
        mark(bits, ids[i])
        i = following[i]


@kernel
def count(step: int, s: int, needed: int, counted: Any, bits: Any) -> None:
    """Step 1: one more attribute of s is there; with the last one s is no mismatch. Step 0: forget it again."""
    counted[s] = (counted[s] + 1) * step
    if step == 1 and counted[s] == needed:
        unmark(bits, s)


@kernel
def insert(
    r: int, s: int, low: float, high: float, low_cell: int, high_cell: int, i: int, index: Index, chains: Chains
) -> None:
    """Algorithm 1 for one predicate of subscription s of a block, as the i-th that came after the build."""
    later, later_low, later_high, later_id, next_low, next_high, head_low, head_high = chains
    first_cell = index.first_cell
    later[r] += 1
    later_low[i] = low
    later_high[i] = high
    later_id[i] = s
    next_low[i] = head_low[first_cell[r] + low_cell]
    head_low[first_cell[r] + low_cell] = i
    next_high[i] = head_high[first_cell[r] + high_cell]
    head_high[first_cell[r] + high_cell] = i
    mark_groups(s, low_cell, high_cell, index.cells[r], index.groups[r], index.first_set[r], index.sets)


@kernel
def mark_groups(s: int, low_cell: int, high_cell: int, c: int, g: int, first: int, sets: Any) -> None:
    """Mark s in the sets of all groups that cover its cells."""
    for i in range(g, 0, -1):
        if low_cell < c - i * c // g:
            break
        mark(sets[first + i - 1], s)
    for i in range(g - 1, 0, -1):
        if high_cell >= i * c // g:
            break
        mark(sets[first + g + i - 1], s)


@kernel
def fill_sets(index: Index) -> None:
    """The sets of all rows: each is marked from the cells that its group adds to the one before, which it contains."""
    cells, groups, first_cell, first_set, sets = (
        index.cells,
        index.groups,
        index.first_cell,
        index.first_set,
        index.sets,
    )
    low_start, low_id = index.low.start, index.low.id
    high_start, high_id = index.high.start, index.high.id
    for r in range(cells.shape[0]):
        c, g = cells[r], groups[r]
        for i in range(1, g + 1):
            own = sets[first_set[r] + i - 1]
            if i > 1:
                own[:] = sets[first_set[r] + i - 2]
            begin = first_cell[r] + c - i * c // g
            end = first_cell[r] + c - (i - 1) * c // g
            for j in range(low_start[begin], low_start[end]):
                mark(own, low_id[j])
        for i in range(1, g):
            own = sets[first_set[r] + g + i - 1]
            if i > 1:
                own[:] = sets[first_set[r] + g + i - 2]
            for j in range(high_start[first_cell[r] + (i - 1) * c // g], high_start[first_cell[r] + i * c // g]):
                mark(own, high_id[j])


@kernel
def sort_pairs(cell: Any, value: Any, s: Any, pairs: Pairs) -> None:
    """Counting sort of (value, id) by cell; `pairs.start` is all zero before."""
    start, values, ids = pairs
    for p in range(cell.shape[0]):
        start[cell[p] + 1] += 1
    for k in range(start.shape[0] - 1):
        start[k + 1] += start[k]
    for p in range(cell.shape[0] - 1, -1, -1):  # start[k + 1] moves from the end of cell k to its begin
        k = cell[p] + 1
        start[k] -= 1
        values[start[k]] = value[p]
        ids[start[k]] = s[p]
    for k in range(1, start.shape[0] - 1):
        start[k] = start[k + 1]
    start[start.shape[0] - 1] = cell.shape[0]


@kernel
def list_unmarked(
    event: int,
    last_event: int,
    first_event: int,
    events: Events,
    d: int,
    block: int,
    marks: Any,
    rows: Rows,
    out: Any,
    counts: Any,
) -> int:
    """Line 9: the unmarked subscriptions of the events; those that the marks do not decide are verified."""
    offsets, e_column, _ = events
    n, any_several = rows.start.shape[0] - 1, rows.any_several
    first = np.zeros(d, np.int64)
    last = np.zeros(d, np.int64)
    m = 0
    while event < last_event and out.shape[0] - m >= n:
        before = m
        for b in range(marks.shape[0]):
            m = unmarked(marks[b, event - first_event], min(block, n - b * block), out, m, b * block)
        arrays = has_several_values(e_column, offsets[event], offsets[event + 1], d)
        if arrays or any_several:
            m = settle(events, event, arrays, rows, out, before, m, first, last)
        counts[event - first_event] = m - before
        event += 1
    return event
