"""Draw a sample of a table, and events that could come to it.

An event has an attribute as often as predicates have it; attributes that no predicate has come last. Its value is an
interval's own if that is one value, else half of them lie anywhere in the attribute's domain, a quarter within an
interval and a quarter at an end of one, so that texts, lists and skew occur as they will in events. A table does not
show how many attributes an event has, so there are events of several sizes, from as many attributes as a subscription
has to all there are.

All values of each fourth event lie anywhere in the domains and around them: in service many events match nothing, and
what rejects these fast is not always what finds matches fast.
"""

from __future__ import annotations

import numpy as np

from matchers.contract.tables import EventBatch, Float64, Int32, SubscriptionTable

SIZES = 4  # of events
ELSEWHERE = 4  # one event in so many
AROUND = 0.5  # of a domain, on either side
EVENTS = 1_024  # of each size, at most
VALUES = 100_000  # of all events of a size, about
LEAST = 64  # events
TIMES = 1 << 21  # that are drawn at once


def event_sizes(table: SubscriptionTable) -> list[float]:
    """Attributes of an event: as few as a subscription has, all columns, and between, where these are far apart."""
    few, most = max(float(table.needed.mean()), 1.0), float(max(table.n_columns, 1))
    if most < 2 * few:
        return [most]
    return [float(size) for size in np.geomspace(few, most, SIZES)]


def drawn(table: SubscriptionTable, size: float, seed: int = 1) -> EventBatch:
    """EVENTS of about `size` attributes each, or fewer if these are many."""
    r = np.random.default_rng(seed)
    of = np.flatnonzero(np.isfinite(table.low) | np.isfinite(table.high))
    used, predicates = np.unique(table.column[of], return_counts=True)
    if not len(of):
        return EventBatch.from_dense(np.empty((EVENTS, 0)))
    wanted = min(max(round(size), 1), len(used))
    others = _others(used, table.n_columns, max(round(size) - wanted, 0))
    n = int(np.clip(VALUES // (wanted + len(others)), LEAST, EVENTS))
    if wanted < len(used):  # the least of exponential times at rates of the predicates: drawn without replacement
        at_once = max(TIMES // len(used), 1)
        times = (r.exponential(size=(min(at_once, n - at), len(used))) for at in range(0, n, at_once))
        earliest = [np.argpartition(time / predicates, wanted - 1, axis=1)[:, :wanted] for time in times]
        which = np.sort(np.concatenate(earliest), axis=1).ravel()
    else:
        which = np.tile(np.arange(len(used)), n)
    event = np.repeat(np.arange(n), wanted)
    order = of[np.argsort(table.column[of], kind="stable")]
    start = np.concatenate(([0], np.cumsum(predicates)))
    at = order[start[which] + (r.random(len(which)) * predicates[which]).astype(np.int64)]
    low, high = table.low[at], table.high[at]
    low, high = np.where(np.isfinite(low), low, high), np.where(np.isfinite(high), high, low)
    least, greatest = _domains(table, used)
    anywhere = (r.random(len(at)) < 0.5) & (low < high)
    low, high = np.where(anywhere, least[which], low), np.where(anywhere, greatest[which], high)
    t = r.random(len(at))
    t = np.where(~anywhere & (r.random(len(at)) < 0.5), np.round(t), t)
    value = (1 - t) * low + t * high
    elsewhere = np.flatnonzero(event % ELSEWHERE == ELSEWHERE - 1)
    value[elsewhere] = _around(r, least[which[elsewhere]], greatest[which[elsewhere]])
    return EventBatch.from_values(
        np.concatenate((event, np.repeat(np.arange(n), len(others)))),
        np.concatenate((used[which], np.tile(others, n))),
        np.concatenate((value, np.zeros(n * len(others)))),
        n_events=n,
        n_columns=table.n_columns,
    )


def _around(r: np.random.Generator, least: Float64, greatest: Float64) -> Float64:
    """Values anywhere in domains and around them."""
    t = r.uniform(-AROUND, 1 + AROUND, len(least))
    one = least == greatest
    with np.errstate(over="ignore"):  # infinite where a domain is that of all doubles
        around: Float64 = (1 - t) * np.where(one, least - 1, least) + t * np.where(one, greatest + 1, greatest)
    return around


def _others(used: Int32, n_columns: int, n: int) -> Int32:
    """About n columns besides those that are used, or all: events also have attributes that no subscription has."""
    left = np.setdiff1d(np.arange(n_columns, dtype=np.int32), used)
    return left[:: max(len(left) // n, 1)][:n] if n else left[:0]


def _domains(table: SubscriptionTable, columns: Int32) -> tuple[Float64, Float64]:
    """The range of the finite ends of each column, without the least and the greatest hundredth."""
    column, ends = np.concatenate([table.column] * 2), np.concatenate([table.low, table.high])
    finite = np.isfinite(ends)
    order = np.lexsort((ends[finite], column[finite]))
    column, ends = column[finite][order], ends[finite][order]
    begin, end = np.searchsorted(column, columns), np.searchsorted(column, columns, side="right")
    margin = (end - begin) // 100
    return ends[begin + margin], ends[end - 1 - margin]


def sampled(table: SubscriptionTable, n: int) -> SubscriptionTable:
    """The table of n subscriptions, evenly spaced."""
    if n >= table.n_subscriptions:
        return table
    chosen = np.unique(np.linspace(0, table.n_subscriptions - 1, n).astype(np.int64))
    kept = np.zeros(table.n_subscriptions, bool)
    kept[chosen] = True
    rows = kept[table.subscription]
    return SubscriptionTable.of_sorted(
        np.searchsorted(chosen, table.subscription[rows]).astype(np.int32),
        table.column[rows],
        table.low[rows],
        table.high[rows],
        n_subscriptions=len(chosen),
        n_columns=table.n_columns,
    )
