"""Insert subscriptions into PEM and delete them from it (sec. III-B2b, and VI on the cost).

The matching probability p of a new subscription is quantified, the first split point SP_i > p is found, and the
subscription goes to the i-th algorithm: with L = 2, to `tama` if p < SP, else to `rein`. Only one insertion is
required, into the index of that side; a deletion goes to the side that has the subscription.

p is normalised to [0, 1] by its rank, as in `pem.build`: among the subscriptions of the last whole build. Equal p have
a range of ranks, over which their numbers are spread evenly, so predicates of one width go to both sides.

Where it differs from `pem.build`: each side is one index, not slices of it, and SP follows Eq. 3 alone. A subscription
stays on its side when SP moves (the paper mentions no move): SP decides for those that come later, and for all when the
intervals have doubled and all is built anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchers.algorithms.cells import Cells
from matchers.algorithms.pem import Clock, check_options, probabilities, rows_of, united
from matchers.algorithms.pem.split_point import elastic
from matchers.algorithms.pool import run as run_all
from matchers.algorithms.rein import updates as rein_updates
from matchers.algorithms.tama import updates as tama_updates
from matchers.contract.growing_table import GrowingTable, nbytes, with_room
from matchers.contract.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable
from matchers.contract.updatable import Updatable

Builder = Callable[[SubscriptionTable], Updatable]

TAMA: Builder = partial(tama_updates.build, levels=17)  # sec. V A
GOLDEN = 0.618033988749895  # multiples of it are spread evenly over [0, 1), modulo 1


@dataclass(eq=False)
class Side:
    """One algorithm with its index, and the number of each subscription there."""

    index: Updatable
    number: Int32  # [n there and room]
    n: int

    def add(self, numbers: Int64) -> None:
        self.number = with_room(self.number, self.n + len(numbers))
        self.number[self.n : self.n + len(numbers)] = numbers
        self.n += len(numbers)


class UpdatablePem:
    """PEM's two indexes, whose arrays change in place. One thread at a time may match."""

    _domain: Cells
    _ranked: Float64  # p of all subscriptions of the last whole build, ascending
    _sides: tuple[Side, Side]  # for low and for high matching probabilities
    _high: NDArray[np.bool_]  # [n and room]: which side a subscription is on
    _local: Int32  # [n and room]: its number there

    def __init__(
        self,
        table: SubscriptionTable,
        builders: tuple[Builder, Builder],
        split: float,
        alpha: float,
        window: int,
        adjust: bool,
        events: EventBatch | None,
        clock: Clock,
    ) -> None:
        """Raises MatchingError."""
        self._table = GrowingTable(table)
        self._builders = builders
        self.split, self._alpha, self._window, self._adjust = split, alpha, window, adjust
        self._events, self._clock = events, clock
        self._times = [0.0, 0.0]  # of the sides in this window
        self._seen = 0  # events in this window
        self._build()

    def match(self, events: EventBatch) -> MatchBatch:
        window = self._window
        return MatchBatch.joined([self._match(events.part(at, at + window)) for at in range(0, len(events), window)])

    def memory_bytes(self) -> int:
        sides = sum(side.index.memory_bytes() + side.number.nbytes for side in self._sides)
        return sides + self._table.memory_bytes() + nbytes(self._ranked, self._high, self._local)

    def insert(self, table: SubscriptionTable) -> int:
        first = self._table.append(table)
        if self._table.outgrown:
            self._build()
            return first
        numbers = np.arange(first, self._table.n)
        self._local, self._high = with_room(self._local, self._table.n), with_room(self._high, self._table.n)
        high = self._rank(probabilities(table, self._events, self._domain), numbers) >= self.split
        self._high[numbers] = high
        for side, chosen in zip(self._sides, (~high, high), strict=True):
            own = numbers[chosen]
            self._local[own] = side.n + np.arange(len(own))
            side.index.insert(rows_of(table, np.flatnonzero(chosen).astype(np.int32)))
            side.add(own)
        return first

    def delete(self, subscriptions: ArrayLike) -> None:
        numbers = self._table.delete(subscriptions)
        if self._table.outgrown:
            self._build()
            return
        high = self._high[numbers]
        for side, own in zip(self._sides, (numbers[~high], numbers[high]), strict=True):
            side.index.delete(self._local[own])

    def _build(self) -> None:
        """Divide all subscriptions by the present split point."""
        table = self._table.compact()
        live = np.flatnonzero(~self._table.gone)
        self._domain = Cells.of(table, 1)
        p = probabilities(table, self._events, self._domain)[live]
        self._ranked = np.sort(p)
        high = self._rank(p, live) >= self.split
        self._high = np.zeros(self._table.n, np.bool_)
        self._high[live] = high
        self._local = np.zeros(self._table.n, np.int32)
        sides = []
        for builder, own in zip(self._builders, (live[~high], live[high]), strict=True):
            self._local[own] = np.arange(len(own))
            index = builder(rows_of(table, own.astype(np.int32)))
            sides.append(Side(index, own.astype(np.int32), len(own)))
        self._sides = (sides[0], sides[1])

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
        (low, low_s), (high, high_s) = run_all([partial(self._ask, side, events) for side in self._sides])
        if self._adjust:
            self._record(len(events), low_s, high_s)
        return united([low, high], len(events), self._table.n)

    def _ask(self, side: Side, events: EventBatch) -> tuple[MatchBatch, float]:
        began = self._clock()
        local = side.index.match(events)
        return MatchBatch(local.offsets, side.number[local.subscription]), self._clock() - began

    def _record(self, n_events: int, low_s: float, high_s: float) -> None:
        """Add the times of a piece; at the end of a window of psi events, move SP by Eq. 3 (algorithm 1)."""
        low_s, high_s = self._times[0] + low_s, self._times[1] + high_s
        self._times, self._seen = [low_s, high_s], self._seen + n_events
        if self._seen >= self._window:
            if low_s + high_s > 0:
                self.split = min(elastic(self.split, low_s, high_s, self._alpha), 1.0)
            self._times, self._seen = [0.0, 0.0], 0


def build(
    table: SubscriptionTable,
    *,
    split: float = 0.5,
    alpha: float = 0.2,
    window: int = 20,
    adjust: bool = True,
    events: EventBatch | None = None,
    low: Builder = TAMA,
    high: Builder = rein_updates.build,
    clock: Clock = perf_counter,
) -> UpdatablePem:
    """Options as for `pem.build`, with builders of updatable indexes. Raises MatchingError."""
    check_options(split, alpha, window)
    return UpdatablePem(table, (low, high), split, alpha, window, adjust, events, clock)
