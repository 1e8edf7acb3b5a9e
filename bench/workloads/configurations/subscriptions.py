"""The subscriptions of a configuration, as a table."""

from __future__ import annotations

import numpy as np

from bench.workloads.attributes import drawn, line
from bench.workloads.configurations.configuration import (
    FIRST,
    HALF_OPEN,
    LIST,
    MIXED,
    OPERATORS,
    RANGE,
    UNEQUAL,
    ZIPF,
    Configuration,
)
from bench.workloads.distributions import UNIFORM, Distribution
from bench.workloads.repeated import repeated
from matchers.contract.tables import Float64, Int32, Int64, SubscriptionTable, offsets_of

NEARNESS = 0.05  # share of a correlated value that is its own


def table(configuration: Configuration) -> SubscriptionTable:
    """Return the subscriptions of a configuration. Raises BenchError."""
    c = configuration
    rng = np.random.default_rng([c.seed, c.number, 0])
    offsets = offsets_of(rng.integers(*c.predicates, c.different, endpoint=True))
    column = columns(rng, c, offsets)
    value = coded(c, values(rng, c, c.values, offsets))
    if c.operator == MIXED:
        operator = rng.integers(len(OPERATORS), size=len(column))
    else:
        operator = np.full(len(column), OPERATORS.index(c.operator))
    of, low, high = _intervals(rng, c, operator, value)
    owner = np.repeat(np.arange(c.different, dtype=np.int32), np.diff(offsets))
    different = SubscriptionTable.from_intervals(
        owner[of], column[of], low, high, n_subscriptions=c.different, n_columns=c.attributes
    )
    return repeated(different, c.subscriptions)


def columns(rng: np.random.Generator, configuration: Configuration, offsets: Int64) -> Int32:
    """The distinct attributes of each row."""
    if configuration.popularity == FIRST:
        return (np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))).astype(np.int32)
    weights = Distribution(ZIPF, 1.0) if configuration.popularity == ZIPF else UNIFORM
    return drawn(rng, offsets, line(weights.weights(configuration.attributes)))


def values(rng: np.random.Generator, c: Configuration, distribution: Distribution, offsets: Int64) -> Float64:
    """A value for each attribute of each row. Correlated, those of a row are near one of its own."""
    own = distribution.values(rng, int(offsets[-1]))
    if not c.correlated:
        return own
    of_row = np.repeat(distribution.values(rng, len(offsets) - 1), np.diff(offsets))
    near: Float64 = (1 - NEARNESS) * of_row + NEARNESS * own
    return near


def coded(configuration: Configuration, value: Float64) -> Float64:
    """Round down to a multiple of 1 / codes below 1."""
    codes = configuration.codes
    return value if codes is None else np.minimum(np.floor(value * codes), codes - 1) / codes


def _intervals(
    rng: np.random.Generator, c: Configuration, operator: Int64, value: Float64
) -> tuple[Int64, Float64, Float64]:
    """(predicate, low, high) of each interval."""
    ranges, half_open, unequal, lists = (
        np.flatnonzero(operator == OPERATORS.index(name)) for name in (RANGE, HALF_OPEN, UNEQUAL, LIST)
    )
    low, high = value.copy(), value.copy()
    width = c.width * (rng.random(len(ranges)) if c.mixed_widths else 1.0)
    low[ranges] = coded(c, value[ranges] * (1 - width))
    high[ranges] = low[ranges] + width
    below = rng.random(len(half_open)) < 0.5
    low[half_open[below]], high[half_open[~below]] = -np.inf, np.inf
    low[unequal], high[unequal] = -np.inf, np.nextafter(value[unequal], -np.inf)
    above = np.nextafter(value[unequal], np.inf)
    listed = np.repeat(lists, c.list_length - 1)  # the first is there
    more = coded(c, c.values.values(rng, len(listed)))
    return (
        np.concatenate((np.arange(len(value)), unequal, listed)),
        np.concatenate((low, above, more)),
        np.concatenate((high, np.full(len(unequal), np.inf), more)),
    )
