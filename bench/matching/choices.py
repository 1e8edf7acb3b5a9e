"""`auto` against the best of all exact algorithms, on a grid of workloads, sizes and batches.

Measured is matching alone, without reading events, by the processor time of all threads: an event alone the way
`Index.match` takes (`Matcher.alone`), batches by `Matcher.match`. Rounds are interleaved and the least of each
algorithm counts. An algorithm that is far behind in a round is not measured again. Answers are compared with those of
`scan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from time import perf_counter, process_time

import numpy as np

from bench.workloads.event_bus import EventBus
from bench.workloads.filters import Filters
from bench.workloads.prepared import Prepared, Scenario
from bench.workloads.synthetic import Workload
from matchers import ALGORITHMS, EventBatch, Matcher
from matchers.algorithms import runnable
from matchers.contract.matcher import AdaptiveMatcher

CHOOSER = "auto"
BATCHES = (1, 64, 1_024)
SIZES = (10, 100, 1_000, 10_000, 100_000)
EXACT = [name for name in runnable() if not (a := ALGORITHMS[name]).approximate and not a.definition and not a.chooses]
ROUNDS = 5
CALLS_S = 0.005  # of an algorithm in a round, at least
BEHIND = 2.0  # times slower than the fastest: not asked again
SETTLING_S = 2.0

_INTERVALS = Workload(events=BATCHES[-1])
WORKLOADS: Mapping[str, Callable[[int], Scenario]] = {
    "hem": lambda n: replace(_INTERVALS, subscriptions=n, width=0.3),
    "rein": lambda n: replace(_INTERVALS, subscriptions=n, width=0.5),
    "pem": lambda n: replace(_INTERVALS, subscriptions=n, predicates=(1, 10), width=0.5),
    "eem": lambda n: replace(
        _INTERVALS, subscriptions=n, attributes=500, predicates=(5, 5), width=0.0, width_spread=1.0
    ),
    "dense": lambda n: replace(_INTERVALS, subscriptions=n, width=0.9),
    "two": lambda n: replace(_INTERVALS, subscriptions=n, predicates=(2, 2)),
    "texts": lambda n: replace(_INTERVALS, subscriptions=n, predicates=(3, 3), width=0.0, codes=1_000),
    "sparse": lambda n: replace(_INTERVALS, subscriptions=n, attributes=1_000, event_size=30),
    "pcm": lambda n: Filters(events=BATCHES[-1]).about(n),
    "event-bus": lambda n: EventBus(n, BATCHES[-1]),
}


@dataclass(frozen=True)
class Compared:
    """A point of the grid."""

    workload: str
    subscriptions: int
    batch: int
    matches: float  # of an event
    chosen: str  # algorithms
    build_s: float  # of `auto`, its decision included
    us: float  # of an event with `auto`
    best: str
    best_us: float
    checked: bool

    @property
    def ratio(self) -> float:
        return self.us / self.best_us

    def as_data(self) -> dict[str, object]:
        return asdict(self) | {"ratio": self.ratio}


def compare(workload: str, subscriptions: int, algorithms: list[str]) -> Iterator[Compared]:
    """For each of BATCHES. Raises BenchError."""
    scenario = WORKLOADS[workload](subscriptions)
    small, prepared = scenario.small().prepared(), scenario.prepared()
    events = prepared.encoded(0, len(prepared))
    matchers = {}
    for name in dict.fromkeys(["scan", *algorithms, CHOOSER]):
        _compile(ALGORITHMS[name](small.table), small)
        begin = perf_counter()
        matchers[name] = _settled(ALGORITHMS[name](prepared.table), prepared)
        build_s = perf_counter() - begin
    wanted = matchers["scan"].match(events)
    for batch in BATCHES:
        us, right = _times(matchers, events, batch), True
        for matcher in matchers.values():
            found = matcher.match(events.part(0, batch))
            right &= np.array_equal(found.subscription, wanted.subscription[: wanted.offsets[batch]])
            right &= np.array_equal(found.offsets, wanted.offsets[: batch + 1])
        best = min((name for name in us if name != CHOOSER), key=us.__getitem__)
        chosen = ", ".join(matchers[CHOOSER].algorithms)  # type: ignore[attr-defined]
        matches = len(wanted.subscription) / len(wanted)
        measured = us[CHOOSER], best, us[best]
        yield Compared(workload, prepared.table.n_subscriptions, batch, matches, chosen, build_s, *measured, right)


def _compile(matcher: Matcher, small: Prepared) -> None:
    events = small.encoded(0, len(small))
    matcher.match(events)
    matcher.alone()(events.part(0, 1))


def _settled(matcher: Matcher, prepared: Prepared) -> Matcher:
    end = perf_counter() + SETTLING_S
    while isinstance(matcher, AdaptiveMatcher) and not matcher.settled and perf_counter() < end:
        matcher.match(prepared.training())
    return matcher


def _times(matchers: Mapping[str, Matcher], events: EventBatch, batch: int) -> dict[str, float]:
    """Microseconds for an event."""
    calls = [events.part(at, at + batch) for at in range(0, min(len(events), 16 * batch), batch)]
    ways = {name: matcher.alone() if batch == 1 else matcher.match for name, matcher in matchers.items()}
    least = dict.fromkeys(ways, np.inf)
    for number in range(ROUNDS + 1):
        fastest = min(least.values())
        for name, match in ways.items():
            if number > 1 and name != CHOOSER and least[name] > BEHIND * fastest:
                continue
            done, spent = 0, 0.0
            while spent < CALLS_S:
                for call in calls:
                    began = process_time()
                    match(call)
                    spent += process_time() - began
                    done += batch
                    if spent > CALLS_S and done >= batch * min(len(calls), 4):
                        break
            if number:  # round 0 loads and warms
                least[name] = min(least[name], 1e6 * spent / done)
    return least
