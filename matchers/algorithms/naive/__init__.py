"""`naive`: the promise of a SubscriptionTable, word for word, in plain Python."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from matchers.contract.matcher import Matcher
from matchers.contract.tables import EventBatch, Float64, Int32, MatchBatch, SubscriptionTable, offsets_of


@dataclass(frozen=True, eq=False)
class Naive(Matcher):
    subscription: Int32  # [I]
    column: Int32  # [I]
    low: Float64  # [I]
    high: Float64  # [I]
    n_subscriptions: int

    def match(self, events: EventBatch) -> MatchBatch:
        wanted: list[dict[int, list[tuple[float, float]]]] = [defaultdict(list) for _ in range(self.n_subscriptions)]
        columns = (self.subscription.tolist(), self.column.tolist(), self.low.tolist(), self.high.tolist())
        for s, c, low, high in zip(*columns, strict=True):
            wanted[s][c].append((low, high))

        matched = []
        for begin, end in zip(events.offsets[:-1], events.offsets[1:], strict=True):
            values = defaultdict(list)
            for c, value in zip(events.column[begin:end].tolist(), events.value[begin:end].tolist(), strict=True):
                values[c].append(value)
            matched.append(
                [
                    s
                    for s, conditions in enumerate(wanted)
                    if all(
                        any(low <= value <= high for value in values[c] for low, high in intervals)
                        for c, intervals in conditions.items()
                    )
                ]
            )
        counts = [len(m) for m in matched]
        return MatchBatch(
            offsets_of(counts),
            np.array([s for m in matched for s in m], np.int32),
        )


def build(table: SubscriptionTable) -> Naive:
    return Naive(table.subscription, table.column, table.low, table.high, table.n_subscriptions)


STORED = (Naive,)
