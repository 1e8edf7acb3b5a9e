"""Choose the fastest algorithm for a table: measure on samples of two sizes and extrapolate.

    6,000 subscriptions   hem  8.0 us                       time of n subscriptions: between that on the power law
    24,000                hem 24.0 us   tiles 4.1 us        through both and that on the straight line

Candidates match events that come alone, few at once, and many; of few attributes, and of many (drawing.py). Each case
has rounds. In the first all candidates match a few events, more and more until a call takes FEW_S, so a slow one takes
hardly more time than a fast one. In the others those that are not far behind match for CALL_S. When MOST_S are spent,
no further round begins.

A candidate that is far behind everywhere on the small sample is not measured on the large one. When the time is up,
those without an index of the large one are taken to grow like the others. A table not much longer than the small sample
is measured itself, and samples of long lists have fewer subscriptions. Where two or three indexes are built, they are
then compared alternately, on the whole table, so that neither a wrong extrapolation nor a disturbed moment decides.
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

SAMPLES = (6_000, 24_000)  # subscriptions, at most
LISTED = 600_000  # intervals of the large sample, about
FEWEST = 64  # subscriptions of it, whatever they list
BATCHES = (1, 64, EVENTS)  # events at once
TINY = 64  # subscriptions, and events, that have all kernels loaded
CALLS = {1: 32, 64: 4}  # of a round; one of more events
ROUNDS = 3  # of which the least time counts
TURNS = 5  # the same, of those that are built
GROWTH = 4  # calls of the first round have so many times the events of the call before
BEHIND = 4.0  # times slower than the fastest: not measured again
FAR = 20.0  # times slower than the fastest: not tried on real events
PAYS = np.log(1.2) ** 2  # one case a fifth faster pays for one more index
FEW_S = 0.001  # for a call of the first round, about
CALL_S = 0.004  # for all calls of another one
MOST_S = 1.0  # of CPU time, from which on nothing more is begun
COMPARING_S = 0.3  # the same, for those that are built


@dataclass(frozen=True)
class Choice:
    """The algorithm for about `batch` events at once of about `attributes` attributes, and its predicted time."""

    batch: int
    attributes: float
    algorithm: str
    us: float  # of an event
    others: tuple[str, ...] = ()  # that are built and may be faster with real events

    @property
    def names(self) -> tuple[str, ...]:
        return self.algorithm, *self.others


def algorithms_of(choices: Iterable[Choice]) -> list[str]:
    """The names of all that are built, each once."""
    return list(dict.fromkeys(name for choice in choices for name in choice.names))


def choose(
    table: SubscriptionTable,
    builds: Mapping[str, Build],
    clock: Clock,
    attributes: float | None = None,
    batch: float | None = None,
) -> tuple[list[Choice], dict[str, Matcher]]:
    """A choice for each batch and size of events, ascending, and the matchers that they name: three algorithms at most,
    two for a large table.

    `attributes` and `batch`: what events have and come in on average, where that is known.
    """
    batches = BATCHES if batch is None else (min(BATCHES, key=lambda known: abs(np.log(known / batch))),)
    sizes = event_sizes(table) if attributes is None else [attributes]
    measuring = _Measuring(table, batches, sizes, clock)
    seconds = measuring.seconds(builds)
    several = sorted(set(_several(seconds, 2 if table.n_subscriptions > SAMPLES[-1] else 3)))
    names, seconds = [list(builds)[i] for i in several], seconds[several]
    matchers = [builds[name](table) for name in names]
    if len(names) > 1:
        seconds = measuring.compared(matchers, seconds)
    best = _several(seconds, len(names))
    kept = sorted(set(best))
    choices = [
        Choice(*case, names[i], float(of_case[i]) * 1e6, tuple(names[j] for j in near if j != i))
        for case, i, of_case in zip(product(batches, sizes), best, seconds.T, strict=True)
        for near in [[j for j in kept if of_case[j] <= FAR * of_case[i]]]
    ]
    return choices, {names[i]: matchers[i] for i in kept}


def _several(seconds: Float64, most: int) -> list[int]:
    """The algorithm for each case, of [algorithms, cases], of `most` different ones.

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


def _grown(small: Float64, large: Float64, n_small: int, n_large: int, n: int) -> Float64:
    """The factor from the time with n_large subscriptions to that with n, given the times with n_small and n_large.

    The geometric mean of two guesses: a power law grows too little where calls cost something however few
    subscriptions there are, and a straight line too much where the time grows less than they do.
    """
    ratio = np.clip(large / small, 1.0, n_large / n_small)
    power = (n / n_large) ** (np.log(ratio) / np.log(n_large / n_small))
    line = 1 + (1 - 1 / ratio) * (n - n_large) / (n_large - n_small)
    grown: Float64 = np.sqrt(power * line)
    return grown


class _Measuring:
    """The cases, batches times sizes of events, and how long they may take together."""

    def __init__(self, table: SubscriptionTable, batches: Sequence[int], sizes: Sequence[float], clock: Clock) -> None:
        self.n, self.batches, self.sizes, self.clock = table.n_subscriptions, batches, sizes, clock
        fit = LISTED * table.n_subscriptions // max(len(table.column), 1)
        n_large = min(max(fit, FEWEST), SAMPLES[-1])
        self.large, self.n_small = sampled(table, n_large), n_large * SAMPLES[0] // SAMPLES[-1]

    def seconds(self, builds: Mapping[str, Build]) -> Float64:
        """[algorithms, cases]: seconds for an event with the whole table; infinite for those that are far behind."""
        self._load(builds.values())
        self.end = self.clock() + MOST_S
        self.cases = list(product(self.batches, [drawn(self.large, size) for size in self.sizes]))
        if self.n <= 2 * self.n_small:
            return self._of([build(self.large) for build in builds.values()])
        large, small = self.large, sampled(self.large, self.n_small)
        seconds = self._of([build(small) for build in builds.values()])
        near = (seconds <= BEHIND * seconds.min(axis=0)).any(axis=1)
        behind = np.log(seconds / seconds.min(axis=0)) ** 2
        asked = np.flatnonzero(near)[np.argsort(behind[near].sum(axis=1))]
        ahead: list[Matcher] = []
        for i in asked:
            if not ahead or self.clock() <= self.end:
                ahead.append(list(builds.values())[i](large))
        before, known = seconds[asked], np.arange(len(asked)) < len(ahead)
        taken = np.full(before.shape, np.inf)
        taken[known] = self._of(ahead)
        whole = taken[known] * _grown(before[known], taken[known], small.n_subscriptions, large.n_subscriptions, self.n)
        reckoned = np.full(seconds.shape, np.inf)
        reckoned[asked[known]] = whole
        reckoned[asked[~known]] = before[~known] * np.exp(np.log(whole / before[known]).mean(axis=0))
        return reckoned

    def compared(self, matchers: Sequence[Matcher], predicted: Float64) -> Float64:
        """[matchers, cases]: seconds per event with the whole table, measured alternately; as predicted where one is
        far ahead of all others."""
        near = predicted <= BEHIND * predicted.min(axis=0)
        near[:, near.sum(axis=0) == 1] = False
        seconds, end = np.where(near, np.inf, predicted), self.clock() + COMPARING_S
        alone = [matcher.alone() for matcher in matchers]
        for number in range(TURNS):
            for case in np.flatnonzero(near.any(axis=0)):
                batch, events = self.cases[case]
                calls = _calls(batch, events, predicted[near[:, case], case].max())
                for i in np.flatnonzero(near[:, case]).tolist():
                    match = alone[i] if batch == 1 else matchers[i].match
                    seconds[i, case] = min(seconds[i, case], self._taken(match, calls))
            if number and self.clock() > end:  # the first round loads and warms
                break
        return seconds

    def _load(self, builds: Iterable[Build]) -> None:
        """Have the kernels in this process, so that no time is that of loading or compiling them."""
        tiny = sampled(self.large, max(TINY * self.n_small // SAMPLES[0], 1))
        events = drawn(tiny, self.sizes[0]).part(0, TINY)
        for build in builds:
            matcher = build(tiny)
            matcher.match(events)
            matcher.alone()(events.part(0, 1))

    def _of(self, matchers: Sequence[Matcher]) -> Float64:
        """[matchers, cases]: seconds for an event."""
        seconds, least = np.empty((2, len(matchers), len(self.cases)))
        alone = [matcher.alone() for matcher in matchers]
        for i, matcher in enumerate(matchers):
            for case, (batch, events) in enumerate(self.cases):
                match = alone[i] if batch == 1 else matcher.match
                seconds[i, case], least[i, case] = self._few(match, batch, events)
        for _ in range(1, ROUNDS):
            near = least <= BEHIND * seconds.min(axis=0)
            for case, (batch, events) in enumerate(self.cases):
                for i in np.flatnonzero(near[:, case]).tolist():
                    if self.clock() > self.end:
                        return seconds
                    match = alone[i] if batch == 1 else matchers[i].match
                    taken = self._taken(match, _calls(batch, events, seconds[i, case]))
                    seconds[i, case] = min(seconds[i, case], taken)
            least = seconds
        return seconds

    def _few(self, match: Callable[[EventBatch], object], batch: int, events: EventBatch) -> tuple[float, float]:
        """Seconds for an event in calls of more and more events, until one takes FEW_S or has a whole batch; and what
        it may be in larger ones at least, as if a call of GROWTH times the events took no longer."""
        most = min(CALLS[1] if batch == 1 else batch, len(events))
        seconds, n, number = np.inf, 1, 0
        while True:
            calls = [events.part(at, at + min(n, batch)) for at in range(0, n, min(n, batch))]
            began = self.clock()
            seconds = min(seconds, self._taken(match, calls))
            spent = self.clock() - began
            if number and (spent > FEW_S or n == most):  # the first call is cold, and repeated
                break
            n, number = min(n * GROWTH, most) if number else n, number + 1
        return seconds, seconds * n / min(n * GROWTH, batch) if n < batch else seconds

    def _taken(self, match: Callable[[EventBatch], object], calls: Sequence[EventBatch]) -> float:
        """Seconds for an event."""
        began = self.clock()
        for call in calls:
            match(call)
        return max(self.clock() - began, 1e-9) / (len(calls) * len(calls[0]))


def _calls(batch: int, events: EventBatch, seconds: float) -> list[EventBatch]:
    """Events for calls of a round that take CALL_S together, or less, if an event takes so many seconds."""
    most = int(CALL_S / max(seconds, 1e-9))  # events
    n = batch if batch <= BATCHES[1] else min(max(most, BATCHES[1]), batch, len(events))
    end = min(max(most, n), CALLS.get(batch, 1) * n, len(events)) // n * n
    return [events.part(at, at + n) for at in range(0, end, n)]
