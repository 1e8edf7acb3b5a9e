"""Match subscriptions that are the same as one, and list all of them.

Where people subscribe to the same things, an index of the different subscriptions is a fraction of that of all, and the
choice of its algorithm is made for what it holds: 10,000 subscriptions that are the same are a table of one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from matchers.algorithms.auto.kernel import Same, expanded, expanded_alone
from matchers.algorithms.unique import Unique, rows
from matchers.contract.held import ArraysHandle
from matchers.contract.matcher import Matcher
from matchers.contract.tables import EventBatch, Int32, Int64, MatchBatch, SubscriptionTable
from matchers.kernels.jit import direct

SAME = 0.5  # share of different subscriptions, up to which these have an index of their own


@dataclass(frozen=True, eq=False)
class Once(Matcher):
    """The S subscriptions of a table, of which U are different."""

    matcher: Matcher  # of these U
    id_start: Int64  # [U + 1]
    id: Int32  # the subscriptions that are the same as u: id_start[u] .. id_start[u + 1], ascending
    unique_of: Int32  # [S] the u that each one is the same as; U: none

    def match(self, events: EventBatch) -> MatchBatch:
        found = self.matcher.match(events)
        return MatchBatch(
            *expanded(found.offsets, found.subscription, self.id_start, self.id, self.unique_of, len(self.unique_of))
        )

    def alone(self) -> Callable[[EventBatch], Int32]:
        match, held = self.matcher.alone(), ArraysHandle(Same(self.id_start, self.id, self.unique_of))
        expand = direct(expanded_alone, np.empty(0, np.int32), held)

        def match_one(event: EventBatch) -> Int32:
            found = match(event)
            return expand(found, held) if len(found) else found

        return match_one

    def memory_bytes(self) -> int:
        return super().memory_bytes() + self.matcher.memory_bytes()


def different(table: SubscriptionTable) -> tuple[SubscriptionTable, Callable[[Matcher], Matcher]]:
    """The table of the different subscriptions, and what makes a matcher of the whole table from one of these.

    The table itself, and what changes nothing, where most subscriptions differ.
    """
    unique = Unique.of(table, 1)
    n = len(unique.one)
    if n > SAME * table.n_subscriptions:
        return table, lambda matcher: matcher
    start, column, low, high = rows(unique.one, table.start, table.column, table.low, table.high, 1)
    subscription = np.repeat(np.arange(n, dtype=np.int32), np.diff(start))
    own = SubscriptionTable.of_sorted(subscription, column, low, high, n_subscriptions=n, n_columns=table.n_columns)
    id_start = unique.id_start.astype(np.int64)
    unique_of = np.full(table.n_subscriptions, n, np.int32)  # contradictory ones are the same as none
    unique_of[unique.id] = np.repeat(np.arange(n, dtype=np.int32), np.diff(id_start))
    return own, lambda matcher: Once(matcher, id_start, unique.id, unique_of).read_only()
