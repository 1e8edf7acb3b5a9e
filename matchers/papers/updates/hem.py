"""HEM's Algorithm 1: insert and delete subscriptions in place (sec. 4.2)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from matchers.algorithms.hem import BLOCK, Hem, lay_out
from matchers.algorithms.hem import kernel as kernels
from matchers.algorithms.predicates import Predicates
from matchers.contract.tables import EventBatch, MatchBatch, SubscriptionTable
from matchers.kernels.bitsets import clear_bits, set_bits
from matchers.papers.updates.growing_table import GrowingTable

FEWEST_SUBSCRIPTIONS = 64  # subscriptions that there is room for after a build


class UpdatableHem:
    """HEM's index, whose arrays change in place.

    It has room for half as many subscriptions and intervals as it holds; when that is full, all is built anew.
    """

    _hem: Hem
    _chained: int  # predicates in the chains

    def __init__(
        self, table: SubscriptionTable, *, c: int = 1_000, g: int = 32, levels: int = 1, block: int = BLOCK
    ) -> None:
        """Options as for `hem.build`, but for `check`. Raises MatchingError."""
        self._options = (c, g, levels, block)
        self._table = GrowingTable(table)
        self._build()

    def match(self, events: EventBatch) -> MatchBatch:
        return self._hem.match(events)

    def memory_bytes(self) -> int:
        return self._table.memory_bytes() + self._hem.memory_bytes()

    def insert(self, table: SubscriptionTable) -> int:
        """A pair goes into a cell of each end, and a mark into the sets that cover these cells: O(g psi_S)."""
        begin = self._table.n_intervals
        first = self._table.append(table)
        hem, last, end = self._hem, self._table.n, self._table.n_intervals
        if last > hem.n or end > len(hem.rows.low):
            self._build()
            return first
        rows, index = hem.rows, hem.index
        rows.start[first : last + 1] = self._table.start[first : last + 1]
        rows.column[begin:end], rows.low[begin:end], rows.high[begin:end] = table.column, table.low, table.high
        new = Predicates.of(table)
        rows.several[first:last] = new.several(table.n_subscriptions)
        if rows.several[first:last].any():
            self._hem = replace(hem, rows=rows._replace(any_several=True))
        predicates = new.subscription, new.column, new.low, new.high
        kernels.insert(first, self._chained, *predicates, hem.domain, index, hem.chains)
        self._chained += len(new)
        index.needed[first:last] = table.needed
        set_bits(index.constrained, first + np.unique(new.subscription).astype(np.int64))
        clear_bits(index.gone, np.arange(first, last))
        return first

    def delete(self, subscriptions: ArrayLike) -> None:
        """O(1): a subscription is marked as a mismatch of every event beforehand; its pairs stay."""
        numbers = self._table.delete(subscriptions)
        if self._table.outgrown:
            self._build()
        else:
            set_bits(self._hem.index.gone, numbers)

    def _build(self) -> None:
        table = self._table.compact()
        capacity = max(table.n_subscriptions // 2, FEWEST_SUBSCRIPTIONS)
        psi = max(1, -(-len(table.low) // max(table.n_subscriptions, 1)))
        self._hem = lay_out(table, *self._options, capacity=capacity, psi=psi)
        self._chained = 0
        set_bits(self._hem.index.gone, np.flatnonzero(self._table.gone))
