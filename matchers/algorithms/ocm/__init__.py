"""`ocm`: filters in tables by their names, constraints column by column, counted for all tables side by side.

Source: Margara and Cugola, "High Performance Publish-Subscribe Matching Using Parallel Hardware" (PCM), sec. 3.1 and
3.2, the OpenMP Content Matcher. The symbols and tables are those of the paper: see algorithms/name_vectors.py.

- Filter selection: of an event only the Filters tables are looked at whose NameVector is within its own, NV_e.
- Constraint selection: in each of them the rows of names that the event has.
- Constraint evaluation and counting: a constraint of a filter with a name that the event lacks falls at a 64-bit
  Bloom filter of names, one AND; of the others the counter of its filter rises where it holds.

It is fast where events have few of many names, for then next to nothing is selected. Where an event has all names, all
is, and it is a scan column by column. There batches help: a table is gone through once for up to 64 events, whose
counters lie side by side (kernels/lanes.py). Where events have few of the names, hardly two of them select one table.

With `threads` the events of a batch are divided among them. For fewer events the tables are dealt out, as with the
paper's parallel for: no two have a filter in common. That is done where events have most of the names. Elsewhere few
tables are selected, which takes less time than handing work to a thread.

The paper states neither how many bits a NameVector has nor how tables within NV_e are found. Ours has 64 where a filter
constrains few of the names (FEW_OF_NAMES), so that an event probably has few too, else as many as leave FILTERS filters
a table on average. All vectors within NV_e are looked up, unless it is less work to go through all tables. `match`
lists filters where the paper marks interfaces; `forward` does the latter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from matchers.algorithms.lanes import Words, dense, in_lanes, list_chunks
from matchers.algorithms.name_vectors import NameVectors, best_bits, bloom_of
from matchers.algorithms.ocm.kernel import Constraints, Names, Tables, fewest_bits, index, ocm, ocm_in_lanes
from matchers.algorithms.pool import over, run
from matchers.contract.interfaces import Interfaces
from matchers.contract.matcher import Matcher, list_matches
from matchers.contract.tables import EventBatch, Int32, Int64, MatchBatch, SubscriptionTable, offsets_of
from matchers.errors import MatchingError

FILTERS = 8  # of a table, on average at least
FEW_OF_NAMES = 1 / 8  # of all names
MOST_COUNTED = 256  # names, of which a counter is a byte
_NO_INTERFACE: Int32 = np.empty(0, np.int32)
DENSE_LANES = 8  # lanes of a row at least
EVENTS_OF_THREAD = 256  # of a batch that is divided; they take a millisecond, and handing work to a thread 0.1 ms
CONSTRAINTS_OF_THREAD = 200_000  # of tables that are dealt out
Shares = tuple[tuple[int, int], ...]  # the tables of each thread


@dataclass(frozen=True, eq=False)
class Ocm(Matcher):
    names: Names
    tables: Tables
    constraints: Constraints
    shares: Shares

    def match(self, events: EventBatch) -> MatchBatch:
        return self._divided(events, self._match)

    def forward(self, events: EventBatch, interfaces: Interfaces) -> MatchBatch:
        def forward(part: EventBatch, shares: Shares) -> MatchBatch:
            if self._in_lanes(part) or not len(self.tables.filter_id):
                return interfaces.behind(self._match(part, shares))
            return self._list(part, shares, interfaces.of, interfaces.n)

        return self._divided(events, forward)

    def _divided(self, events: EventBatch, match: Callable[[EventBatch, Shares], MatchBatch]) -> MatchBatch:
        """Match on all threads that have enough to do."""
        n, threads = len(events), len(self.shares)
        whole = ((self.shares[0][0], self.shares[-1][1]),)
        if (parts := min(threads, n // EVENTS_OF_THREAD)) > 1:
            return MatchBatch.joined(over(n, parts, lambda begin, end: match(events.part(begin, end), whole)))
        names = len(self.names.bloom_of)
        if 2 * len(events.value) >= n * names and n * len(self.constraints.operator) >= threads * CONSTRAINTS_OF_THREAD:
            return match(events, self.shares)
        return match(events, whole)

    def _match(self, events: EventBatch, shares: Shares) -> MatchBatch:
        n = len(self.tables.filter_id)
        if not self._in_lanes(events):
            return self._list(events, shares, _NO_INTERFACE, n)

        def mark(base: int, bits: Words) -> None:
            ocm_in_lanes(base, events.arrays, self.names, self.tables, self.constraints, bits)

        return list_chunks(mark, len(events), n)

    def _in_lanes(self, events: EventBatch) -> bool:
        n_columns = len(self.names.bloom_of)
        return n_columns < MOST_COUNTED and dense(events, n_columns, DENSE_LANES) and in_lanes(events, n_columns)

    def _list(self, events: EventBatch, shares: Shares, interface: Int32, asked: int) -> MatchBatch:
        """Match each share of the tables on a thread."""
        arrays = events.arrays

        def step(share: tuple[int, int], first: int, out: Int32, counts: Int64) -> int:
            return ocm(first, arrays, self.names, self.tables, self.constraints, share, interface, asked, out, counts)

        parts = run([partial(list_matches, partial(step, share), len(events), asked) for share in shares])
        return _united(parts, max(asked, 1))


def _united(parts: list[MatchBatch], n: int) -> MatchBatch:
    """The union of the matches that threads found of the same events; subscriptions and interfaces are below n."""
    if len(parts) == 1:
        return parts[0]
    event = [np.repeat(np.arange(len(part), dtype=np.int64), np.diff(part.offsets)) for part in parts]
    found = np.unique(np.concatenate(event) * n + np.concatenate([part.subscription for part in parts]))
    counts = np.bincount(found // n, minlength=len(parts[0]))
    return MatchBatch(offsets_of(counts), (found % n).astype(np.int32))


def build(table: SubscriptionTable, bits: int | None = None, threads: int = 1) -> Ocm:
    """`bits` of a NameVector; without, by the table. Raises MatchingError."""
    if threads < 1:
        raise MatchingError(f"threads must be 1 or more, not {threads}")
    if bits is None:
        bits = 64 if _few(table) else best_bits(table, FILTERS)
    tables = NameVectors.of(table, bits)
    slots = np.zeros(1 << (2 * len(tables)).bit_length(), np.int32)
    shift = np.uint64(65 - len(slots).bit_length())
    index(tables.vector, slots, shift)
    work = tables.constraint_begin[tables.row_begin]
    ends = np.searchsorted(work, work[-1] * np.arange(1, threads) / threads).tolist()
    ends = [0, *ends, len(tables)]
    bloom = bloom_of(np.arange(table.n_columns, dtype=np.int32))
    return Ocm(
        Names(bits, bloom, fewest_bits(tables.vector), tables.vector, slots, shift),
        Tables(
            filter_begin=tables.filter_begin,
            filter_id=tables.filter_id,
            size=tables.size,
            row_begin=tables.row_begin,
            row_name=tables.row_name,
            constraint_begin=tables.constraint_begin,
            several_begin=tables.several_begin,
            most=int(np.diff(tables.filter_begin).max(initial=0)),
        ),
        Constraints(
            operator=tables.operator,
            low=tables.low,
            high=tables.high,
            rank=tables.rank,
            bloom=tables.bloom,
            interval_low=tables.interval_low,
            interval_high=tables.interval_high,
        ),
        tuple(pairwise(ends)),
    )


def _few(table: SubscriptionTable) -> bool:
    return table.n_subscriptions > 0 and float(table.needed.mean()) <= FEW_OF_NAMES * table.n_columns


STORED = (Ocm, Names, Tables, Constraints)
