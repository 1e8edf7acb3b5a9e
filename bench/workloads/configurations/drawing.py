"""Draw configurations: each is determined by its seed and number alone.

Sizes are drawn on a logarithmic scale, and large ones are rarer. So that a configuration takes seconds to minutes, a
table has MOST_INTERVALS: where subscriptions have many intervals each, there are fewer subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from math import pow

import numpy as np

from bench.workloads.configurations.configuration import (
    KINDS,
    LIST,
    MIXED,
    OPERATORS,
    POPULARITIES,
    Configuration,
    intervals,
)
from bench.workloads.distributions import Distribution

LEAST_SUBSCRIPTIONS, MOST_SUBSCRIPTIONS = 10, 1_000_000
RARITY = 1.5  # above 1, sizes are the rarer the larger they are
MOST_INTERVALS = 4_000_000
MOST_ATTRIBUTES, MOST_PREDICATES, MOST_LISTED, MOST_CODES = 1_000, 20, 5_000, 10_000
VALUES = ("uniform", "zipf:1", "normal:0.02", "pareto:2", "hotspots:4")


def configurations(seed: int) -> Iterator[Configuration]:
    return (configuration(seed, number) for number in count())


def configuration(seed: int, number: int) -> Configuration:
    rng = np.random.default_rng([seed, number])

    def sometimes(share: float) -> bool:
        return bool(rng.random() < share)

    attributes = _size(rng, 1, MOST_ATTRIBUTES)
    most = int(rng.integers(1, min(attributes, MOST_PREDICATES), endpoint=True))
    predicates = (1 if sometimes(0.5) else most, most)
    operator = str(rng.choice([*OPERATORS, MIXED]))
    codes = _size(rng, 2, MOST_CODES) if sometimes(0.5) else None
    listed = _size(rng, 1, min(MOST_LISTED, codes or MOST_LISTED)) if operator in (LIST, MIXED) else 1
    each = sum(predicates) / 2 * intervals(operator, listed)
    n = min(_size(rng, LEAST_SUBSCRIPTIONS, MOST_SUBSCRIPTIONS, RARITY), max(int(MOST_INTERVALS / each), 1))
    different = _size(rng, 1, n, RARITY) if sometimes(0.25) else n
    return Configuration(
        seed=seed,
        number=number,
        subscriptions=n,
        different=1 if sometimes(0.05) else different,
        attributes=attributes,
        predicates=predicates,
        popularity=str(rng.choice(POPULARITIES)),
        operator=operator,
        width=_width(rng),
        mixed_widths=sometimes(0.3),
        list_length=listed,
        values=Distribution.parse(str(rng.choice(VALUES))),
        codes=codes,
        correlated=sometimes(0.2),
        event_kind=str(rng.choice(KINDS, p=(0.3, 0.3, 0.2, 0.1, 0.1))),
        event_size=_size(rng, 1, attributes) if sometimes(0.5) else None,
    )


def _size(rng: np.random.Generator, least: int, most: int, rarity: float = 1.0) -> int:
    return round(least * pow(most / least, pow(rng.random(), rarity)))


def _width(rng: np.random.Generator) -> float:
    """Draw a width: half of them log-uniform from 0.0001 to 0.1, half uniform up to 0.99."""
    width = 10 ** rng.uniform(-4, -1) if rng.random() < 0.5 else rng.uniform(0.0, 0.99)
    return round(float(width), 5)
