"""Reduce a subscription's intervals on a column to one predicate: their hull."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchers.contract.tables import Float64, Int32, Int64, SubscriptionTable
from matchers.kernels.rows import Rows


@dataclass(frozen=True, eq=False)
class Predicates:
    """The hull of the intervals of each (subscription, column), ascending by it: P of them."""

    subscription: Int32  # [P]
    column: Int32  # [P]
    low: Float64  # [P]
    high: Float64  # [P]
    first: Int64  # [P + 1]: predicate p has intervals first[p] .. first[p + 1] of the table

    @classmethod
    def of(cls, table: SubscriptionTable) -> Predicates:
        first = np.concatenate([np.flatnonzero(table.begins), [len(table.begins)]])
        begin, end = first[:-1], first[1:] - 1
        return cls(table.subscription[begin], table.column[begin], table.low[begin], table.high[end], first)

    def __len__(self) -> int:
        return len(self.subscription)

    def several(self, n_subscriptions: int) -> NDArray[np.bool_]:
        """[S]: whether the subscription has a predicate of several intervals, with gaps that its hull covers."""
        several = np.zeros(n_subscriptions, bool)
        several[self.subscription[np.diff(self.first) > 1]] = True
        return several

    def rows(self, table: SubscriptionTable) -> Rows:
        """The table that these are the hulls of, for kernels that check the matches by hulls."""
        several = self.several(table.n_subscriptions)
        return Rows(table.start, table.column, table.low, table.high, several, bool(several.any()))
