"""Insert subscriptions into PEM and delete them from it (sec. III-B2b, and VI on the cost).

The matching probability p of a new subscription is quantified, the first split point SP_i > p is found, and the
subscription goes to the i-th algorithm; the last one has those with p from SP_(L - 1) on. Only one insertion is
required, into the index of that side; a deletion goes to the side that has the subscription.

p is normalised to [0, 1] by its rank, as in `pem.build`: among the subscriptions of the last whole build. Equal p have
a range of ranks, over which their numbers are spread evenly, so predicates of one width go to both sides.

Where it differs from `pem.build`: each side is one index, not slices of it, and SP follows Eq. 3 alone. A subscription
stays on its side when SP moves (the paper mentions no move): SP decides for those that come later, and for all when the
intervals have doubled and all is built anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from matchers.algorithms.cells import Cells
from matchers.algorithms.pool import run as run_all
from matchers.contract.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable
from matchers.kernels.growing import with_room
from matchers.papers.pem import Clock, Found, check_options, probabilities, rows_of, shares_below, united
from matchers.papers.pem.library import PAPER, check_algorithms
from matchers.papers.pem.split_point import elastic
from matchers.papers.updates.growing_table import GrowingTable, nbytes
from matchers.papers.updates.hem import UpdatableHem
from matchers.papers.updates.opindex import UpdatableOpIndex
from matchers.papers.updates.rein import UpdatableRein
from matchers.papers.updates.tama import UpdatableTama
from matchers.papers.updates.updatable import Updatable

Builder = Callable[[SubscriptionTable], Updatable]

LIBRARY: dict[str, Builder] = {
    "tama": partial(UpdatableTama, levels=17),  # sec. V A
    "opindex": UpdatableOpIndex,
    "hem": UpdatableHem,
    "rein": UpdatableRein,
}
GOLDEN = 0.618033988749895  # multiples of it are spread evenly over [0, 1), modulo 1


@dataclass(eq=False)
class UpdatableSide:
    """An algorithm with its index, and the number of each subscription in it."""

    index: Updatable
    number: Int32  # [n there and room]
    n: int

    def add(self, numbers: Int64) -> None:
        self.number = with_room(self.number, self.n + len(numbers))
        self.number[self.n : self.n + len(numbers)] = numbers
        self.n += len(numbers)


class UpdatablePem:
    """PEM's indexes, whose arrays change in place. One thread at a time may match."""

    _domain: Cells
    _ranked: Float64  # p of all subscriptions of the last whole build, ascending
    _sides: list[UpdatableSide]  # for low to high matching probabilities
    _side: Int32  # [n and room]: which of them a subscription is on
    _local: Int32  # [n and room]: its number there

    def __init__(
        self,
        table: SubscriptionTable,
        *,
        algorithms: Sequence[str] = PAPER,
        split: float | Sequence[float] | None = None,
        ranked: bool = True,
        alpha: float = 0.2,
        window: int = 20,
        adjust: bool = True,
        events: EventBatch | None = None,
        clock: Clock = perf_counter,
    ) -> None:
        """Options as for `pem.build`, but for `slices`; `algorithms` that can be updated. Raises MatchingError."""
        self._builders = [LIBRARY[name] for name in check_algorithms(algorithms, LIBRARY)]
        self.splits = check_options(len(self._builders), split, alpha, window)
        self._table = GrowingTable(table)
        self._alpha, self._window, self._adjust = alpha, window, adjust
        self._events, self._clock = events, clock
        self._times = np.zeros(len(self._builders))  # of the sides in this window
        self._seen = 0  # events in this window
        self._build(ranked)

    def match(self, events: EventBatch) -> MatchBatch:
        window = self._window
        return MatchBatch.joined([self._match(events.part(at, at + window)) for at in range(0, len(events), window)])

    def memory_bytes(self) -> int:
        sides = sum(side.index.memory_bytes() + side.number.nbytes for side in self._sides)
        return sides + self._table.memory_bytes() + nbytes(self._ranked, self._side, self._local)

    def insert(self, table: SubscriptionTable) -> int:
        first = self._table.append(table)
        if self._table.outgrown:
            self._build()
            return first
        numbers = np.arange(first, self._table.n)
        self._local, self._side = with_room(self._local, self._table.n), with_room(self._side, self._table.n)
        self._side[numbers] = self._classified(probabilities(table, self._events, self._domain), numbers)
        for i, side in enumerate(self._sides):
            own = numbers[self._side[numbers] == i]
            self._local[own] = side.n + np.arange(len(own))
            side.index.insert(rows_of(table, (own - first).astype(np.int32)))
            side.add(own)
        return first

    def delete(self, subscriptions: ArrayLike) -> None:
        numbers = self._table.delete(subscriptions)
        if self._table.outgrown:
            self._build()
            return
        for i, side in enumerate(self._sides):
            side.index.delete(self._local[numbers[self._side[numbers] == i]])

    def _build(self, ranked: bool = True) -> None:
        """Divide all subscriptions by the present split points, which are values of p if not `ranked`."""
        table = self._table.compact()
        live = np.flatnonzero(~self._table.gone)
        self._domain = Cells.of(table, 1)
        p = probabilities(table, self._events, self._domain)[live]
        self._ranked = np.sort(p)
        if not ranked:
            self.splits = shares_below(self.splits, self._ranked)
        self._side = np.full(self._table.n, -1, np.int32)
        self._side[live] = self._classified(p, live)
        self._local = np.zeros(self._table.n, np.int32)
        self._sides = []
        for i, builder in enumerate(self._builders):
            own = np.flatnonzero(self._side == i).astype(np.int32)
            self._local[own] = np.arange(len(own))
            self._sides.append(UpdatableSide(builder(rows_of(table, own)), own, len(own)))

    def _classified(self, p: Float64, numbers: Int64) -> Int64:
        """The side of each subscription: i of the first SP_i above its p, by rank."""
        return np.searchsorted(self.splits, self._rank(p, numbers), side="right")

    def _rank(self, p: Float64, numbers: Int64) -> Float64:
        """p normalised to [0, 1): the share of subscriptions below it, spread by number where p are equal."""
        n = len(self._ranked)
        if n == 0:
            return p
        below = np.searchsorted(self._ranked, p, "left") / n
        upto = np.searchsorted(self._ranked, p, "right") / n
        spread: Float64 = below + (upto - below) * (numbers * GOLDEN % 1.0)
        return spread

    def _match(self, events: EventBatch) -> MatchBatch:
        answers = run_all([partial(self._ask, side, events) for side in self._sides])
        if self._adjust:
            self._record(len(events), [taken_s for _, taken_s in answers])
        return united([found for found, _ in answers], len(events), self._table.n)

    def _ask(self, side: UpdatableSide, events: EventBatch) -> tuple[Found, float]:
        began = self._clock()
        found = (side.number, side.index.match(events))
        return found, self._clock() - began

    def _record(self, n_events: int, taken_s: Sequence[float]) -> None:
        """Add the times of a piece; at the end of a window of psi events, move each SP by Eq. 3 (algorithm 1)."""
        self._times, self._seen = self._times + taken_s, self._seen + n_events
        if self._seen >= self._window:
            moved = [
                elastic(sp, *both, self._alpha) if sum(both) > 0 else sp
                for sp, both in zip(self.splits, pairwise(self._times.tolist()), strict=True)
            ]
            self.splits = tuple(np.minimum(np.maximum.accumulate(moved), 1.0).tolist())
            self._times, self._seen = np.zeros(len(self._times)), 0
