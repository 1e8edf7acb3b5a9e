"""Watch lists: subscriptions to one attribute, each to a list of its values, as to the symbols of a portfolio.

The symbols are the whole numbers below `symbols`, all equally likely in a list and in an event. An event that hits has
one of some list. An event that misses has a number between two symbols: it lies within the lists and matches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bench.errors import check
from bench.workloads.intervals import Intervals
from bench.workloads.prepared import TRAINING
from matchers.contract.tables import EventBatch, Float64, SubscriptionTable

SMALL_VALUES = 10_000  # of all lists together, for which algorithms run all their kernels


@dataclass(frozen=True)
class WatchLists:
    subscriptions: int
    length: int  # values of a list
    symbols: int
    hits: bool  # whether events have a value of some list
    events: int
    seed: int = 1

    def __post_init__(self) -> None:
        check(1 <= self.subscriptions < 2**31, "subscriptions", self.subscriptions, "from 1 to 2^31 - 1")
        check(1 <= self.length <= self.symbols, "length", self.length, f"within 1 .. {self.symbols}, the symbols")
        check(self.events >= 1, "events", self.events, "1 or more")

    def small(self) -> WatchLists:
        few = max(SMALL_VALUES // self.length, 1)
        return replace(self, subscriptions=min(self.subscriptions, few), events=min(self.events, 2))

    def prepared(self) -> Intervals:
        lists = self._lists()
        n = self.subscriptions
        values = lists.ravel()
        subscription = np.repeat(np.arange(n, dtype=np.int32), self.length)
        table = SubscriptionTable.of_sorted(
            subscription, np.zeros(len(values), np.int32), values, values.copy(), n_subscriptions=n, n_columns=1
        )
        return Intervals(table, self._batch(values, self.events, 1), lambda: self._batch(values, TRAINING, 2))

    def _lists(self) -> Float64:
        """[S, length], ascending: one of each of `length` equal parts of the symbols, so all are different."""
        rng = np.random.default_rng([self.seed, 0])
        ends = np.linspace(0, self.symbols, self.length + 1).astype(np.int64)
        return rng.integers(ends[:-1], ends[1:], (self.subscriptions, self.length)).astype(np.float64)

    def _batch(self, values: Float64, n: int, part: int) -> EventBatch:
        rng = np.random.default_rng([self.seed, part])
        value = rng.choice(values, n) if self.hits else rng.integers(0, self.symbols, n) + 0.5
        return EventBatch.from_dense(value[:, None])
