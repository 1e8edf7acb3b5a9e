"""Choose the fastest algorithm for a table: measure on samples of two sizes and extrapolate.

    6,000 subscriptions   hem  8.0 us                       time of n subscriptions: t * (n / 24,000) ^ b,
    24,000                hem 24.0 us   tiles 4.1 us        b by the two samples, between 0 and 1

Each is asked about events that come alone, few at once, and many; of few attributes, and of many (drawing.py). Who is
far behind everywhere on the small sample is not asked about the large one. When the time is up, what is known by then
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from matchers.algorithms.auto.drawing import EVENTS, drawn, event_sizes, sampled
from matchers.contract.matcher import Matcher
from matchers.contract.tables import EventBatch, Float64, SubscriptionTable

Build = Callable[[SubscriptionTable], Matcher]
Clock = Callable[[], float]

SAMPLES = (6_000, 24_000)  # subscriptions
BATCHES = (1, 64, EVENTS)  # events at once
TINY = 64  # subscriptions, and events, that have all kernels loaded
CALLS = {1: 32, 64: 4}  # of a round; one of more events
ROUNDS = 5  # of which the least time counts
BEHIND = 4.0  # times slower than the fastest: not asked again
PAYS = np.log(1.2) ** 2  # one case a fifth faster pays for one more index
CALL_S = 0.01  # for all calls of a round, about
MOST_S = 1.5  # of the processor, from which on nothing more is begun


@dataclass(frozen=True)
class Choice:
    """The algorithm for about `batch` events at once of about `attributes` attributes, and its predicted time."""

    batch: int
    attributes: float
    algorithm: str
    us: float  # of an event


def choose(
    table: SubscriptionTable,
    builds: Mapping[str, Build],
    clock: Clock,
    attributes: float | None = None,
    batch: float | None = None,
) -> list[Choice]:
    """A choice for each batch and size of events, ascending, of three algorithms at most, of two for a large table.

    `attributes` and `batch`: what events have and come in on average, where that is known.
    """
    batches = BATCHES if batch is None else (min(BATCHES, key=lambda known: abs(np.log(known / batch))),)
    sizes = event_sizes(table) if attributes is None else [attributes]
    seconds = _Measuring(table, batches, sizes, clock).seconds(builds)
    names = list(builds)
    algorithms = _several(seconds, 2 if table.n_subscriptions > SAMPLES[-1] else 3)
    return [
        Choice(*case, names[a], float(seconds[a, i]) * 1e6)
        for i, (case, a) in enumerate(zip(product(batches, sizes), algorithms, strict=True))
    ]


def _several(seconds: Float64, most: int) -> list[int]:
    """For each case the algorithm, of [algorithms, cases], of `most` different ones.

    Of all sets of algorithms it is the one where the fastest for each case is least behind the fastest of all, by the
    sum of the squares of logarithms: far behind somewhere counts for more than a little everywhere. One more has to
    pay.
    """
    behind = np.log(seconds / seconds.min(axis=0)) ** 2
    best: tuple[int, ...] = (0,)
    score = np.inf
    for n in range(1, most + 1):
        for chosen in combinations(range(len(behind)), n):
            own = behind[list(chosen)].min(axis=0).sum() + n * PAYS
            if own < score:
                best, score = chosen, own
    return [best[i] for i in seconds[list(best)].argmin(axis=0)]


class _Measuring:
    """The cases, batches times sizes of events, and how long they may take together."""

    def __init__(self, table: SubscriptionTable, batches: Sequence[int], sizes: Sequence[float], clock: Clock) -> None:
        self.table, self.batches, self.clock = table, batches, clock
        self.end = np.inf
        self.events = [drawn(sampled(table, SAMPLES[-1]), size) for size in sizes]

    def seconds(self, builds: Mapping[str, Build]) -> Float64:
        """[algorithms, cases]: seconds for an event with the whole table; infinite for those that are far behind."""
        self._load(builds.values())
        self.end = self.clock() + MOST_S
        small, large = (sampled(self.table, n) for n in SAMPLES)
        seconds = self._of(small, list(builds.values()))
        if large.n_subscriptions == small.n_subscriptions:
            return seconds
        near = (seconds <= BEHIND * seconds.min(axis=0)).any(axis=1)
        behind = np.log(seconds / seconds.min(axis=0)) ** 2
        asked = np.flatnonzero(near)[np.argsort(behind[near].sum(axis=1))]
        taken = self._of(large, [list(builds.values())[i] for i in asked])
        known = np.isfinite(taken)
        grown = np.zeros_like(taken)
        grown[known] = np.log((taken / seconds[asked])[known])
        exponent = np.clip(grown / np.log(large.n_subscriptions / small.n_subscriptions), 0.0, 1.0)
        reckoned = np.full(seconds.shape, np.inf)
        reckoned[asked] = taken * (self.table.n_subscriptions / large.n_subscriptions) ** exponent
        return reckoned

    def _load(self, builds: Iterable[Build]) -> None:
        """Have the kernels in this process, so that no time is that of loading or compiling them."""
        tiny, events = sampled(self.table, TINY), self.events[0].part(0, TINY)
        for build in builds:
            matcher = build(tiny)
            matcher.match(events)
            matcher.alone()(events.part(0, 1))

    def _of(self, table: SubscriptionTable, builds: Sequence[Build]) -> Float64:
        """[algorithms, cases]: seconds for an event with this table, at least of the first."""
        seconds = np.full((len(builds), len(self.batches) * len(self.events)), np.inf)
        for taken, build in zip(seconds, builds, strict=True):
            if self.clock() > self.end and np.isfinite(seconds).any():
                break
            matcher = build(table)
            for case, (batch, events) in enumerate(product(self.batches, self.events)):
                before = taken[case - len(self.events)] if case >= len(self.events) else 0.0
                taken[case] = self._case(matcher, batch, events, before, seconds[:, case].min())
        return seconds

    def _case(self, matcher: Matcher, batch: int, events: EventBatch, before: float, fastest: float) -> float:
        """Seconds for an event, without the first call; `before` are those in smaller batches."""
        match = matcher.alone() if batch == 1 else matcher.match
        most = int(CALL_S / max(before, 1e-9))  # events
        n = batch if batch <= BATCHES[1] else min(max(most, BATCHES[1]), batch, len(events))
        end = min(CALLS.get(batch, 1) * n, len(events) // n * n)
        calls = [events.part(at, at + n) for at in range(0, end, n)]
        match(calls[0].part(0, min(n, TINY)))
        least, stop = np.inf, min(self.end, self.clock() + CALL_S)
        for _ in range(ROUNDS):
            began = self.clock()
            for call in calls:
                match(call)
            now = self.clock()
            least = min(least, max(now - began, 1e-9) / (len(calls) * n))
            if least > BEHIND * fastest or now > stop:
                break
        return least
