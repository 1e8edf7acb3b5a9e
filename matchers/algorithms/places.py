"""Lay out subscriptions in the order of an index that groups them, with their predicates contiguous."""

from __future__ import annotations

import numpy as np

from matchers.algorithms.predicates import Predicates
from matchers.algorithms.unique import rows
from matchers.contract.tables import Int32, Int64, SubscriptionTable
from matchers.kernels.places import Places


def possible(table: SubscriptionTable) -> Int32:
    """The subscriptions that do not contradict themselves."""
    possible = np.ones(table.n_subscriptions, bool)
    possible[table.subscription[table.low > table.high]] = False
    return np.flatnonzero(possible).astype(np.int32)


def starts(predicates: Predicates, n_subscriptions: int) -> Int64:
    """[S + 1]: subscription s has predicates starts[s] .. starts[s + 1]."""
    return np.searchsorted(predicates.subscription, np.arange(n_subscriptions + 1)).astype(np.int64)


def arrange(ids: Int32, start: Int64, predicates: Predicates, table: SubscriptionTable) -> Places:
    several = predicates.several(table.n_subscriptions)
    return Places(
        ids,
        *rows(ids, start, predicates.column, predicates.low, predicates.high, 1),
        several,
        bool(several.any()),
        table.start,
        table.column,
        table.low,
        table.high,
    )
