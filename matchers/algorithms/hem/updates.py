"""HEM's Algorithm 1: insert and delete subscriptions in place (sec. 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from matchers.algorithms.hem import Hem, lay_out
from matchers.algorithms.hem import kernel as kernels
from matchers.contract.tables import EventBatch, MatchBatch, SubscriptionTable
from matchers.errors import MatchingError


class UpdatableHem:
    """An index whose arrays change in place: `insert` and `delete` must not run beside each other or beside `match`."""

    def __init__(self, index: Hem, capacity: int) -> None:
        """The last `capacity` places of the index are free. Nothing else may match with it."""
        self._hem = index
        self._next = index.n - capacity  # the place of the next subscription
        self._chained = 0  # predicates in the chains

    def match(self, events: EventBatch) -> MatchBatch:
        return self._hem.match(events)

    def memory_bytes(self) -> int:
        return self._hem.memory_bytes()

    def insert(self, column: Sequence[int], low: Sequence[float], high: Sequence[float]) -> int:
        """Add a subscription with one predicate on each of some attributes; returns its number. Raises MatchingError.

        A pair goes into a cell of each end, and a mark into the sets that cover these cells: O(g psi_S).
        """
        d, index, chains, rows = self._hem.d, self._hem.index, self._hem.chains, self._hem.rows
        psi, i, s = len(column), self._chained, self._next
        if s == self._hem.n or i + psi > len(chains.low):
            raise MatchingError("there is no place for another subscription; build with more capacity")
        if len(set(column)) < psi or not all(0 <= a < d for a in column):
            raise MatchingError(f"the attributes must be different and within 0 .. {d - 1}, not {list(column)}")
        end = int(rows.start[s])
        for j, k in enumerate(np.argsort(column, kind="stable").tolist()):
            r = s // index.block * d + column[k]
            low_cell, high_cell = (self._cell(column[k], r, value) for value in (low[k], high[k]))
            kernels.insert(
                *(r, s % index.block, float(low[k]), float(high[k]), low_cell, high_cell, i + j, index, chains)
            )
            rows.column[end + j], rows.low[end + j], rows.high[end + j] = column[k], low[k], high[k]
        rows.start[s + 1 :] = end + psi
        index.needed[s] = psi
        self._next, self._chained = s + 1, i + psi
        bit = np.uint64(1) << np.uint64(s & 63)
        index.gone[s >> 6] &= ~bit
        if psi:
            index.constrained[s >> 6] |= bit
        return s

    def _cell(self, a: int, r: int, value: float) -> int:
        begin, per_unit, c = self._hem.domain
        return int(kernels.cell(float(value), begin[a], per_unit[a], c)) * int(self._hem.index.cells[r]) // c

    def delete(self, subscription: int) -> None:
        """O(1): it is marked as a mismatch of every event beforehand; its pairs stay. Raises MatchingError."""
        s, gone = subscription, self._hem.index.gone
        bit = np.uint64(1) << np.uint64(s & 63)
        if not 0 <= s < self._hem.n or gone[s >> 6] & bit:
            raise MatchingError(f"cannot delete {s}: no such subscription")
        gone[s >> 6] |= bit


def build(table: SubscriptionTable, *, capacity: int, psi: int = 16, **options: Any) -> UpdatableHem:
    """With room for `capacity` more subscriptions of `psi` predicates on average; options as for `hem.build`."""
    options = {"c": 1_000, "g": 32, "block": 65_536, **options}
    return UpdatableHem(lay_out(table, **options, capacity=capacity, psi=psi), capacity)
