"""Choose the fastest algorithm for a table: measure on samples of two sizes and extrapolate.

    8,000 subscriptions   hem  8.0 us                       time of n subscriptions: t * (n / 24,000) ^ b,
    24,000                hem 24.0 us   tiles 4.1 us        b by the two samples, between 0 and 1

Events are drawn from the table: an attribute as often as predicates have it; its value an interval's own if that is one
value, else half of them anywhere in the attribute's domain, a quarter within an interval and a quarter at an end of
one, so that texts, lists and skew occur as they will in events. A table does not tell how many attributes an event has,
so there are events of several sizes, from as many attributes as a subscription has to all there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from matchers.contract.matcher import Matcher
from matchers.contract.tables import EventBatch, Float64, Int32, SubscriptionTable

Build = Callable[[SubscriptionTable], Matcher]
Clock = Callable[[], float]

SAMPLES = (6_000, 24_000)  # subscriptions
SIZES = 5  # of events
EVENTS = 256  # of each size
ROUNDS = 3  # of which the least time counts
BEHIND = 4.0  # times slower than the fastest on the small sample: not asked again
NEARLY = 1.1  # times behind that one index for all may be, where two would be level


@dataclass(frozen=True)
class Choice:
    """The algorithm for events of about `attributes` attributes, and its predicted time for one."""

    attributes: float
    algorithm: str
    us: float


def choose(
    table: SubscriptionTable, builds: Mapping[str, Build], clock: Clock, attributes: float | None = None
) -> list[Choice]:
    """A choice for each size of events, ascending, of two algorithms at most; or one for events of `attributes`."""
    sizes = event_sizes(table) if attributes is None else [attributes]
    batches = [drawn(sampled(table, SAMPLES[-1]), size) for size in sizes]
    reckoned = _reckoned(table, builds, batches, clock)
    names = list(builds)
    return [
        Choice(size, names[a], float(reckoned[a, i]) * 1e6)
        for i, (size, a) in enumerate(zip(sizes, _two_at_most(reckoned), strict=True))
    ]


def _two_at_most(seconds: Float64) -> list[int]:
    """For each size the algorithm, of [algorithms, sizes]: one for the small sizes and one for the others, so that the
    farthest behind the fastest is as near to it as can be. One for all, if that is nearly as good."""
    behind = seconds / seconds.min(axis=0)
    n, sizes = behind.shape
    found = []
    for a, b, k in product(range(n), range(n), range(1, sizes + 1)):
        worst = max(behind[a, :k].max(), behind[b, k:].max(initial=1.0))
        found.append((worst * (NEARLY if a != b else 1.0), [a] * k + [b] * (sizes - k)))
    return min(found)[1]


def event_sizes(table: SubscriptionTable) -> list[float]:
    """Attributes of an event: as few as a subscription has, all, and between, where these are far from each other."""
    few, most = max(float(table.needed.mean()), 1.0), float(max(len(np.unique(table.column)), 1))
    if most < 2 * few:
        return [most]
    return [float(size) for size in np.geomspace(few, most, SIZES)]


def drawn(table: SubscriptionTable, size: float, seed: int = 1) -> EventBatch:
    """EVENTS of about `size` attributes each."""
    r = np.random.default_rng(seed)
    of = np.flatnonzero(np.isfinite(table.low) | np.isfinite(table.high))
    used, predicates = np.unique(table.column[of], return_counts=True)
    if not len(of):
        return EventBatch.from_dense(np.empty((EVENTS, 0)))
    # The `size` least of exponential times at rates of the predicates: drawn without replacement by their weights.
    time = r.exponential(size=(EVENTS, len(used))) / predicates
    rank = time.argsort(axis=1).argsort(axis=1)
    event, which = np.nonzero(rank < round(size))
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
    return EventBatch.from_values(event, used[which], value, n_events=EVENTS, n_columns=table.n_columns)


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


def _reckoned(
    table: SubscriptionTable, builds: Mapping[str, Build], batches: list[EventBatch], clock: Clock
) -> Float64:
    """[algorithms, sizes]: seconds for an event with the whole table."""
    small, large = (sampled(table, n) for n in SAMPLES)
    seconds = np.array([_seconds(build(small), batches, clock) for build in builds.values()])
    if large.n_subscriptions == small.n_subscriptions:
        return seconds
    near = (seconds <= BEHIND * seconds.min(axis=0)).any(axis=1)
    reckoned = np.full(seconds.shape, np.inf)
    for i in np.flatnonzero(near).tolist():
        taken = _seconds(list(builds.values())[i](large), batches, clock)
        grown = np.log(taken / seconds[i]) / np.log(large.n_subscriptions / small.n_subscriptions)
        reckoned[i] = taken * (table.n_subscriptions / large.n_subscriptions) ** np.clip(grown, 0.0, 1.0)
    return reckoned


def _seconds(matcher: Matcher, batches: list[EventBatch], clock: Clock) -> Float64:
    """[sizes]: seconds for an event, without the first call, which compiles and loads."""
    matcher.match(batches[0])
    taken = np.empty((ROUNDS, len(batches)))
    for seconds in taken:
        for i, batch in enumerate(batches):
            began = clock()
            matcher.match(batch)
            seconds[i] = max(clock() - began, 1e-9) / len(batch)
    return np.asarray(taken.min(axis=0))
