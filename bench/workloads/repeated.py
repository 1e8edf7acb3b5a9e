"""The subscriptions of another workload, each of them many times, and its events."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bench.errors import check
from bench.workloads.intervals import Intervals
from bench.workloads.prepared import SMALL
from bench.workloads.synthetic import Workload
from matchers.contract.tables import SubscriptionTable


@dataclass(frozen=True)
class Repeated:
    """Subscription s is the subscription s mod `different.subscriptions` of `different`."""

    subscriptions: int
    different: Workload

    def __post_init__(self) -> None:
        check(1 <= self.subscriptions < 2**31, "subscriptions", self.subscriptions, "from 1 to 2^31 - 1")

    def small(self) -> Repeated:
        different = replace(self.different, events=min(self.different.events, 2))
        return Repeated(min(self.subscriptions, SMALL), different)

    def prepared(self) -> Intervals:
        """Raises BenchError."""
        of = self.different.prepared()
        return Intervals(repeated(of.table, self.subscriptions), of.events, of.training)


def repeated(table: SubscriptionTable, n: int) -> SubscriptionTable:
    """The table of n subscriptions, of which s is the subscription s mod S of a table of S."""
    if n == table.n_subscriptions:
        return table
    times = -(-n // table.n_subscriptions)
    subscription = (np.arange(times, dtype=np.int32)[:, None] * table.n_subscriptions + table.subscription).ravel()
    kept = subscription < n
    return SubscriptionTable.of_sorted(
        subscription[kept],
        np.tile(table.column, times)[kept],
        np.tile(table.low, times)[kept],
        np.tile(table.high, times)[kept],
        n_subscriptions=n,
        n_columns=table.n_columns,
    )
