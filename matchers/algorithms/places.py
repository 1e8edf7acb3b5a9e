"""Lay out subscriptions in the order of an index that groups them, with their predicates contiguous."""

from __future__ import annotations

import numpy as np

from matchers.algorithms.predicates import Predicates
from matchers.algorithms.unique import rows
from matchers.contract.tables import Int32, SubscriptionTable
from matchers.kernels.growing import with_room
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


def with_more(old: Hulls, first: int, table: SubscriptionTable) -> Hulls:
    """The predicates of the first subscriptions and of those of a table, in arrays with room."""
    new = hulls_of(Predicates.of(table), table.n_subscriptions)
    at = old.start[first]
    end = at + len(new.column)
    last = first + table.n_subscriptions + 1
    hulls = Hulls(
        with_room(old.start, last), with_room(old.column, end), with_room(old.low, end), with_room(old.high, end)
    )
    hulls.start[first:last] = at + new.start
    hulls.column[at:end], hulls.low[at:end], hulls.high[at:end] = new.column, new.low, new.high
    return hulls


def arrange(ids: Int32, hulls: Hulls) -> Places:
    """The predicates of some subscriptions in the order of `ids`."""
    return Places(ids, *rows(ids, *hulls, 1))


def placed(places: Places) -> PlacedHulls:
    return PlacedHulls(places.ids, places.start[:-1], places.start[1:], places.column, places.low, places.high)
