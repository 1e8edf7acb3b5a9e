"""The subscriptions and events of a configuration, as a benchmark takes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from bench.workloads.configurations.configuration import Configuration
from bench.workloads.configurations.events import batch, few_enough
from bench.workloads.configurations.subscriptions import table
from bench.workloads.intervals import Intervals
from bench.workloads.prepared import TRAINING

EVENTS = 1_024  # at most
SMALL_INTERVALS = 2_000  # of a table for which algorithms run all their kernels


@dataclass(frozen=True)
class RandomWorkload:
    configuration: Configuration
    events: int = EVENTS

    def small(self) -> RandomWorkload:
        whole = self.configuration
        n = min(whole.subscriptions, max(round(SMALL_INTERVALS / whole.intervals), 1))
        return RandomWorkload(replace(whole, subscriptions=n, different=min(whole.different, n)), min(self.events, 2))

    def prepared(self) -> Intervals:
        """Raises BenchError."""
        subscriptions = table(self.configuration)
        events = few_enough(subscriptions, batch(self.configuration, subscriptions, self.events, 1))
        training = partial(batch, self.configuration, subscriptions, min(TRAINING, len(events)), 2)
        return Intervals(subscriptions, events, training)
