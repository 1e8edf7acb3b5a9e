"""Lay out subscriptions in the order of an index that groups them, with their predicates contiguous."""

from __future__ import annotations

import numpy as np

from matchers.algorithms.predicates import Predicates
from matchers.algorithms.unique import rows
from matchers.contract.tables import Int32, SubscriptionTable
from matchers.kernels.places import Hulls, PlacedHulls, Places


def possible(table: SubscriptionTable) -> Int32:
    """The subscriptions without an empty interval: the others never match."""
    possible = np.ones(table.n_subscriptions, bool)
    possible[table.subscription[table.low > table.high]] = False
    return np.flatnonzero(possible).astype(np.int32)


def hulls_of(predicates: Predicates, n_subscriptions: int) -> Hulls:
    """The predicates as kernels take them."""
    start = np.searchsorted(predicates.subscription, np.arange(n_subscriptions + 1)).astype(np.int64)
    return Hulls(start, predicates.column, predicates.low, predicates.high)


def arrange(ids: Int32, hulls: Hulls) -> Places:
    """The predicates of some subscriptions in the order of `ids`."""
    return Places(ids, *rows(ids, *hulls, 1))


def placed(places: Places) -> PlacedHulls:
    return PlacedHulls(places.ids, places.start[:-1], places.start[1:], places.column, places.low, places.high)
