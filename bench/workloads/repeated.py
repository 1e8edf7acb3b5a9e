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
        table, n = of.table, of.table.n_subscriptions
        times = -(-self.subscriptions // n)
        subscription = (np.arange(times, dtype=np.int32)[:, None] * n + table.subscription).ravel()
        kept = subscription < self.subscriptions
        repeated = SubscriptionTable.of_sorted(
            subscription[kept],
            np.tile(table.column, times)[kept],
            np.tile(table.low, times)[kept],
            np.tile(table.high, times)[kept],
            n_subscriptions=self.subscriptions,
            n_columns=table.n_columns,
        )
        return Intervals(repeated, of.events, of.training)
