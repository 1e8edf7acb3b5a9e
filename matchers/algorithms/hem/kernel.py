"""HEM's matching procedure, block by block: `__init__.py` draws the layout and names the symbols.

Why it is fast: all events of a batch visit one attribute of one block before the next, so its sets and pairs (0.9
MB for 65,536 subscriptions, 32 groups and predicates on every other one) come from a cache. A row is an attribute of a
block. The loops over rows take words from flat arrays, not from views of sets: a view counts references, which took
longer than the OR of 8 KB. An OR is without a branch, and the compiler turns it into its widest registers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.bitsets import mark, mark_if, unite, unmark, unmarked
from matchers.kernels.cells import cell_of
from matchers.kernels.events import Events
from matchers.kernels.jit import inlined, kernel
from matchers.kernels.rows import Rows, has_several_values, settle
from matchers.kernels.vectors import ones

COMPARE, UNITE, MARK = 1, 2, 4  # steps of Algorithm 2: line 4, lines 6 and 8, line 7
ALL = COMPARE | UNITE | MARK
FEW = 64  # subscriptions of a block that the sets may leave to be checked
PREDICATES_A_CHECK = 1 << 14  # on an event's attributes: lines 4 and 7 take as long for so many as a check takes


class Domain(NamedTuple):
    """The cells of d attributes: N nodes, of which node a is all of attribute a (`cells.py`)."""

    c: Any  # [d] int32: leaves of each attribute
    begin: Any  # [N] float64, as in `algorithms/cells.py`
    per_unit: Any  # [N] float64
    cells: Any  # [N] int32: cells of the node
    leaf: Any  # [N] int32: its first leaf
    first: Any  # [N] int64: where its cells begin in `child`; -1 if all are leaves
    child: Any  # int32: the node into which a cell is divided, or -1 - its leaf


class Pairs(NamedTuple):
    """P predicates by the cell of one of their ends: a cell k owns the pairs start[k] .. start[k + 1]."""

    start: Any  # [cells + 1] int64
    value: Any  # [P] float64: the end
    id: Any  # [P] uint16: the subscription within its block


class Index(NamedTuple):
    """Block b and attribute a are row r = b * d + a of R rows; n places for subscriptions, W words of bits in all."""

    block: int  # subscriptions in a block, a multiple of 64
    cells: Any  # [R] int32: c of the row, at most that of its attribute
    predicates: Any  # [R] int32: of the build
    groups: Any  # [R] int32: g of the row; 0: no sets
    first_cell: Any  # [R + 1] int64: a row owns cells first_cell[r] .. first_cell[r + 1]
    first_set: Any  # [R] int64: a set for each group, then with g > 1 one of all
    sets: Any  # [sets, block / 64] uint64
    low: Pairs  # at LVE
    high: Pairs  # at HVE
    needed: Any  # [n] int32: predicates of each subscription
    constrained: Any  # [W] uint64: a bit for each place: has predicates
    gone: Any  # [W] uint64: a bit for each place: is free
    check: bool  # where the sets leave few, check these instead of lines 4 and 7


class Chains(NamedTuple):
    """Predicates inserted after the build (`papers/updates`): chains on the cells, in a pool of fixed size Q."""

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

    Of several values of one event the least and the greatest are compared. Events count from the first of them.
    """

    begins: Any  # [d + 1] int64
    event: Any  # [V] int32
    first: Any  # [V] int64: its values are first .. last of the batch, more than one if they are an array
    last: Any  # [V] int64
    least: Any  # [V] float64
    greatest: Any  # [V] float64
    least_cell: Any  # [V] int64
    greatest_cell: Any  # [V] int64


@inlined
def leaf_of(value: float, a: int, domain: Domain) -> int:
    """Return the leaf of a value, from 0 to domain.c[a] - 1, ascending with the value."""
    node = a
    cell = cell_of(value, domain.begin[node], domain.per_unit[node], domain.cells[node])
    while domain.first[node] >= 0:
        child = domain.child[domain.first[node] + cell]
        if child < 0:
            return int(-1 - child)
        node = child
        cell = cell_of(value, domain.begin[node], domain.per_unit[node], domain.cells[node])
    return int(domain.leaf[node] + cell)


@kernel
def leaves(value: Any, at: Any, domain: Domain) -> Any:
    """The leaf of each value on its attribute."""
    found = np.empty(value.shape[0], np.int32)
    for i in range(value.shape[0]):
        found[i] = leaf_of(value[i], at[i], domain)
    return found


@kernel
def cells_in_node(values: Any, begin: float, per_unit: float, n: int) -> Any:
    """The cell of each value in a node of n cells."""
    found = np.empty(values.shape[0], np.int64)
    for i in range(values.shape[0]):
        found[i] = cell_of(values[i], begin, per_unit, n)
    return found


@kernel
def locate(first_event: int, last_event: int, events: Events, domain: Domain) -> Located:
    offsets, column, value = events
    d = domain.c.shape[0]
    room = offsets[last_event] - offsets[first_event]
    begins, event = np.zeros(d + 1, np.int64), np.empty(room, np.int32)
    first, last = np.empty(room, np.int64), np.empty(room, np.int64)
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
                    first[k] = i
                    last[k] = i + 1
                    least[k] = value[i]
                    greatest[k] = value[i]
                else:
                    k = begins[a] - 1
                    last[k] = i + 1
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
            least_cell[k] = leaf_of(least[k], a, domain)
            greatest_cell[k] = leaf_of(greatest[k], a, domain)
    return Located(begins, event, first, last, least, greatest, least_cell, greatest_cell)


@inlined
def cell_group(cell: int, c: int, g: int) -> int:
    """The group of a cell; group q has the cells q * c // g .. (q + 1) * c // g."""
    return ((cell + 1) * g - 1) // c


@inlined
def parts(g: int) -> int:
    """Groups that cells are divided into. With g = 1 the one set of each end covers a half of them (sec. 5.2)."""
    return 2 if g == 1 else g


@kernel
def mark_mismatches(
    first_event: int,
    n_events: int,
    events: Events,
    domain: Domain,
    index: Index,
    chains: Chains,
    rows: Rows,
    marks: Any,
    steps: int,
) -> None:
    """Algorithm 2 but its last line, for all events and blocks: marks[b, e] is B of the event in the block.

    To match, `steps` are ALL; fewer steps are for measuring what each takes.
    """
    located = locate(first_event, first_event + n_events, events, domain)
    lacking = np.empty(n_events, np.int64)  # attributes of the block that an event lacks; 0 also where it was counted
    touched = np.empty(n_events, np.int64)  # predicates on those it has
    has = np.empty(n_events, np.int64)  # the last attribute that an event was found to have
    all_have_all = located.begins[-1] == n_events * domain.c.shape[0]
    counted = np.zeros(0 if all_have_all else index.block, np.int32)  # zeros of a whole block take 20 us
    common = np.empty(marks.shape[2], np.uint64)
    decided = np.empty(n_events, np.bool_)
    first = UNITE if steps == ALL and index.check else steps
    few = np.empty(FEW, np.int32)
    positions = np.zeros((2, domain.c.shape[0]), np.int64)
    for b in range(marks.shape[0]):
        some_lack = begin_block(b, first_event, events, located, index, chains, lacking, touched, counted, marks[b])
        decided[:] = False
        mark_present(b, events, located, domain, index, chains, decided, common, marks[b], first)
        if some_lack and steps & UNITE:
            mark_absent(b, located, index, chains, lacking, has, marks[b])
        if first != steps:
            check_few(b, first_event, events, index.block, rows, touched, few, positions, decided, marks[b])
            mark_present(b, events, located, domain, index, chains, decided, common, marks[b], steps & ~first)


@kernel
def check_few(
    b: int,
    first_event: int,
    events: Events,
    block: int,
    rows: Rows,
    touched: Any,
    few: Any,
    positions: Any,
    decided: Any,
    marks: Any,
) -> None:
    """Decide a block for the events whose sets leave few subscriptions: B is all but those that the event satisfies."""
    for e in range(decided.shape[0]):
        bits = marks[e]
        if zeros(bits) > min(touched[e] // PREDICATES_A_CHECK, FEW):
            continue
        decided[e] = True
        m = unmarked(bits, block, few, 0, b * block)
        m = settle(events, first_event + e, True, rows, few, 0, m, positions[0], positions[1])
        for w in range(bits.shape[0]):
            bits[w] = ~np.uint64(0)
        for i in range(m):
            unmark(bits, few[i] - b * block)


@kernel
def begin_block(
    b: int,
    first_event: int,
    events: Events,
    located: Located,
    index: Index,
    chains: Chains,
    lacking: Any,
    touched: Any,
    counted: Any,
    marks: Any,
) -> bool:
    """Line 1: B begins with the free places; returns whether some event lacks attributes that line 8 is to OR.

    Where an event lacks more than it has, B begins with all that are not counted as present.
    """
    offsets, e_column, _ = events
    begins, event = located.begins, located.event
    cells, later = index.cells, chains.rows
    constrained, gone = index.constrained, index.gone
    n_events, words, d = lacking.shape[0], marks.shape[1], begins.shape[0] - 1
    used = 0
    touched[:] = 0
    lacking[:] = 0
    for a in range(d):
        r = b * d + a
        if cells[r] > 0:
            used += 1
            predicates = index.predicates[r] + later[r]
            for k in range(begins[a], begins[a + 1]):
                lacking[event[k]] -= 1
                touched[event[k]] += predicates
    some_lack = False
    for e in range(n_events):
        bits = marks[e]
        lacking[e] += used
        if lacking[e] * words <= 2 * touched[e] + words:
            for w in range(words):  # a slice would take two seconds more to compile, for the message of its error
                bits[w] = gone[b * words + w]
            some_lack |= lacking[e] > 0
            continue
        lacking[e] = 0
        for w in range(words):
            bits[w] = constrained[b * words + w]
        count_present(
            offsets[first_event + e], offsets[first_event + e + 1], e_column, d, b, index, chains, counted, bits
        )
        for w in range(words):
            bits[w] |= gone[b * words + w]
    return some_lack


@kernel
def mark_present(
    b: int,
    events: Events,
    located: Located,
    domain: Domain,
    index: Index,
    chains: Chains,
    decided: Any,
    common: Any,
    marks: Any,
    steps: int,
) -> None:
    """Lines 2 to 7: for each attribute of the block, all events that have it and are not decided."""
    if steps == 0 or decided.all():
        return
    begins, event, first, last, least, greatest, least_cell, greatest_cell = located
    _, cells, _, groups, first_cell, first_set, sets, lows, highs, _, _, _, _ = index
    low_start, low, low_id = lows
    high_start, high, high_id = highs
    later = chains.rows
    words, bits = sets.reshape(-1), marks.reshape(-1)  # a view for each row would count references, at 0.8 us
    n_words, d = marks.shape[1], begins.shape[0] - 1
    for a in range(d):
        r = b * d + a
        n_cells = cells[r]
        if n_cells == 0:
            continue
        origin = first_cell[r]
        g, c = parts(groups[r]), domain.c[a]
        for k in range(begins[a], begins[a + 1]):
            if decided[event[k]]:
                continue
            into = np.uint64(event[k] * n_words)  # where B of the event begins
            # LVE: low values above the greatest value; HVE: high values below the least
            low_cell = greatest_cell[k] * n_cells // c
            high_cell = least_cell[k] * n_cells // c
            low_end, high_begin = n_cells, 0
            if g > 0:
                q = cell_group(low_cell, n_cells, g)
                low_end = (q + 1) * n_cells // g
                high_begin = cell_group(high_cell, n_cells, g) * n_cells // g
                if steps & UNITE and last[k] - first[k] == 1:
                    at = np.uint64((first_set[r] + q) * n_words)
                    for w in range(n_words):
                        bits[into + np.uint64(w)] |= words[at + np.uint64(w)]
                elif steps & UNITE:
                    value = events.value[first[k] : last[k]]
                    unite_common(marks[event[k]], value, a, domain, n_cells, g, first_set[r], sets, common)
            low_cell += origin
            high_cell += origin
            low_end += origin
            high_begin += origin
            if steps & COMPARE:
                v = greatest[k]
                for p in range(low_start[low_cell], low_start[low_cell + 1]):
                    mark_in(bits, into, low_id[p], low[p] > v)
                v = least[k]
                for p in range(high_start[high_cell], high_start[high_cell + 1]):
                    mark_in(bits, into, high_id[p], high[p] < v)
            if steps & MARK:
                for p in range(np.uint64(low_start[low_cell + 1]), np.uint64(low_start[low_end])):
                    mark_in(bits, into, low_id[p], True)
                for p in range(np.uint64(high_start[high_begin]), np.uint64(high_start[high_cell])):
                    mark_in(bits, into, high_id[p], True)
            if steps & MARK and later[r] > 0:
                mark_chains(marks[event[k]], greatest[k], least[k], low_cell, low_end, high_begin, high_cell, chains)


@inlined
def mark_in(bits: Any, begin: Any, s: int, condition: bool) -> None:
    """Mark s in the set that begins at a word, without a branch."""
    at = np.uint64(s)
    bits[begin + (at >> np.uint64(6))] |= np.uint64(condition) << (at & np.uint64(63))


@kernel
def unite_common(
    bits: Any, value: Any, a: int, domain: Domain, c: int, g: int, first_set: int, sets: Any, common: Any
) -> None:
    """An array: a predicate that all its values exclude is a mismatch."""
    words = bits.shape[0]
    common[:] = ~np.uint64(0)
    for i in range(value.shape[0]):
        cell = leaf_of(value[i], a, domain) * c // domain.c[a]
        excluded = sets[first_set + cell_group(cell, c, g)]
        for w in range(words):
            common[w] &= excluded[w]
    unite(bits, common)


@kernel
def mark_chains(
    bits: Any,
    greatest: float,
    least: float,
    low_cell: int,
    low_end: int,
    high_begin: int,
    high_cell: int,
    chains: Chains,
) -> None:
    """Lines 4 and 7 for what was inserted after the build."""
    _, low, high, ids, next_low, next_high, head_low, head_high = chains
    p = head_low[low_cell]
    while p >= 0:
        mark_if(bits, ids[p], low[p] > greatest)
        p = next_low[p]
    for cell in range(low_cell + 1, low_end):
        mark_chain(bits, head_low[cell], next_low, ids)
    p = head_high[high_cell]
    while p >= 0:
        mark_if(bits, ids[p], high[p] < least)
        p = next_high[p]
    for cell in range(high_begin, high_cell):
        mark_chain(bits, head_high[cell], next_high, ids)


@kernel
def mark_absent(b: int, located: Located, index: Index, chains: Chains, lacking: Any, has: Any, marks: Any) -> None:
    """Line 8: for each attribute of the block, all events that lack it."""
    begins, event = located.begins, located.event
    cells, groups, first_cell, first_set, sets = (
        index.cells,
        index.groups,
        index.first_cell,
        index.first_set,
        index.sets,
    )
    low_start, low_id = index.low.start, index.low.id
    later, later_id, next_low, head_low = chains.rows, chains.id, chains.next_low, chains.head_low
    d = begins.shape[0] - 1
    has[:] = -1
    for a in range(d):
        r = b * d + a
        if cells[r] == 0:
            continue
        for k in range(begins[a], begins[a + 1]):
            has[event[k]] = a
        g = groups[r]
        largest = first_set[r] + (g if g > 1 else 0)  # of LVE: all cells, with g = 1 the upper half
        begin = first_cell[r]
        end = begin + (cells[r] // 2 if g == 1 else cells[r] if g == 0 else 0)  # of the cells it does not cover
        for e in range(lacking.shape[0]):
            if lacking[e] == 0 or has[e] == a:
                continue
            bits = marks[e]
            if g > 0:
                unite(bits, sets[largest])
            for p in range(low_start[begin], low_start[end]):
                mark(bits, low_id[p])
            if later[r] > 0:
                for cell in range(begin, end):
                    mark_chain(bits, head_low[cell], next_low, later_id)


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
    first: int, i: int, s: Any, a: Any, low: Any, high: Any, domain: Domain, index: Index, chains: Chains
) -> None:
    """Algorithm 1 for predicates of subscriptions first + s: the i-th that came after the build, and those after it."""
    later, later_low, later_high, later_id, next_low, next_high, head_low, head_high = chains
    cells, groups, first_cell, first_set = index.cells, index.groups, index.first_cell, index.first_set
    words, n_words, d = index.sets.reshape(-1), index.sets.shape[1], domain.c.shape[0]
    for p in range(s.shape[0]):
        block, id = divmod(first + s[p], index.block)
        r = block * d + a[p]
        c, g = cells[r], parts(groups[r])
        low_cell = leaf_of(low[p], a[p], domain) * c // domain.c[a[p]]
        high_cell = leaf_of(high[p], a[p], domain) * c // domain.c[a[p]]
        later[r] += 1
        later_low[i] = low[p]
        later_high[i] = high[p]
        later_id[i] = id
        next_low[i] = head_low[first_cell[r] + low_cell]
        head_low[first_cell[r] + low_cell] = i
        next_high[i] = head_high[first_cell[r] + high_cell]
        head_high[first_cell[r] + high_cell] = i
        i += 1
        if g == 0:
            continue
        q_low, q_high = cell_group(low_cell, c, g), cell_group(high_cell, c, g)
        for q in range(g):
            mark_in(words, np.uint64((first_set[r] + q) * n_words), id, q < q_low or q > q_high)
        if groups[r] > 1:
            mark_in(words, np.uint64((first_set[r] + g) * n_words), id, True)


@kernel
def fill_sets(index: Index) -> None:
    """The sets of all rows, which are empty. LVE's grow from the last group down, and HVE's from the first one up."""
    cells, groups, first_cell, first_set, sets = (
        index.cells,
        index.groups,
        index.first_cell,
        index.first_set,
        index.sets,
    )
    low_start, low_id = index.low.start, index.low.id
    high_start, high_id = index.high.start, index.high.id
    grown = np.empty(sets.shape[1], np.uint64)
    for r in range(cells.shape[0]):
        c, g, origin = cells[r], parts(groups[r]), first_cell[r]
        grown[:] = 0
        for q in range(g, 0, -1):  # B_(g - q): groups q .. g - 1
            if q < g:
                for p in range(low_start[origin + q * c // g], low_start[origin + (q + 1) * c // g]):
                    mark(grown, low_id[p])
            unite(sets[first_set[r] + q - 1], grown)
        if groups[r] > 1:
            for p in range(low_start[origin], low_start[origin + c // g]):
                mark(grown, low_id[p])
            unite(sets[first_set[r] + g], grown)
        grown[:] = 0
        for q in range(1, g):  # B_q: groups 0 .. q - 1
            for p in range(high_start[origin + (q - 1) * c // g], high_start[origin + q * c // g]):
                mark(grown, high_id[p])
            unite(sets[first_set[r] + q], grown)


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
def zeros(bits: Any) -> int:
    """Return how many bits are not set."""
    total = 0
    for w in range(bits.shape[0]):
        total += ones(~bits[w])
    return total


@kernel
def count_unmarked(marks: Any, n_events: int) -> int:
    """Count the pairs of an event and a subscription that are not marked, for the first events of marks."""
    total = 0
    for b in range(marks.shape[0]):
        for e in range(n_events):
            total += zeros(marks[b, e])
    return total


@kernel
def list_unmarked(
    first_event: int, events: Events, d: int, block: int, marks: Any, rows: Rows, out: Any, offsets: Any
) -> None:
    """Line 9: the unmarked subscriptions of the events; those that the marks do not decide are verified.

    Event e has out[offsets[e] : offsets[e + 1]].
    """
    e_offsets, e_column, _ = events
    n, any_several = rows.start.shape[0] - 1, rows.any_several
    first = np.zeros(d, np.int64)
    last = np.zeros(d, np.int64)
    m = 0
    for e in range(offsets.shape[0] - 1):
        event, before = first_event + e, m
        for b in range(marks.shape[0]):
            m = unmarked(marks[b, e], min(block, n - b * block), out, m, b * block)
        arrays = has_several_values(e_column, e_offsets[event], e_offsets[event + 1], d)
        if arrays or any_several:
            m = settle(events, event, arrays, rows, out, before, m, first, last)
        offsets[e + 1] = m
