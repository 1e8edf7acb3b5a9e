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
- A value in group q of 0 .. g - 1 selects B_(g - 1 - q) at LVE and B_q at HVE. Their union is stored as one set, which
  halves the memory and the ORs. One more set, B_g, is for events that lack the attribute. For an array of values, what
  the sets of all of them have in common is OR-ed.
- With g = 1 the one set of each end covers a half of the cells, as sec. 5.2 proposes; so it marks as g = 2 does where
  psi_E = d.
- Subscriptions are taken in blocks with an index each, and all events of a batch visit one attribute of one block
  before the next: its sets and pairs stay in the caches.
- Cells and sets of an attribute follow the predicates that a block has on it. An attribute with few of them has few
  cells and few sets or none, since marking them one by one is less than an OR. So memory is bounded by the predicates
  and not by d g (sec. 7 leaves the reduction of states as future work), and d = 10,000 is possible.
- All sets of a block are OR-ed first. Where they leave few of its subscriptions, each of these is checked by its own
  predicates (`kernels/rows.py`), since lines 4 and 7 touch many more pairs (`check`).
- Where an event lacks more than it has, what it lacks is found by counting what it has: a subscription with all of its
  attributes there is the exception (line 8 does d - psi_E ORs).
- Cells may have several levels (`levels`, `cells.py`), which sec. 7 leaves as future work: where bounds crowd, a cell
  is divided again, so that neither comparing in c_j nor marking the rest of its group costs more than elsewhere.
- Insertion hangs pairs on the cells as chains; deletion marks a subscription beforehand, for all events.
- Lists of values and arrays: the hull of several intervals is indexed, and what is left unmarked is then verified.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchers.algorithms.hem import kernel as kernels
from matchers.algorithms.hem.cells import divided
from matchers.algorithms.hem.kernel import ALL, Chains, Domain, Index, Pairs
from matchers.algorithms.predicates import Predicates
from matchers.contract.matcher import Matcher
from matchers.contract.tables import EventBatch, MatchBatch, SubscriptionTable, offsets_of
from matchers.errors import MatchingError
from matchers.kernels.rows import Rows
from matchers.kernels.vectors import aligned

Words = NDArray[np.uint64]

BLOCK = 1 << 16  # subscriptions: as many as 16 bits number
CHUNK_BITS = 1 << 27  # of B, of several events at a time
PAIRS_A_CELL = 4  # at least, on average
DENSE_PREDICATES = 32  # predicates of a block for each 64 subscriptions, from which on an attribute has all g groups


@dataclass(frozen=True, eq=False)
class Hem(Matcher):
    """Ids within a block count from its first subscription.

    Nothing changes it, unless an `UpdatableHem` (`papers/updates`) owns its arrays.
    """

    domain: Domain
    index: Index
    chains: Chains  # empty but for an `UpdatableHem`
    rows: Rows  # [n] places for subscriptions, free ones included

    @property
    def d(self) -> int:
        return len(self.domain.c)

    @property
    def n(self) -> int:
        return len(self.index.needed)

    @property
    def blocks(self) -> int:
        return len(self.index.gone) * 64 // self.index.block

    @property
    def effective_g(self) -> float:
        """Groups of an attribute of a block on average over the predicates: g, unless an attribute has few of them."""
        groups, predicates = self.index.groups, self.index.predicates
        return float((groups * predicates.astype(np.int64)).sum()) / max(int(predicates.sum()), 1)

    def match(self, events: EventBatch) -> MatchBatch:
        chunk = min(max(CHUNK_BITS // max(64 * len(self.index.gone), 1), 16), 1024)
        marks = self._marks(min(chunk, len(events)))
        parts = [
            self._match(events, first, min(first + chunk, len(events)), marks) for first in range(0, len(events), chunk)
        ]
        return MatchBatch.joined(parts)

    def run(self, events: EventBatch, steps: int) -> None:
        """Run some steps of Algorithm 2 (COMPARE, UNITE and MARK) and list nothing: to measure what they take."""
        self._mark(events, 0, len(events), self._marks(len(events)), steps)

    def _match(self, events: EventBatch, first: int, last: int, marks: Words) -> MatchBatch:
        arrays = events.arrays
        self._mark(events, first, last, marks, ALL)
        offsets = np.zeros(last - first + 1, np.int64)
        out = np.empty(kernels.count_unmarked(marks, last - first), np.int32)
        kernels.list_unmarked(first, arrays, self.d, self.index.block, marks, self.rows, out, offsets)
        return MatchBatch(offsets, out[: offsets[-1]])

    def _marks(self, n_events: int) -> Words:
        return np.empty((self.blocks, n_events, self.index.block // 64), np.uint64)

    def _mark(self, events: EventBatch, first: int, last: int, marks: Words, steps: int) -> None:
        arrays = events.arrays
        kernels.mark_mismatches(
            first, last - first, arrays, self.domain, self.index, self.chains, self.rows, marks, steps
        )

    def marks(self, events: EventBatch) -> int:
        """The number of pairs marked one by one for these events (line 7), the work that Theorem 1 is about.

        Without sets these are all pairs in the cells after (LVE) and before (HVE) that of the value.
        """
        located = kernels.locate(0, len(events), events.arrays, self.domain)
        begins, least_cell, greatest_cell = located.begins, located.least_cell, located.greatest_cell
        index, n = self.index, begins[-1]
        total = 0
        for b in range(self.blocks):
            r = b * self.d + np.repeat(np.arange(self.d), np.diff(begins))
            indexed = index.cells[r] > 0
            r = r[indexed]
            c, g, origin = index.cells[r].astype(np.int64), index.groups[r].astype(np.int64), index.first_cell[r]
            of_attribute = self.domain.c[r - b * self.d]
            g = np.where(g == 1, 2, g)
            cell = greatest_cell[:n][indexed] * c // of_attribute
            end = np.where(g > 0, (((cell + 1) * g - 1) // c + 1) * c // np.maximum(g, 1), c)
            total += int((index.low.start[origin + end] - index.low.start[origin + cell + 1]).sum())
            cell = least_cell[:n][indexed] * c // of_attribute
            begin = np.where(g > 0, ((cell + 1) * g - 1) // c * c // np.maximum(g, 1), 0)
            total += int((index.high.start[origin + cell] - index.high.start[origin + begin]).sum())
        return total


def build(
    table: SubscriptionTable,
    *,
    c: int = 1_000,
    g: int = 32,
    levels: int = 1,
    block: int = BLOCK,
    check: bool = True,
) -> Hem:
    """c and g as the paper has them by default (sec. 6.1, 6.2); g = 0 is HEM without its cache. With more `levels`,
    cells that hold far more than their share are divided again (`cells.py`). Without `check`, lines 4 and 7 mark all
    that the sets leave. Raises MatchingError."""
    return lay_out(table, c, g, levels, block, capacity=0, psi=0, check=check)


def lay_out(
    table: SubscriptionTable, c: int, g: int, levels: int, block: int, capacity: int, psi: int, check: bool = True
) -> Hem:
    """Build with room for `capacity` more subscriptions of `psi` predicates on average. Raises MatchingError."""
    if c < 1 or g < 0 or levels < 1 or capacity < 0 or not 64 <= block <= 1 << 16 or block % 64:
        raise MatchingError(
            f"c and levels must be 1 or more, g and capacity 0 or more, block a multiple of 64 from 64 to 65,536, "
            f"not c = {c}, levels = {levels}, g = {g}, capacity = {capacity}, block = {block}"
        )
    g = min(g, c)
    d, n = table.n_columns, table.n_subscriptions + capacity
    block = min(block, max(-(-n // 64) * 64, 64))
    blocks = max(-(-n // block), 1)
    hulls = Predicates.of(table)
    s, a, low, high = hulls.subscription, hulls.column, hulls.low, hulls.high
    domain = divided(table, hulls, c, levels)

    row = s // block * d + a
    present = predicates = np.bincount(row, minlength=blocks * d)
    if capacity:  # rows that will grow are laid out as those of a whole block would be on average
        open_from = table.n_subscriptions // block * d
        predicates = present.copy()
        predicates[open_from:] = np.maximum(present[open_from:], max(len(s) * block // max(n, 1) // max(d, 1), 1))
    cells = np.where(predicates > 0, np.clip(predicates // PAIRS_A_CELL, 1, np.tile(domain.c, blocks)), 0).astype(
        np.int32
    )
    words = block // 64
    groups = np.minimum(
        np.minimum((g * predicates + DENSE_PREDICATES * words // 2) // (DENSE_PREDICATES * words), g), cells
    ).astype(np.int32)
    first_cell = offsets_of(cells)
    n_sets = np.where(groups > 0, groups.astype(np.int64) + 1, 0)
    first_set = np.cumsum(n_sets) - n_sets

    ends = []
    for bound in (low, high):
        at = first_cell[row] + kernels.leaves(bound, a, domain).astype(np.int64) * cells[row] // domain.c[a]
        pairs = Pairs(np.zeros(first_cell[-1] + 1, np.int64), np.empty(len(s)), np.empty(len(s), np.uint16))
        kernels.sort_pairs(at, bound, (s % block).astype(np.uint16), pairs)
        ends.append(pairs)

    places = np.arange(blocks * block)
    index = Index(
        block=block,
        cells=cells,
        predicates=present.astype(np.int32),
        groups=groups,
        first_cell=first_cell,
        first_set=first_set,
        sets=aligned(int(n_sets.sum()) * words, np.uint64).reshape(-1, words),
        low=ends[0],
        high=ends[1],
        needed=np.concatenate((table.needed, np.zeros(capacity, np.int32))),
        constrained=np.packbits(np.isin(places, s), bitorder="little").view(np.uint64),
        gone=np.packbits(places >= table.n_subscriptions, bitorder="little").view(np.uint64),
        check=check,
    )
    kernels.fill_sets(index)
    spare = capacity * psi
    several = hulls.several(n)
    rows = Rows(
        np.concatenate((table.start, np.full(capacity, table.start[-1]))),
        np.concatenate((table.column, np.zeros(spare, np.int32))),
        np.concatenate((table.low, np.zeros(spare))),
        np.concatenate((table.high, np.zeros(spare))),
        several,
        bool(several.any()),
    )
    chains = chains_for(spare, blocks * d, int(first_cell[-1]) if capacity else 0)
    return Hem(domain, index, chains, rows)


def chains_for(predicates: int, rows: int, cells: int) -> Chains:
    """Empty chains with room for so many predicates, rows and cells."""
    return Chains(
        rows=np.zeros(rows, np.int32),
        low=np.empty(predicates),
        high=np.empty(predicates),
        id=np.empty(predicates, np.uint16),
        next_low=np.empty(predicates, np.int32),
        next_high=np.empty(predicates, np.int32),
        head_low=np.full(cells, -1, np.int32),
        head_high=np.full(cells, -1, np.int32),
    )


STORED = (Hem, Domain, Index, Chains, Pairs, Rows)
