"""The events of a configuration, which satisfy subscriptions or miss them."""

from __future__ import annotations

import numpy as np

from bench.workloads.configurations.configuration import BEYOND, ELSEWHERE, HIT, SAME, Configuration
from bench.workloads.configurations.subscriptions import coded, columns, values
from bench.workloads.distributions import UNIFORM, Distribution
from matchers import ALGORITHMS, EventBatch, SubscriptionTable
from matchers.contract.tables import Float64, Int64, offsets_of

MOST_MATCHES = 64_000_000  # of all events: a list of 256 MB
FEWEST = 64  # events, however many subscriptions they match


def batch(configuration: Configuration, table: SubscriptionTable, n: int, part: int) -> EventBatch:
    """n events; those of another part are others of the same kind. Raises BenchError."""
    c = configuration
    rng = np.random.default_rng([c.seed, c.number, part])
    drawn = 1 if c.event_kind == SAME else n
    size = c.attributes if c.event_size is None else c.event_size
    offsets = offsets_of(np.full(drawn, size))
    column = columns(rng, c, offsets)
    event = np.repeat(np.arange(drawn), size)
    if c.event_kind == ELSEWHERE:
        other = Distribution("zipf", 1.0) if c.values == UNIFORM else UNIFORM
        value = values(rng, c, other, offsets)
    else:
        value = coded(c, values(rng, c, c.values, offsets)) + (2.0 if c.event_kind == BEYOND else 0.0)
    if c.event_kind in (HIT, SAME):
        of, wanted, within = _satisfying(rng, table, drawn)
        kept = ~np.isin(event * c.attributes + column, of * c.attributes + wanted)
        event, column = np.concatenate((event[kept], of)), np.concatenate((column[kept], wanted)).astype(np.int32)
        value = np.concatenate((value[kept], within))
    if c.event_kind == SAME:
        event, column, value = np.repeat(np.arange(n), len(event)), np.tile(column, n), np.tile(value, n)
    return EventBatch.from_values(event, column, value, n_events=n, n_columns=c.attributes)


def few_enough(table: SubscriptionTable, events: EventBatch) -> EventBatch:
    """Return the first events with about MOST_MATCHES matches together, at least FEWEST events."""
    matches = ALGORITHMS["scan"](table).match(events.part(0, FEWEST))
    mean = len(matches.subscription) / max(len(matches), 1)
    return events.part(0, max(int(MOST_MATCHES / max(mean, 1.0)), FEWEST))


def _satisfying(rng: np.random.Generator, table: SubscriptionTable, n: int) -> tuple[Int64, Int64, Float64]:
    """(event, column, value): for each event the columns of some subscription, each with a value within an interval."""
    of = rng.integers(table.n_subscriptions, size=n)
    begin = np.flatnonzero(table.begins)  # of the intervals of a subscription in a column
    end = np.append(begin[1:], len(table.column))
    sizes = table.needed[of].astype(np.int64)
    first = offsets_of(table.needed)[of]
    event = np.repeat(np.arange(n), sizes)
    which = np.arange(len(event)) - np.repeat(offsets_of(sizes)[:-1], sizes) + np.repeat(first, sizes)
    at = rng.integers(begin[which], end[which])
    low, high = table.low[at], table.high[at]
    least = np.where(np.isfinite(low), low, np.minimum(high, 0.0))
    greatest = np.where(np.isfinite(high), high, np.maximum(low, 1.0))
    value = least + rng.random(len(at)) * (greatest - least)
    return event, table.column[at].astype(np.int64), np.clip(value, low, high)
