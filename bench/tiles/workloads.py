"""The workloads on which constants are swept: each one exercises a part of `tiles`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.papers.tiles import PCM
from bench.workloads.distributions import Distribution
from bench.workloads.synthetic import Workload


@dataclass(frozen=True)
class TimedPoint:
    workload: Workload
    batch: int  # events that are matched together; 1: by `alone`


BASE = Workload(subscriptions=100_000, attributes=20, predicates=(10, 10), width=0.3, events=1_024)
FILTERS = replace(PCM, subscriptions=100_000, events=1_024)
ZIPF = Distribution("zipf", 1.0)

POINTS = {
    "batch": TimedPoint(BASE, 1_024),
    "small": TimedPoint(replace(BASE, events=256), 64),
    "alone": TimedPoint(replace(BASE, events=64), 1),
    "precise": TimedPoint(replace(BASE, width=0.7, events=64), 64),
    "dense": TimedPoint(replace(BASE, width=0.7), 1_024),
    "mixed": TimedPoint(replace(BASE, attributes=50, predicates=(1, 5), width=0.05, width_spread=0.5), 512),
    "thousand": TimedPoint(replace(BASE, subscriptions=50_000, attributes=1_000, events=256), 256),
    "sparse": TimedPoint(FILTERS, 1_024),
    "names": TimedPoint(replace(FILTERS, attribute_distribution=ZIPF), 1_024),
}
