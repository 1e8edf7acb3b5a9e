"""`hem`: cells, groups of cells with bit sets of the subscriptions in them, and the OR of what does not match.

Source: Shi and Qian, "HEM: A Hardware-aware Event Matching Algorithm for Content-based Pub/Sub Systems", DASFAA 2022.
Symbols are the paper's: n subscriptions of psi_S predicates, d attributes, c cells and g groups of an attribute, events
of psi_E values, LVE and HVE the low and high value end of a predicate, B the bit set in which mismatches are marked.

    cells of an attribute:    c_1 ............................... c_c      a value v lies in c_j
    LVE, sets over the end:                   |<---- B_2 ---->|<-B_1->|    B_i: low values in the last i * c/g cells
    HVE, sets over the begin: |<-B_1->|<---- B_2 ---->|                    B_i: high values in the first i * c/g cells

Every low value in a cell after c_j is above v and every high value in a cell before c_j below it, so their
subscriptions do not match. The largest set that does not reach c_j marks most of them with one OR (sec. 4.3,
Algorithm 2, lines 5 and 6); fewer than c/g cells are left to mark one by one (line 7), and the pairs in c_j itself
are compared (line 4). Theorem 1 (sec. 5.2): the sets save 1 - 1/g of the marks. `marks` counts them.

Where ours differs:
- Subscriptions are taken in blocks with an index each, and all events of a batch ask one attribute of one block before
  the next: its sets and pairs stay in the caches, while the paper streams 2 d sets of n bits for each event.
- Cells and sets of an attribute follow the predicates that a block has on it. An attribute with few of them has few
  cells and few sets or none, since marking them one by one is less than an OR. So memory is bounded by the predicates
  and not by d g (sec. 7 leaves the reduction of states as future work), and d = 10,000 is possible.
- Where an event lacks more than it has, what it lacks is found by counting what it has: a subscription with all of its
  attributes there is the exception (line 8 does d - psi_E ORs).
- Insertion hangs pairs on the cells as chains; deletion marks a subscription beforehand, for all events.
- Lists of values and arrays: the hull of several intervals is indexed, and what is left unmarked is then verified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from matchers.base import Matcher, list_matches
from matchers.cells import Cells
from matchers.errors import MatchingError
from matchers.kernels import hem as kernels
from matchers.predicates import Predicates
from matchers.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable, offsets_of

Words = NDArray[np.uint64]
UInt16 = NDArray[np.uint16]
Located = tuple[Int64, Int32, Float64, Float64, Int64, Int64]  # what `kernels.locate` fills

CHUNK_BITS = 1 << 27  # of B, of several events at a time
PAIRS_A_CELL = 4  # at least, on average
DENSE = 32  # predicates of a block for each 64 subscriptions, from which on an attribute has all g groups


@dataclass(frozen=True, eq=False)
class Hem(Matcher):
    """Block b and attribute a are row r = b * d + a. Ids within a block count from its first subscription.

    `insert` and `delete` change it in place, and must not run beside `match`.
    """

    n: int  # places for subscriptions, free ones included
    block: int  # subscriptions in a block, a multiple of 64
    c: int
    begin: Float64  # [d] `Cells`
    per_unit: Float64  # [d]
    cells: Int32  # [rows] c of the row, at most c
    groups: Int32  # [rows] g of the row; 0: no sets
    first_cell: Int64  # [rows + 1] a row owns cells first_cell[r] .. first_cell[r + 1]
    first_set: Int64  # [rows] LVE: B_1 .. B_g, then HVE: B_1 .. B_(g - 1), whose last would be the same as LVE's
    sets: Words  # [sets, block / 64]
    low_start: Int64  # [cells + 1] a cell owns the pairs low_start[k] .. low_start[k + 1]
    low: Float64  # [predicates] the pairs at LVE, by cell
    low_id: UInt16  # [predicates]
    high_start: Int64  # [cells + 1]
    high: Float64  # [predicates] the pairs at HVE
    high_id: UInt16  # [predicates]
    needed: Int32  # [n] predicates of each subscription
    several: NDArray[np.bool_]  # [n] has several intervals in some column, so must be verified
    start: Int64  # [n + 1] the table, to verify
    column: Int32  # [I]
    table_low: Float64  # [I]
    table_high: Float64  # [I]
    constrained: Words  # [n] bits: has predicates
    gone: Words  # [n] bits: places that are free
    later: Later

    @cached_property
    def any_several(self) -> bool:
        return bool(self.several.any())

    @property
    def d(self) -> int:
        return len(self.begin)

    @property
    def blocks(self) -> int:
        return len(self.gone) * 64 // self.block

    def memory_bytes(self) -> int:
        return super().memory_bytes() + self.later.memory_bytes()

    def match(self, events: EventBatch) -> MatchBatch:
        chunk = int(np.clip(CHUNK_BITS // max(64 * len(self.gone), 1), 16, 1024))
        marks = np.empty((self.blocks, min(chunk, len(events)), self.block // 64), np.uint64)
        parts = [
            self._match(events, first, min(first + chunk, len(events)), marks) for first in range(0, len(events), chunk)
        ]
        return MatchBatch.joined(parts)

    def _match(self, events: EventBatch, first: int, last: int, marks: Words) -> MatchBatch:
        kernels.mark_mismatches(
            first,
            last - first,
            events.offsets,
            events.column,
            *self._located(events, first, last),
            self.block,
            self.c,
            self.cells,
            self.groups,
            self.first_cell,
            self.first_set,
            self.sets,
            self.low_start,
            self.low,
            self.low_id,
            self.high_start,
            self.high,
            self.high_id,
            self.needed,
            self.constrained,
            self.gone,
            *self.later.arrays(),
            marks,
        )

        def step(done: int, out: Int32, counts: Int64) -> int:
            return (
                kernels.list_unmarked(
                    first + done,
                    last,
                    first,
                    events.offsets,
                    events.column,
                    events.value,
                    self.n,
                    self.block,
                    self.d,
                    marks,
                    self.several,
                    self.any_several,
                    self.start,
                    self.column,
                    self.table_low,
                    self.table_high,
                    out,
                    counts,
                )
                - first
            )

        return list_matches(step, last - first, self.n)

    def _located(self, events: EventBatch, first: int, last: int) -> Located:
        room = int(events.offsets[last] - events.offsets[first])
        begins, event = np.zeros(self.d + 1, np.int64), np.empty(room, np.int32)
        least, greatest = np.empty(room), np.empty(room)
        least_cell, greatest_cell = np.empty(room, np.int64), np.empty(room, np.int64)
        kernels.locate(
            *(events.offsets, events.column, events.value, first, last, self.begin, self.per_unit, self.c),
            *(begins, event, least, greatest, least_cell, greatest_cell),
        )
        return begins, event, least, greatest, least_cell, greatest_cell

    def marks(self, events: EventBatch) -> int:
        """How many pairs are marked one by one for these events (line 7), the work that Theorem 1 is about.

        Without sets these are all pairs in the cells after (LVE) and before (HVE) that of the value.
        """
        begins, _, _, _, least_cell, greatest_cell = self._located(events, 0, len(events))
        n = begins[-1]
        total = 0
        for b in range(self.blocks):
            r = b * self.d + np.repeat(np.arange(self.d), np.diff(begins))
            indexed = self.cells[r] > 0
            r = r[indexed]
            c, g, origin = self.cells[r].astype(np.int64), self.groups[r].astype(np.int64), self.first_cell[r]
            cell = greatest_cell[:n][indexed] * c // self.c
            covered = np.where(g > 0, ((c - cell) * g - 1) // c, 0) * c // np.maximum(g, 1)
            total += int((self.low_start[origin + c - covered] - self.low_start[origin + cell + 1]).sum())
            cell = least_cell[:n][indexed] * c // self.c
            covered = np.where(g > 0, ((cell + 1) * g - 1) // c, 0) * c // np.maximum(g, 1)
            total += int((self.high_start[origin + cell] - self.high_start[origin + covered]).sum())
        return total

    def insert(self, column: Sequence[int], low: Sequence[float], high: Sequence[float]) -> int:
        """Add a subscription of one predicate for each of some attributes; returns its id. Raises MatchingError.

        Algorithm 1: a pair into a cell of each end and a mark in the sets that cover these, O(g psi_S).
        """
        later = self.later
        psi, i = len(column), int(later.used[1])
        s = self.n - len(later.needed) + int(later.used[0])
        if int(later.used[0]) == len(later.needed) or i + psi > len(later.low):
            raise MatchingError("there is no place for another subscription; build with more capacity")
        if len(set(column)) < psi or not all(0 <= a < self.d for a in column):
            raise MatchingError(f"the attributes must be different and within 0 .. {self.d - 1}, not {list(column)}")
        rows = s // self.block * self.d + np.array(column, np.int64)
        order = np.argsort(column, kind="stable")
        end = int(self.start[s])
        for j, k in enumerate(order.tolist()):
            low_cell, high_cell = (self._cell(column[k], rows[k], v) for v in (low[k], high[k]))
            kernels.insert(
                *(int(rows[k]), s % self.block, float(low[k]), float(high[k]), low_cell, high_cell, i + j),
                *(self.cells, self.groups, self.first_cell, self.first_set, self.sets),
                *later.arrays(),
            )
            self.column[end + j], self.table_low[end + j], self.table_high[end + j] = column[k], low[k], high[k]
        self.start[s + 1 :] = end + psi
        self.needed[s] = psi
        later.used[:] = later.used[0] + 1, i + psi
        bit = np.uint64(1) << np.uint64(s & 63)
        self.gone[s >> 6] &= ~bit
        if psi:
            self.constrained[s >> 6] |= bit
        return s

    def _cell(self, a: int, r: int, value: float) -> int:
        cell = int(kernels.cell(float(value), self.begin[a], self.per_unit[a], self.c))
        return cell * int(self.cells[r]) // self.c

    def delete(self, s: int) -> None:
        """Remove a subscription, O(1): it is marked beforehand; its pairs stay. Raises MatchingError."""
        bit = np.uint64(1) << np.uint64(s & 63)
        if not 0 <= s < self.n or self.gone[s >> 6] & bit:
            raise MatchingError(f"cannot delete {s}: no such subscription")
        self.gone[s >> 6] |= bit


@dataclass(frozen=True, eq=False)
class Later:
    """Predicates that came after the build: chains of them hang on the cells, in a pool of fixed size."""

    used: Int64  # [2] subscriptions, predicates
    needed: Int32  # [capacity] gives the number of places
    rows: Int32  # [rows] how many each has
    low: Float64  # [pool]
    high: Float64  # [pool]
    id: UInt16  # [pool]
    next_low: Int32  # [pool] the next in the chain; -1: none
    next_high: Int32  # [pool]
    head_low: Int32  # [cells] first in the chain of a cell; no chains where there is no capacity
    head_high: Int32  # [cells]

    @classmethod
    def room(cls, subscriptions: int, predicates: int, rows: int, cells: int) -> Later:
        heads = cells if subscriptions else 0
        return cls(
            np.zeros(2, np.int64),
            np.zeros(subscriptions, np.int32),
            np.zeros(rows, np.int32),
            *(np.empty(predicates), np.empty(predicates), np.empty(predicates, np.uint16)),
            *(np.empty(predicates, np.int32), np.empty(predicates, np.int32)),
            *(np.full(heads, -1, np.int32), np.full(heads, -1, np.int32)),
        )

    def arrays(self) -> tuple[Int32, Float64, Float64, UInt16, Int32, Int32, Int32, Int32]:
        """As kernels take them."""
        return self.rows, self.low, self.high, self.id, self.next_low, self.next_high, self.head_low, self.head_high

    def memory_bytes(self) -> int:
        return sum(a.nbytes for a in self.arrays()) + self.used.nbytes + self.needed.nbytes


def build(
    table: SubscriptionTable, *, c: int = 1_000, g: int = 32, block: int = 32_768, capacity: int = 0, psi: int = 16
) -> Hem:
    """c and g as the paper has them by default (sec. 6.1, 6.2); g = 0 is HEM without its cache.

    `capacity`: how many subscriptions of `psi` predicates on average may be inserted later.
    """
    if c < 1 or g < 0 or capacity < 0 or not 64 <= block <= 1 << 16 or block % 64:
        raise MatchingError("hem: c from 1, g and capacity from 0, block a multiple of 64 from 64 to 65536")
    g = min(g, c)
    d, n = table.n_columns, table.n_subscriptions + capacity
    block = min(block, max(-(-n // 64) * 64, 64))
    blocks = max(-(-n // block), 1)
    hulls = Predicates.of(table)
    s, a, low, high = hulls.subscription, hulls.column, hulls.low, hulls.high
    domain = Cells.of(table, c)

    row = s // block * d + a
    predicates = np.bincount(row, minlength=blocks * d)
    if capacity:  # rows that will grow are laid out as those of a whole block would be on average
        open_from = table.n_subscriptions // block * d
        predicates[open_from:] = np.maximum(predicates[open_from:], max(len(s) * block // max(n, 1) // max(d, 1), 1))
    cells = np.where(predicates > 0, np.clip(predicates // PAIRS_A_CELL, 1, c), 0).astype(np.int32)
    words = block // 64
    groups = np.minimum(np.minimum((g * predicates + DENSE * words // 2) // (DENSE * words), g), cells).astype(np.int32)
    first_cell = offsets_of(cells)
    n_sets = np.maximum(2 * groups.astype(np.int64) - 1, 0)
    first_set = np.cumsum(n_sets) - n_sets

    ends = []
    for bound in (low, high):
        cell = kernels.cells(bound, a, domain.begin, domain.per_unit, c)
        at = first_cell[row] + cell.astype(np.int64) * cells[row] // c
        starts = np.zeros(first_cell[-1] + 1, np.int64)
        values, ids = np.empty(len(s)), np.empty(len(s), np.uint16)
        kernels.sort_pairs(at, bound, (s % block).astype(np.uint16), starts, values, ids)
        ends.append((starts, values, ids))
    (low_start, lows, low_id), (high_start, highs, high_id) = ends
    sets = np.zeros((int(n_sets.sum()), words), np.uint64)
    kernels.fill_sets(low_start, low_id, high_start, high_id, cells, groups, first_cell, first_set, sets)

    places = np.arange(blocks * block)
    constrained = np.isin(places, s)
    spare = capacity * psi
    return Hem(
        n,
        block,
        c,
        domain.begin,
        domain.per_unit,
        cells,
        groups,
        first_cell,
        first_set,
        sets,
        low_start,
        lows,
        low_id,
        high_start,
        highs,
        high_id,
        np.concatenate((table.needed, np.zeros(capacity, np.int32))),
        hulls.several(n),
        np.concatenate((table.start, np.full(capacity, table.start[-1]))),
        np.concatenate((table.column, np.zeros(spare, np.int32))),
        np.concatenate((table.low, np.zeros(spare))),
        np.concatenate((table.high, np.zeros(spare))),
        np.packbits(constrained, bitorder="little").view(np.uint64),
        np.packbits(places >= table.n_subscriptions, bitorder="little").view(np.uint64),
        Later.room(capacity, spare, blocks * d, int(first_cell[-1])),
    )


def space_model(n: int, d: int, psi_S: float, c: int = 1_000, g: int = 32, block: int = 32_768) -> int:  # noqa: N803
    """O(d c + d n g + n psi_S) of sec. 5.1 in bytes, where every attribute has its c cells and g sets.

    2 d g bit sets of n bits; 2 n psi_S pairs of a value and an id (8 + 2 bytes), and the bounds kept to verify (20);
    2 d c places where cells begin, in each block.
    """
    blocks = -(-n // block)
    return int(2 * d * g * n / 8 + n * psi_S * (2 * 10 + 20) + 2 * d * c * 8 * blocks)


def choose_g(memory_bytes: int, n: int, d: int, psi_S: float, c: int = 1_000) -> int:  # noqa: N803
    """The largest power of two of groups whose index fits: doubling g halves the marks and doubles the sets (6.2)."""
    g = 1
    while 2 * g <= c and space_model(n, d, psi_S, c, 2 * g) <= memory_bytes:
        g *= 2
    return g
