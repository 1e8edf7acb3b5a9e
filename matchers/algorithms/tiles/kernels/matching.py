"""Match events against tiles of 512 subscriptions: reject whole tiles, then filter by rows of bits, then verify.

An event is a cell in each column (`tiles/quantiles.py`), 0 where it has no value:

    cells     column by column, so that 64 events are compared at once           hulls of a tile, 64 events a test
    offsets   event by event: where in a column's rows of any tile its row is     rows of a tile, one event at a time
    values    event by event: the doubles, NaN where there is none               verification

    tile      test: column 3 in 17 .. 41 ?  column 8 in 5 .. 9 ?     no for 9 of 10 tiles
              row:  column 3, its cell      0110 0100 0000 ...       bit j: subscription j is excluded here
                    column 8, its cell      1000 0001 0000 ...
                    column 0, its cell      0011 1100 1010 ...
                    or of all               1111 1101 1010 ...       zeros are candidates

Why it is fast: all events of a batch visit one tile before the next, so its rows (up to 30 KB) stay in the nearest
caches and are read from memory once for the batch. Nothing waits for memory: rows are prefetched while those of the
tile before are united, predicates of candidates when these are found, long before they are verified. A row costs two
loads and an OR of 64 bytes; four events go side by side, so that no OR waits for the one before.

Where candidates are many, a tile is *precise*: each row has an *inner row*, in which a bit is set where the cell does
not lie within the predicate as a whole:

    predicate            |-------------|
    cells of a column  |    |    |    |    |
    row                  0    0    0    0      0: may hit
    inner row            1    0    0    1      0: surely hits

So a candidate without a bit in any inner row matches, and only the others are verified. Many matches of an event in a
tile stay a set of bits, and are listed when all tiles are done.

Cost per event: tests of parents and tiles / 64 + tiles passed * rows + candidates * predicates until a miss.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.algorithms.tiles.kernels.arrays import CANDIDATES_AT_ONCE, Arrays, Batch
from matchers.algorithms.tiles.kernels.dense_kernel import match_dense
from matchers.algorithms.tiles.kernels.lists import LONG, end_of_list, on_list, on_lists
from matchers.algorithms.tiles.kernels.quantiles_kernel import quantile_cell
from matchers.algorithms.tiles.kernels.runs_kernel import (
    CANDIDATES,
    PASSED,
    ROWS,
    TILES,
    VERIFIED,
    MatchRuns,
    arrange,
    count_matches,
)
from matchers.algorithms.tiles.kernels.sparse_kernel import (
    MATCHED,
    NO_ROOM,
    TOO_MANY,
    ColumnIndex,
    Room,
    SlotBounds,
    match_sparse,
)
from matchers.kernels.events import Events
from matchers.kernels.jit import borrower, inlined, inner, kernel
from matchers.kernels.jit.address import address_of, arrays_at
from matchers.kernels.rows import FEW, clear, lay_out
from matchers.kernels.vectors import (
    LANES,
    WORDS,
    both,
    either,
    everything,
    full,
    load,
    lowest,
    nothing,
    ones,
    prefetch,
    store,
    within,
)

FEW_LEFT = 8  # candidates in a precise tile, up to which they are verified rather than looked up in inner rows
TILES_AHEAD = 4  # whose rows are prefetched when one event is matched
TRIED = 0.5  # of the candidates that the dense way is worth: so many are counted before it is taken
TIMES = 4.0  # the same: so many must be expected of all tiles
EVENTS_OF_A_ROW = 24  # that pass a tile, from which on they need nearly all of its rows


class Passed(NamedTuple):
    """A tile and the n events that have passed its tests."""

    tile: Any  # int64
    event: Any  # [N + 4] int32
    n: Any  # int64


@borrower
def match_batch(
    some: tuple[int, int],
    several: Any,
    events: Events,
    parents: Any,
    index: Arrays,
    batch: Batch,
    alone: AloneRoom,
    most: int,
    runs: MatchRuns,
    counters: Any,
) -> int:
    """Match a range of the events against a range of parents. NO_ROOM: for all matches; TOO_MANY: many more than
    `most` candidates are to be verified one by one.

    They are laid out in `batch`, which is empty and left so. Those with several values in a column cannot be: they are
    matched one by one, and several [last - first] bool gets which these are.

    One kernel with all that has one caller inlined: to pass so many arrays takes long to compile.
    """
    first, last = some
    _lay_out(first, last, events, index, batch, several)
    outcome = MATCHED
    if batch.below.shape[0] > 0:
        match_dense(last - first, parents, index, batch, runs, counters)
    else:
        outcome = _match_together(parents, index, batch, most, runs, counters)
    _clear(first, last, events, index, batch)
    if outcome == MATCHED and not match_alone(first, last, several, events, parents, index, alone, runs, counters):
        outcome = NO_ROOM
    return outcome


@inlined
def _lay_out(first: int, last: int, events: Events, index: Arrays, batch: Batch, several: Any) -> None:
    """Put events first .. last into `batch`, which is empty; several: [last - first] bool: these are left out."""
    start, column, value = events
    edge_start, edge, begin, per_unit, bucket = index.edge_start, index.edge, index.begin, index.per_unit, index.first
    offset = index.offset
    valid, cells, own_cells = batch.valid, batch.cells, batch.own_cells
    offsets, values = batch.offsets, batch.values
    d, n = begin.shape[0], valid.shape[0] * LANES
    for e in range(first, last):
        at = e - first
        several[at] = _has_several(column, start[e], start[e + 1], d)
        if several[at]:
            continue
        valid[at >> 6] |= np.uint64(1) << np.uint64(at & 63)
        for i in range(start[e], start[e + 1]):
            c = column[i]
            if c < d:
                cell = quantile_cell(value[i], c, edge_start, edge, begin, per_unit, bucket)
                cells[c * n + at] = cell
                own_cells[at * d + c] = cell
                offsets[at * d + c] = offset[edge_start[c] + cell - 1]
                values[at * d + c] = value[i]


@inlined
def _clear(first: int, last: int, events: Events, index: Arrays, batch: Batch) -> None:
    start, column, _ = events
    valid, cells, own_cells = batch.valid, batch.cells, batch.own_cells
    offsets, values = batch.offsets, batch.values
    d, n = index.begin.shape[0], valid.shape[0] * LANES
    valid[:] = np.uint64(0)
    for e in range(first, last):
        at = e - first
        for i in range(start[e], start[e + 1]):
            c = column[i]
            if c < d:
                cells[c * n + at] = 0
                own_cells[at * d + c] = 0
                offsets[at * d + c] = 0
                values[at * d + c] = np.nan


@inlined
def _has_several(column: Any, begin: int, end: int, d: int) -> bool:
    several = False
    for i in range(begin + 1, end):
        several |= column[i] == column[i - 1] and column[i] < d
    return several


@inlined
def _match_together(some: Any, index: Arrays, batch: Batch, most: int, runs: MatchRuns, counters: Any) -> int:
    """A range of parents on all events of the batch. NO_ROOM and TOO_MANY as in `match_batch`.

    A tile that events pass waits until the next one is found, whose rows are prefetched while those of the tile that
    waited are united. Candidates wait too, until there are so many that the memory has had time to bring them. After
    the last parent a tile that no event passes makes an end of the waiting.
    """
    cells, valid, passing, parents = batch.cells, batch.valid, batch.passing, batch.parents
    parent, parent_test, test = index.parent, index.parent_test, index.test
    tests = (index.test_column, index.test_low, index.test_width)
    words, free = valid.shape[0], batch.passed
    waiting = Passed(np.int64(0), batch.passed_before, np.int64(0))
    m = 0  # candidates
    verified = counters[VERIFIED]
    first, last = some
    tiles = max(np.int64(parent[last]) - np.int64(parent[first]), 1)
    for p in range(first, last + 1):
        begin, end = np.int64(0), np.int64(1)
        if p < last:
            for w in range(words):
                parents[w] = valid[w]
            if not _test(parent_test[p], parent_test[p + 1], tests, cells, parents):
                continue
            begin, end = np.int64(parent[p]), np.int64(parent[p + 1])
        for t in range(begin, end):
            n = np.int64(0)
            if p < last:
                for w in range(words):
                    passing[w] = parents[w]
                counters[TILES] += words * LANES
                if not _test(test[t], test[t + 1], tests, cells, passing):
                    continue
                n = _places(passing, free)
                if n == 0:  # a tile without tests, if no event is valid
                    continue
            following = Passed(np.int64(t), free, n)
            m = _match_tile(waiting, following, index, batch, m, runs, counters)
            if m < 0:
                return NO_ROOM
            if p < last and counters[VERIFIED] - verified > most * (TRIED + TIMES * (t - parent[first]) / tiles):
                return TOO_MANY
            free = waiting.event
            waiting = following
    return MATCHED


@inlined
def _places(words: Any, places: Any) -> Any:
    """Write where bits are set; returns how many there are."""
    n = np.int64(0)
    for w in range(words.shape[0]):
        left = words[w]
        while left != np.uint64(0):
            places[n] = (w << 6) + np.int64(lowest(left))
            n += 1
            left &= left - np.uint64(1)
    return n


@inlined
def _match_tile(
    passed: Passed, following: Passed, index: Arrays, batch: Batch, m: int, runs: MatchRuns, counters: Any
) -> int:
    """Match the tile that events have passed; m candidates wait; returns how many do then, none if no tile follows.
    -1: no room for matches."""
    t, n, row, row_at = passed.tile, passed.n, index.row, index.row_at
    ahead, ahead_end = np.int64(0), np.int64(0)
    if following.n >= EVENTS_OF_A_ROW:
        begin, end = row[following.tile], row[following.tile + 1]
        if begin < end:
            ahead = row_at[begin]
            ahead_end = np.int64(index.words.shape[0]) if end == row_at.shape[0] else row_at[end]
    elif following.n > 0:
        _ask(following, index, batch)
    if n == 0:
        return m
    counters[PASSED] += n
    counters[ROWS] += n * (row[t + 1] - row[t])
    has_rows = row[t] < row[t + 1]
    found = _filter(passed, index, batch, ahead, ahead_end) if has_rows else n
    if index.inner[t] > 0:
        found = _list_precise(t, found, index, batch, runs, counters)
    return _list(passed, has_rows, found, following.n == 0, index, batch, m, runs, counters)


@inlined
def _ask(passed: Passed, index: Arrays, batch: Batch) -> None:
    """Prefetch the rows that events need of the tile that they have passed."""
    t, n, event = passed.tile, passed.n, passed.event
    words, own_cells, offsets = index.words, batch.own_cells, batch.offsets
    row_column, row_low, row_shift, row_at = index.row_column, index.row_low, index.row_shift, index.row_at
    begin, local, end = np.uint64(index.row[t]), np.uint64(index.local[t]), np.uint64(index.row[t + 1])
    d = np.uint64(index.begin.shape[0])
    for r in range(begin, end):
        at, c = np.uint64(row_at[r]), np.uint64(row_column[r])
        for i in range(n):
            e = np.uint64(event[i])
            if r < local:
                cell = np.uint64(own_cells[e * d + c]) - np.uint64(row_low[r])
                prefetch(words, at + ((cell >> np.uint64(row_shift[r])) << np.uint64(3)))
            else:
                prefetch(words, at + np.uint64(offsets[e * d + c]))


@inner
def _test(first: int, last: int, tests: Any, cells: Any, passing: Any) -> Any:
    """Leave in `passing` the events that pass all tests; returns whether one is left."""
    column, lows, widths = tests
    words = passing.shape[0]
    left = np.uint64(1)
    for q in range(first, last):
        at = np.uint64(column[q] * words * LANES)
        low, width = lows[q], widths[q]
        left = np.uint64(0)
        for w in range(words):
            passing[w] &= within(cells, at + np.uint64(w * LANES), low, width)
            left |= passing[w]
        if left == np.uint64(0):
            break
    return left != np.uint64(0)


@inlined
def _filter(passed: Passed, index: Arrays, batch: Batch, ahead: Any, ahead_end: Any) -> int:
    """Write what the rows leave of the tile for each event that passed; returns how many events have candidates.

    Meanwhile words[ahead : ahead_end] is prefetched.
    """
    t, n, event = passed.tile, passed.n, passed.event
    words, own_cells, offsets = index.words, batch.own_cells, batch.offsets
    row_column, row_low, row_shift, row_at = index.row_column, index.row_low, index.row_shift, index.row_at
    begin, local, end = np.uint64(index.row[t]), np.uint64(index.local[t]), np.uint64(index.row[t + 1])
    d = np.uint64(index.begin.shape[0])
    found_words, found_event = batch.found, batch.found_event
    for i in range(n, n + 3):
        event[i] = event[n - 1]
    found = 0
    lines = (ahead_end - ahead + WORDS - 1) // WORDS
    some = (lines * 4 + n - 1) // n * WORDS
    for i in range(0, n, 4):
        for line in range(ahead, min(ahead + some, ahead_end), WORDS):
            prefetch(words, np.uint64(line))
        ahead += some
        e0, e1 = np.uint64(event[i]), np.uint64(event[i + 1])
        e2, e3 = np.uint64(event[i + 2]), np.uint64(event[i + 3])
        o0, o1, o2, o3 = e0 * d, e1 * d, e2 * d, e3 * d
        a, b, c, f = nothing(), nothing(), nothing(), nothing()
        for r in range(begin, local):
            at = np.uint64(row_at[r])
            col = np.uint64(row_column[r])
            low, shift = np.uint64(row_low[r]), np.uint64(row_shift[r])
            a = either(a, load(words, at + (((np.uint64(own_cells[o0 + col]) - low) >> shift) << np.uint64(3))))
            b = either(b, load(words, at + (((np.uint64(own_cells[o1 + col]) - low) >> shift) << np.uint64(3))))
            c = either(c, load(words, at + (((np.uint64(own_cells[o2 + col]) - low) >> shift) << np.uint64(3))))
            f = either(f, load(words, at + (((np.uint64(own_cells[o3 + col]) - low) >> shift) << np.uint64(3))))
        for r in range(local, end):
            at = np.uint64(row_at[r])
            col = np.uint64(row_column[r])
            a = either(a, load(words, at + np.uint64(offsets[o0 + col])))
            b = either(b, load(words, at + np.uint64(offsets[o1 + col])))
            c = either(c, load(words, at + np.uint64(offsets[o2 + col])))
            f = either(f, load(words, at + np.uint64(offsets[o3 + col])))
        found = _keep(a, e0, found_words, found_event, found, True)
        found = _keep(b, e1, found_words, found_event, found, i + 1 < n)
        found = _keep(c, e2, found_words, found_event, found, i + 2 < n)
        found = _keep(f, e3, found_words, found_event, found, i + 3 < n)
    return found


@inlined
def _keep(excluded: Any, event: Any, words: Any, events: Any, found: int, counts: bool) -> int:
    """Written in any case and counted where there are candidates: no branch that is mispredicted."""
    store(excluded, words, np.uint64(found * WORDS))
    events[np.uint64(found)] = np.int32(event)
    return found + int(counts and not full(excluded))


@inlined
def _list(
    passed: Passed,
    has_rows: bool,
    n: int,
    to_the_end: bool,
    index: Arrays,
    batch: Batch,
    m: int,
    runs: MatchRuns,
    counters: Any,
) -> int:
    """Append to the m candidates that wait those that rows have left of the tile to n events, all of a tile without
    rows, and prefetch them; returns how many wait then: none if `to_the_end`. -1: no room for matches."""
    found, found_event, candidate, event = batch.found, batch.found_event, batch.candidate, passed.event
    start, ranges = index.start, index.range
    first, last = np.uint64(index.slot[passed.tile]), np.uint64(index.slot[passed.tile + 1])
    for i in range(n + int(to_the_end)):
        if m >= CANDIDATES_AT_ONCE or i == n:
            if not _verify_batch(index, batch, m, runs, counters):
                return -1
            m = 0
            if i == n:
                break
        if has_rows:
            e = np.uint64(found_event[i]) << np.uint64(32)
            for w in range(np.uint64(WORDS)):
                left = ~found[np.uint64(i * WORDS) + w]
                while left != np.uint64(0):
                    u = first + (w << np.uint64(6)) + lowest(left)
                    left &= left - np.uint64(1)
                    candidate[np.uint64(m)] = e | u
                    m += 1
                    at = np.uint64(3) * np.uint64(start[u])
                    prefetch(ranges, at)
                    prefetch(ranges, at + np.uint64(29))  # of ten predicates
        else:
            for u in range(first, last):
                candidate[m] = (np.uint64(event[i]) << np.uint64(32)) | u
                m += 1
    return m


@inlined
def _list_precise(t: int, n: int, index: Arrays, batch: Batch, runs: MatchRuns, counters: Any) -> int:
    """Append what rows have left of a precise tile to n events, as sets without those that the exact bounds exclude.

    Returns for how many events this is still to be done, since little is left to them; they come first in `found` then.
    """
    found, found_event, in_doubt = batch.found, batch.found_event, batch.in_doubt
    words, own_cells, offsets = index.words, batch.own_cells, batch.offsets
    row_column, row_low, row_shift, row_at = index.row_column, index.row_low, index.row_shift, index.row_at
    start, range_, low, high, id_start = index.start, index.range, index.low, index.high, index.id_start
    sets, set_event, set_at, used = runs.set, runs.set_event, runs.set_at, runs.used
    begin, local, end = np.uint64(index.row[t]), np.uint64(index.local[t]), np.uint64(index.row[t + 1])
    first, last = np.uint64(index.slot[t]), np.uint64(index.slot[t + 1])
    d, inner = np.uint64(index.begin.shape[0]), np.uint64(index.inner[t])
    at_first = np.int64(id_start[first])
    if np.uint64(id_start[last] - id_start[first]) != last - first:
        at_first = -1 - np.int64(first)
    candidates, verified, m = 0, 0, 0
    kept = 0
    for i in range(n):
        if _few(found, i * WORDS):
            store(load(found, np.uint64(i * WORDS)), found, np.uint64(kept * WORDS))
            found_event[kept] = found_event[i]
            kept += 1
            continue
        e = np.uint64(found_event[i])
        unsure = nothing()
        for r in range(begin, local):
            cell = np.uint64(own_cells[e * d + np.uint64(row_column[r])]) - np.uint64(row_low[r])
            at = np.uint64(row_at[r]) + inner + ((cell >> np.uint64(row_shift[r])) << np.uint64(3))
            unsure = either(unsure, load(words, at))
        for r in range(local, end):
            at = np.uint64(row_at[r]) + inner + np.uint64(offsets[e * d + np.uint64(row_column[r])])
            unsure = either(unsure, load(words, at))
        n_sets = used[2]
        set_event[n_sets], set_at[n_sets] = e, at_first
        used[2] = n_sets + 1
        store(unsure, sets, np.uint64(n_sets * WORDS))
        for w in range(WORDS):
            at = np.uint64(n_sets * WORDS) + np.uint64(w)
            left = ~found[np.uint64(i * WORDS) + np.uint64(w)]
            doubtful = left & sets[at]
            sets[at] = left
            candidates += ones(left)
            while doubtful != np.uint64(0):
                u = first + (np.uint64(w) << np.uint64(6)) + lowest(doubtful)
                doubtful &= doubtful - np.uint64(1)
                in_doubt[np.uint64(m)] = np.uint64(n_sets) << np.uint64(32) | u
                m += 1
                p = np.uint64(start[u])
                prefetch(range_, np.uint64(3) * p)
                prefetch(low, p)
                prefetch(high, p)
        if m >= CANDIDATES_AT_ONCE:
            verified += m
            _verify_doubtful(m, first, index, batch, runs)
            m = 0
    _verify_doubtful(m, first, index, batch, runs)
    counters[CANDIDATES] += candidates
    counters[VERIFIED] += verified + m
    return kept


@inlined
def _few(excluded: Any, origin: int) -> bool:
    """Whether so few are left of a precise tile that verifying them costs less than its inner rows."""
    left = 0
    for w in range(WORDS):
        left += ones(~excluded[origin + w])
    return left <= FEW_LEFT


@inner
def _verify_doubtful(n: int, first: Any, index: Arrays, batch: Batch, runs: MatchRuns) -> None:
    """Take those that do not match out of their sets, of n in doubt in a tile whose first slot is given.

    Most match, so all their doubles are compared: there is no branch that could be mispredicted.
    """
    in_doubt, values, start, range_ = batch.in_doubt, batch.values, index.start, index.range
    low, high, sets, set_event = index.low, index.high, runs.set, runs.set_event
    d = np.uint64(index.begin.shape[0])
    for x in range(n):
        r, u = in_doubt[x] >> np.uint64(32), in_doubt[x] & np.uint64(0xFFFFFFFF)
        origin = np.uint64(set_event[r]) * d
        hits, columns, before = 0, 0, np.uint64(0xFFFFFFFF)
        j = u - first
        begin, end = np.uint64(start[u]), np.uint64(start[u + np.uint64(1)])
        if end - begin > np.uint64(LONG):
            missed = not on_lists(begin, end, values, origin, range_, low, high)
            sets[r * np.uint64(WORDS) + (j >> np.uint64(6))] ^= np.uint64(missed) << (j & np.uint64(63))
            continue
        for i in range(begin, end):
            c = np.uint64(range_[np.uint64(3) * i])
            value = values[origin + c]
            hits += int((low[i] <= value) & (value <= high[i]))  # at most one in a column
            columns += int(c != before)
            before = c
        sets[r * np.uint64(WORDS) + (j >> np.uint64(6))] ^= np.uint64(hits < columns) << (j & np.uint64(63))


@inlined
def _verify_batch(index: Arrays, batch: Batch, n: int, runs: MatchRuns, counters: Any) -> bool:
    """Append those of n candidates that match: runs of one event after the other. False: no room.

    Those that match are collected in the place of candidates, so that their ids can be prefetched.
    """
    candidate, own_cells, values = batch.candidate, batch.own_cells, batch.values
    start, range_, low, high = index.start, index.range, index.low, index.high
    id_start, id, runs_id, runs_event, runs_begin = index.id_start, index.id, runs.id, runs.event, runs.begin
    d = np.uint64(index.begin.shape[0])
    slots = np.uint64(0xFFFFFFFF)
    hits = 0
    for i in range(n):
        key = candidate[i]
        u, e = key & slots, key >> np.uint64(32)
        candidate[hits] = key
        if _satisfies_by_cells(u, start, range_, low, high, own_cells, values, e * d):
            prefetch(id_start, u)
            prefetch(id, u)  # where each slot is one subscription, as in most tables
            hits += 1
    last = np.uint64(0xFFFFFFFF)  # the event of the run that is open
    r, m = runs.used[0], runs.used[1]
    for i in range(hits):
        u, e = candidate[i] & slots, candidate[i] >> np.uint64(32)
        begin, end = id_start[u], id_start[u + np.uint64(1)]
        if m + end - begin > runs_id.shape[0] or r == runs_event.shape[0]:
            return False
        if e != last:
            runs_event[r], runs_begin[r] = e, m
            r += 1
            last = e
        for k in range(begin, end):
            runs_id[m] = id[k]
            m += 1
    runs.used[0], runs.used[1] = r, m
    counters[CANDIDATES] += n
    counters[VERIFIED] += n
    return True


@inlined
def _satisfies_by_cells(
    u: Any, start: Any, range_: Any, low: Any, high: Any, own_cells: Any, values: Any, origin: Any
) -> bool:
    """Whether the event whose cells and values begin at `origin` hits an interval of slot u in each of its columns.

    Cells decide, but where an interval begins or ends in the cell of the value: only there doubles are compared. Of a
    long list in a column these are compared in a binary search (`lists.py`).
    """
    i, end = np.uint64(start[u]), np.uint64(start[u + np.uint64(1)])
    three, one, two, few = np.uint64(3), np.uint64(1), np.uint64(2), np.uint64(FEW)
    hit = True
    while hit and i < end:
        c = np.uint64(range_[three * i])
        cell = own_cells[origin + c]
        hit = False
        if i + few < end and range_[three * (i + few)] == c:
            beyond = end_of_list(i, end, range_)
            hit = on_list(values[origin + c], i, beyond, low, high)
            i = beyond
        while i < end and range_[three * i] == c:
            begins, ends = range_[three * i + one], range_[three * i + two]
            if begins <= cell <= ends:
                if begins < cell < ends:
                    hit = True
                else:
                    hit |= low[i] <= values[origin + c] <= high[i]
            i += one
    return hit


class AloneRoom(NamedTuple):
    """Room in which `match_alone` lays out one event; what it leaves there does not matter, but `last` is 0."""

    first: Any  # [A] int64, as in `rows.lay_out`
    last: Any  # [A] int64
    cell: Any  # uint16, of each of its values
    passed: Any  # [T] int32: the tiles it passes
    found: Any  # [16] uint64: bits of the subscriptions that the rows of a tile exclude, and of those in doubt
    candidate: Any  # [CANDIDATES_AT_ONCE + 512] int32: slots


@borrower
def match_alone(
    first: int,
    last: int,
    chosen: Any,
    events: Events,
    parents: Any,
    index: Arrays,
    alone: AloneRoom,
    runs: MatchRuns,
    counters: Any,
) -> bool:
    """Match the events of first .. last that are chosen, [last - first] bool, one by one, against a range of parents.

    They may have several values in a column, which is hit where one of these hits. Only parents are visited whose pivot
    is a column that the event has. Returns False if there was no room for all matches.
    """
    offsets, column, value = events
    first_parent, last_parent = parents
    edge_start, edge, domain, per_unit, bucket = index.edge_start, index.edge, index.begin, index.per_unit, index.first
    pivot_start, parent, parent_test, test = index.pivot_start, index.parent, index.parent_test, index.test
    tests = (index.test_column, index.test_low, index.test_width)
    d = domain.shape[0]
    of, to, cell, passed = alone.first, alone.last, alone.cell, alone.passed
    laid_out = (of, to, cell)
    for e in range(first, last):
        if not chosen[e - first]:
            continue
        begin, end = offsets[e], offsets[e + 1]
        lay_out(column, begin, end, of, to)
        for i in range(begin, end):
            c = column[i]
            if c < d:
                cell[i - begin] = quantile_cell(value[i], c, edge_start, edge, domain, per_unit, bucket)
        n = 0
        for i in range(begin - 1, end):
            c = -1 if i < begin else column[i]  # -1: tiles without a pivot
            if c >= d or (i > begin and column[i - 1] == c):
                continue
            for p in range(max(pivot_start[c + 1], first_parent), min(pivot_start[c + 2], last_parent)):
                if _passes(parent_test[p], parent_test[p + 1], tests, laid_out, begin):
                    counters[TILES] += parent[p + 1] - parent[p]
                    for t in range(parent[p], parent[p + 1]):
                        if _passes(test[t], test[t + 1], tests, laid_out, begin):
                            passed[n] = t
                            n += 1
        counters[PASSED] += n
        room = _list_alone(e - first, n, begin, value, index, alone, runs, counters)
        clear(column, begin, end, of, to)
        if not room:
            return False
    return True


@inlined
def _passes(first: int, last: int, tests: Any, laid_out: Any, begin: int) -> bool:
    column, low, width = tests
    of, to, cell = laid_out
    for q in range(np.uint64(first), np.uint64(last)):
        c = np.uint64(column[q])
        hit = False
        for k in range(of[c], to[c]):
            hit |= np.uint16(cell[np.uint64(k - begin)] - low[q]) <= width[q]
        if not hit:
            return False
    return True


@inlined
def _list_alone(
    event: int, n: int, begin: int, value: Any, index: Arrays, alone: AloneRoom, runs: MatchRuns, counters: Any
) -> bool:
    """Append the subscriptions that the event laid out matches, of the n tiles that it passed. False: no room.

    Its rows lie far apart, so those of the next tiles are prefetched while those of one are united.
    """
    words, offset, edge_start, rows = index.words, index.offset, index.edge_start, index.row
    row_column, row_low, row_shift = index.row_column, index.row_low, index.row_shift
    row_at, locals_ = index.row_at, index.local
    of, to, cells, found = alone.first, alone.last, alone.cell, alone.found
    slot, start, range_, id_start, id = index.slot, index.start, index.range, index.id_start, index.id
    used, runs_id, passed, candidate = runs.used, runs.id, alone.passed, alone.candidate
    first = used[1]
    waiting = 0  # candidates
    for x in range(-TILES_AHEAD, n + 1):
        if waiting >= CANDIDATES_AT_ONCE or x == n:
            if not _verify_alone(waiting, begin, value, index, alone, runs, counters):
                return False
            waiting = 0
        if x + TILES_AHEAD < n:
            t = passed[x + TILES_AHEAD]
            for r in range(np.uint64(rows[t]), np.uint64(rows[t + 1])):
                c = np.uint64(row_column[r])
                at = np.int64(0)
                if of[c] < to[c]:
                    cell = np.int64(cells[np.uint64(of[c] - begin)])
                    at = _row_offset(cell, r, c, r < locals_[t], row_low, row_shift, offset, edge_start)
                prefetch(words, np.uint64(row_at[r] + at))
        if x < 0 or x == n:
            continue
        t = passed[x]
        excluded = _rows_alone(t, np.int64(0), begin, index, alone)
        counters[ROWS] += rows[t + 1] - rows[t]
        if full(excluded):
            continue
        store(excluded, found, np.uint64(0))
        precise = index.inner[t] > 0 and not _few(found, 0)
        if precise:
            if used[1] + id_start[slot[t + 1]] - id_start[slot[t]] > runs_id.shape[0]:
                return False
            store(_rows_alone(t, index.inner[t], begin, index, alone), found, np.uint64(WORDS))
        slots = slot[t + 1] - slot[t]
        for w in range((slots + 63) >> 6):
            left = ~found[w]
            while left != np.uint64(0):
                bit = lowest(left)
                left &= left - np.uint64(1)
                u = np.uint64(slot[t] + (w << 6)) + bit
                if u >= slot[t + 1]:  # a tile without rows excludes none
                    break
                if precise and (found[WORDS + w] >> bit) & np.uint64(1) == np.uint64(0):
                    counters[CANDIDATES] += 1
                    for k in range(id_start[u], id_start[u + np.uint64(1)]):
                        runs_id[used[1]] = id[k]
                        used[1] += 1
                else:
                    candidate[waiting] = u
                    waiting += 1
                    prefetch(range_, np.uint64(3) * np.uint64(start[u]))
    if used[1] > first:
        runs.event[used[0]], runs.begin[used[0]] = event, first
        used[0] += 1
    return True


@inlined
def _rows_alone(t: int, beyond: Any, begin: int, index: Arrays, alone: AloneRoom) -> Any:
    """The rows of a tile that the event laid out has, united; or their inner rows, which begin so far beyond."""
    words, offset, edge_start, row_at, local = index.words, index.offset, index.edge_start, index.row_at, index.local
    row_column, row_low, row_shift, row_length = index.row_column, index.row_low, index.row_shift, index.row_length
    of, to, cells = alone.first, alone.last, alone.cell
    united = nothing()
    for r in range(np.uint64(index.row[t]), np.uint64(index.row[t + 1])):
        c = np.uint64(row_column[r])
        row = everything()
        for k in range(of[c], to[c]):
            cell = np.int64(cells[np.uint64(k - begin)])
            at = _row_offset(cell, r, c, r < local[t], row_low, row_shift, offset, edge_start)
            if 0 <= at < row_length[r] * WORDS:
                row = both(row, load(words, np.uint64(row_at[r] + beyond + at)))
        if of[c] == to[c]:
            row = load(words, np.uint64(row_at[r] + beyond))
        united = either(united, row)
    return united


@inlined
def _verify_alone(
    n: int, begin: int, value: Any, index: Arrays, alone: AloneRoom, runs: MatchRuns, counters: Any
) -> bool:
    """Append those of n candidates that the event laid out matches. False: no room."""
    start, range_, low, high = index.start, index.range, index.low, index.high
    id_start, id = index.id_start, index.id
    of, to, cells, candidate, runs_id = alone.first, alone.last, alone.cell, alone.candidate, runs.id
    three, one, two, few = np.uint64(3), np.uint64(1), np.uint64(2), np.uint64(FEW)
    m = runs.used[1]
    for x in range(n):
        u = np.uint64(candidate[x])
        i, end = np.uint64(start[u]), np.uint64(start[u + one])
        hit = True
        while hit and i < end:
            c = np.uint64(range_[three * i])
            hit = False
            if i + few < end and range_[three * (i + few)] == c:
                beyond = end_of_list(i, end, range_)
                for k in range(of[c], to[c]):
                    hit |= on_list(value[k], i, beyond, low, high)
                i = beyond
            while i < end and range_[three * i] == c:
                begins, ends = range_[three * i + one], range_[three * i + two]
                for k in range(of[c], to[c]):
                    cell = cells[np.uint64(k - begin)]
                    if begins <= cell <= ends:
                        hit |= begins < cell < ends or low[i] <= value[k] <= high[i]
                i += one
        if hit:
            if m + id_start[u + one] - id_start[u] > runs_id.shape[0]:
                return False
            for k in range(id_start[u], id_start[u + one]):
                runs_id[m] = id[k]
                m += 1
    runs.used[1] = m
    counters[CANDIDATES] += n
    counters[VERIFIED] += n
    return True


@inlined
def _row_offset(
    cell: Any, r: Any, c: Any, local: bool, row_low: Any, row_shift: Any, offset: Any, edge_start: Any
) -> Any:
    """The distance of a cell's row from row_at[r]; that of a local one may lie outside."""
    if local:
        return ((cell - np.int64(row_low[r])) >> np.int64(row_shift[r])) * WORDS
    return np.int64(offset[np.uint64(edge_start[c] + cell - 1)])


class Single(NamedTuple):
    """An index, and what `match_single` needs besides."""

    tiles: Arrays
    by_columns: ColumnIndex
    slots: SlotBounds
    most_values: int  # values of an event, up to which it is tried by its columns
    most: int  # candidates that this may have
    room: Room
    alone: AloneRoom  # without room for the cells of an event
    runs: MatchRuns  # with room for one run, of all subscriptions
    chosen: Any  # [1] bool: True
    of_event: Any  # [2] int64: offsets of the matches
    counters: Any


@kernel
def match_single(offsets: Any, column: Any, value: Any, held: Any) -> Any:
    """The subscriptions, ascending, that a batch of one event satisfies; a held `Single`."""
    cell = np.empty(column.shape[0], np.uint16)
    out = np.empty(_match_single(Events(offsets, column, value), cell, address_of(held)), np.int32)
    if out.shape[0]:
        index, runs, of_event = held.arrays.tiles, held.arrays.runs, held.arrays.of_event
        arrange(runs, index.id, index.id_start, runs.id.shape[0], of_event, out)  # not all have an id here
    return out


@inner
def _match_single(events: Events, cell: Any, address: Any) -> int:
    """Match an event, with room for its cells, by the `Single` at an address; returns how many subscriptions match."""
    index, by_columns, slots, most_values, most, room, alone, runs, chosen, of_event, counters = arrays_at(address)
    runs.used[0] = runs.used[1] = runs.used[2] = 0
    sparse = cell.shape[0] <= most_values
    if not sparse or match_sparse(0, 1, events, by_columns, slots, room, most, runs, counters) != MATCHED:
        alone = AloneRoom(alone.first, alone.last, cell, alone.passed, alone.found, alone.candidate)
        parents = (np.int64(0), np.int64(index.parent.shape[0] - 1))
        match_alone(0, 1, chosen, events, parents, index, alone, runs, counters)
    of_event[0] = of_event[1] = 0
    count_matches(runs, index.id_start, of_event)
    return int(of_event[1])
