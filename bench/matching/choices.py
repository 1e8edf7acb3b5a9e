"""`auto` and `tiles` against the best of all exact algorithms, on many workloads, with one event at a time and in
batches.

Measured is matching alone, without reading events, by the processor time of all threads: an event alone the way
`Index.match` takes (`Matcher.alone`), batches by `Matcher.match`. What `auto` learns from the first events that come,
it has learnt before, from other events. Rounds are interleaved and the least of each algorithm counts. One that is
far behind in a round is not measured again, nor with larger batches, unless it is `tiles` or the best of all others.
The answers of each algorithm to SOME events at once, and to each call that is measured, are compared with those of
`scan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import cycle, islice, product
from math import nan
from time import perf_counter, process_time

from bench.matching import answers
from bench.matching.undecided import undecided
from bench.workloads.event_bus import EventBus
from bench.workloads.filters import Filters
from bench.workloads.prepared import Prepared, Scenario
from bench.workloads.repeated import Repeated
from bench.workloads.synthetic import Workload
from bench.workloads.watch_lists import WatchLists
from matchers import ALGORITHMS, EventBatch, MatchBatch, Matcher
from matchers.contract.matcher import AdaptiveMatcher
from matchers.contract.tables import Int32
from matchers.registry import runnable

CHOOSER, OURS = "auto", "tiles"
BATCHES = (1, 64, 1_024)
SIZES = (10, 100, 1_000, 10_000, 100_000)
EXACT = [name for name in runnable() if not (a := ALGORITHMS[name]).approximate and not a.definition and not a.chooses]
ROUNDS = 5
CALLS_S = 0.005  # of an algorithm in a round, at least
PASS_S = 0.1  # of the fastest algorithm in a round, about: fewer calls are measured if each takes long
ENOUGH_S = 5.0  # from which on two rounds are enough
BEHIND = 2.0  # times slower than the fastest: not asked again
FAR = 10.0  # likewise after the first call, when nothing is warm, and for larger batches
SOME = 64  # events of a first call
SETTLING_S = 2.0
LESSONS, LESSONS_ALONE = 15, 100  # calls from which `auto` learns, in batches and of single events

LENGTHS = (10, 100, 1_000, 10_000)  # of watch lists
LISTED_VALUES = 10_000_000  # values of all watch lists together, at most; points with more are left out


def _watch_lists(length: int, hits: bool) -> Callable[[int], Scenario]:
    return lambda n: WatchLists(n, length, 1_000 * length, hits, BATCHES[-1])


_INTERVALS = Workload(events=BATCHES[-1])
_ONE = replace(_INTERVALS, subscriptions=1)
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
    **{f"watch-{length}": _watch_lists(length, True) for length in LENGTHS},
    **{f"watch-{length}-missed": _watch_lists(length, False) for length in LENGTHS},
    "repeated": lambda n: Repeated(n, replace(_ONE, attributes=50, predicates=(3, 3))),
    "repeated-missed": lambda n: Repeated(n, replace(_ONE, attributes=10, predicates=(1, 1), width=0.001)),
    "repeated-100": lambda n: Repeated(n, replace(_ONE, subscriptions=100, predicates=(3, 3))),
}


@dataclass(frozen=True)
class GridPoint:
    """A point of the grid."""

    workload: str
    subscriptions: int
    batch: int
    matches: float  # of an event
    chosen: str  # algorithms
    build_s: float  # of `auto`, its decision included
    us: float  # of an event with `auto`
    tiles_us: float  # NaN where `tiles` was not asked
    best: str
    best_us: float
    rival: str  # the best of those that are neither `auto` nor `tiles`
    rival_us: float
    checked: bool

    @property
    def ratio(self) -> float:
        return self.us / self.best_us

    def as_data(self) -> dict[str, object]:
        return asdict(self) | {"ratio": self.ratio}


def grid(workloads: Iterable[str], sizes: Iterable[int]) -> Iterator[tuple[str, int, Scenario]]:
    """A name, the number of subscriptions asked for, and a workload of about as many."""
    for n, name in product(sizes, workloads):
        scenario = WORKLOADS[name](n)
        if not isinstance(scenario, WatchLists) or n * scenario.length <= LISTED_VALUES:
            yield name, n, scenario


def compare(
    workload: str, scenario: Scenario, algorithms: list[str], batches: Sequence[int] = BATCHES
) -> Iterator[GridPoint]:
    """Yield a point for each batch size that the workload has enough events for. Raises BenchError."""
    small, prepared = scenario.small().prepared(), scenario.prepared()
    events, training = prepared.encoded(0, len(prepared)), prepared.training()
    matchers = {}
    for name in dict.fromkeys(["scan", *algorithms, CHOOSER]):
        _compile(ALGORITHMS[name](small.table), small)
        with undecided():
            begin = perf_counter()
            matchers[name] = ALGORITHMS[name](prepared.table)
            build_s = perf_counter() - begin
        _settle(matchers[name], prepared)
    scan, *others = matchers.values()
    wanted = scan.match(events)
    n = min(SOME, len(events))
    some, of_some = events.part(0, n), answers.part(wanted, 0, n)
    agree = all(answers.compare(matcher.match(some), of_some).same for matcher in others)  # and all are in memory
    chosen = ", ".join(matchers[CHOOSER].algorithms)  # type: ignore[attr-defined]
    for batch in sorted(batch for batch in batches if batch <= len(events)):
        us, right = _times(matchers, events, training, batch, wanted)
        best = min((name for name in us if name != CHOOSER), key=us.__getitem__)
        rival = _rival(us)
        if batch > 1:  # one event alone is slow for algorithms that share work between events
            matchers = {name: matchers[name] for name in _near(us, FAR)}
        n, matches = prepared.table.n_subscriptions, len(wanted.subscription) / len(wanted)
        times = us[CHOOSER], us.get(OURS, nan), best, us[best], rival, us[rival]
        yield GridPoint(workload, n, batch, matches, chosen, build_s, *times, agree and right)


def _compile(matcher: Matcher, small: Prepared) -> None:
    events = small.encoded(0, len(small))
    matcher.match(events)
    matcher.alone()(events.part(0, 1))


def _settle(matcher: Matcher, prepared: Prepared) -> None:
    end = perf_counter() + SETTLING_S
    while isinstance(matcher, AdaptiveMatcher) and not matcher.settled and perf_counter() < end:
        matcher.match(prepared.training())


def _times(
    matchers: Mapping[str, Matcher], events: EventBatch, training: EventBatch, batch: int, wanted: MatchBatch
) -> tuple[dict[str, float], bool]:
    """Microseconds for an event by algorithm, and whether all answers were right. `auto` learns from other events."""
    begins = range(0, min(len(events), 16 * batch), batch)
    calls = [events.part(at, at + batch) for at in begins]
    expected = [answers.part(wanted, at, at + batch) for at in begins]
    ways = {name: matcher.alone() if batch == 1 else matcher.match for name, matcher in matchers.items()}
    right, least = True, {}
    for name, match in ways.items():
        began = process_time()
        first = match(calls[0])
        least[name] = 1e6 * (process_time() - began) / batch
        right &= _is_right(first, expected[0])
    enough = max(1, int(PASS_S * 1e6 / (batch * max(min(least.values()), 1e-3))))
    calls, expected = calls[:enough], expected[:enough]
    for name in _near(least, FAR):
        right &= all(_is_right(ways[name](call), part) for call, part in zip(calls[1:], expected[1:], strict=True))
    several = len(matchers[CHOOSER].algorithms) > 1  # type: ignore[attr-defined]
    lessons = several * (LESSONS_ALONE if batch == 1 else LESSONS)
    for at in islice(cycle(range(0, len(training), batch)), lessons):
        ways[CHOOSER](training.part(at, min(at + batch, len(training))))
    end = perf_counter() + ENOUGH_S
    for number in range(ROUNDS):
        if number > 1 and perf_counter() > end:
            break
        for name in _near(least, BEHIND if number else FAR):
            least[name] = min(least[name], _us(ways[name], calls, batch))
    return least, right


def _near(us: Mapping[str, float], times: float) -> list[str]:
    """Return those that are at most so many times slower than the fastest, `auto` apart; ours, and the best other."""
    limit = times * min(us[name] for name in us if name != CHOOSER)
    always = CHOOSER, OURS, _rival(us)
    return [name for name in us if us[name] <= limit or name in always]


def _rival(us: Mapping[str, float]) -> str:
    """Return the fastest of those that are neither `auto` nor `tiles`."""
    return min((name for name in us if name not in (CHOOSER, OURS)), key=us.__getitem__)


def _is_right(found: MatchBatch | Int32, wanted: MatchBatch) -> bool:
    """Whether these are all matches of the events, or of the only one. Raises BenchError."""
    if isinstance(found, MatchBatch):
        return answers.compare(found, wanted).same
    return bool(sorted(found.tolist()) == wanted.of(0).tolist())


def _us(match: Callable[[EventBatch], object], calls: Sequence[EventBatch], batch: int) -> float:
    """Microseconds for an event, of all the calls, again and again for CALLS_S. All algorithms are measured on the same
    events, because some are easier than others."""
    done, spent = 0, 0.0
    while spent < CALLS_S:
        for call in calls:
            began = process_time()
            match(call)
            spent += process_time() - began
            done += batch
    return 1e6 * spent / done
