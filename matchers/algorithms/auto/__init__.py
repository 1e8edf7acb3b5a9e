"""`auto`: the algorithm that a measurement finds fastest for the table. The default.

Ours. No algorithm is the best everywhere: `tiles` is ahead where an event satisfies few of many subscriptions, `hem`
where it satisfies several per cent of all, `be_tree` and `ocm` where events have few of many attributes, `scan` where
there is hardly anything to match. The best one depends on widths, skew, sizes, the events of a batch and the machine.
So candidates (candidates.py) are measured on samples of the table (choosing.py), which takes a second or two, however
long the table is. Two or three are built if no single one is fast for events of all sizes, alone and in batches; each
batch goes to the one that was faster for batches like it. These match the first real events alternately, and the
measured times replace the estimates (trial.py). Where the events are known, as in a job that has seen many, one
algorithm is measured and built for these.

Subscriptions that are the same are matched once (repeated.py), and events that have fewer attributes than every
subscription needs are not matched at all (few_attributes.py). A tiny table is not measured: it is scanned, but in
batches matched by `tama` if its subscriptions need about one attribute each. Tables of few subscriptions are built with
each update of an index in service, so a measurement of one holds for all of its kind in this process (candidates.py
defines tiny and few).
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, partial
from itertools import groupby, pairwise
from math import inf, log2, sqrt
from time import thread_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchers.algorithms.auto.candidates import CANDIDATES, asked, is_few, is_tiny, unmeasured
from matchers.algorithms.auto.choosing import Choice, algorithms_of, choose
from matchers.algorithms.auto.few_attributes import alone_without_few, without_few
from matchers.algorithms.auto.kernel import expanded
from matchers.algorithms.auto.repeated import Once, different
from matchers.algorithms.auto.trial import TURNS, TURNS_ALONE, Trial
from matchers.contract.interfaces import Interfaces
from matchers.contract.matcher import AdaptiveMatcher, Matcher
from matchers.contract.tables import EventBatch, Int32, MatchBatch, SubscriptionTable
from matchers.errors import MatchingError
from matchers.kernels.jit import compiled

log = logging.getLogger("sluice.matching")

OFTEN = 8_192  # subscriptions: a job under many changes builds a part of so many every few seconds
KINDS = 256  # that are kept, of tables of few
_chosen: dict[tuple[object, ...], list[Choice]] = {}  # by kind


@dataclass(frozen=True)
class _Cases:
    """The choices for batches of about so many events."""

    end: float  # the most events
    ends: list[float]  # the most attributes of an event, of each but the last
    matchers: list[list[Matcher]]  # of each, those that may be the fastest
    trials: list[Trial[MatchBatch]]  # of these, by `match`
    forwarding: list[Trial[MatchBatch]]  # by `forward`, which some algorithms have a shorter way for

    def of(self, events: EventBatch) -> int:
        return bisect_left(self.ends, len(events.column) / max(len(events), 1))


@dataclass(frozen=True, eq=False)
class Auto(AdaptiveMatcher):
    choices: tuple[Choice, ...]  # ascending by batch, then by the attributes of an event
    matchers: tuple[Matcher, ...]  # of each of the `algorithms`
    reason: str
    least: int = 0  # attributes that every subscription needs

    @property
    def about(self) -> str:
        return self.reason

    @property
    def algorithms(self) -> list[str]:
        """The names of those that match, one to three."""
        return algorithms_of(self.choices)

    def match(self, events: EventBatch) -> MatchBatch:
        return self._enough(events, self._match)

    def forward(self, events: EventBatch, interfaces: Interfaces) -> MatchBatch:
        return self._enough(events, partial(self._forward, interfaces=interfaces))

    def _enough(self, events: EventBatch, match: Callable[[EventBatch], MatchBatch]) -> MatchBatch:
        if len(events.column) >= self.least * len(events):
            return match(events)
        return without_few(events, self.least, match)  # on average they have too few attributes

    def _match(self, events: EventBatch) -> MatchBatch:
        cases = self._like(events)
        return cases.trials[cases.of(events)](events)

    def _forward(self, events: EventBatch, interfaces: Interfaces) -> MatchBatch:
        cases = self._like(events)
        return cases.forwarding[cases.of(events)](events, interfaces)

    def alone(self) -> Callable[[EventBatch], Int32]:
        return alone_without_few(self.least, self._alone())

    def _alone(self) -> Callable[[EventBatch], Int32]:
        cases = self._cases[0]
        ways = {id(matcher): matcher.alone() for several in cases.matchers for matcher in several}
        if len(ways) == 1:
            return next(iter(ways.values()))
        functions: list[Callable[[EventBatch], Int32]] = []
        for i, several in enumerate(cases.matchers):
            first, *others = [ways[id(matcher)] for matcher in several]
            # Once it is over, a trial would cost a twentieth of what some events take.
            trial = Trial([first, *others], TURNS_ALONE, partial(functions.__setitem__, i))
            functions.append(trial if others else first)
        ends = cases.ends
        return lambda event: functions[bisect_left(ends, len(event.column))](event)

    @property
    def learnt(self) -> int:
        return -sum(trial.left for trial in self._trials)

    @property
    def settled(self) -> bool:
        """Whether the trials of all cases in which events have come are over; before the first event, whether there
        is none. Cases in which none comes never begin theirs, so nothing waits for them."""
        used = [trial for trial in self._trials if trial.used]
        return all(trial.left <= 0 for trial in used or self._trials)

    @property
    def _trials(self) -> list[Trial[MatchBatch]]:
        return [trial for cases in self._cases for trial in (*cases.trials, *cases.forwarding)]

    def _like(self, events: EventBatch) -> _Cases:
        """The cases of the choices nearest to the number of these events, as a ratio."""
        at = 0
        while len(events) > self._cases[at].end:
            at += 1
        return self._cases[at]

    @cached_property
    def _cases(self) -> list[_Cases]:
        """The cases, ascending by the number of events."""
        built = dict(zip(self.algorithms, self.matchers, strict=True))
        by_batch = {batch: list(some) for batch, some in groupby(self.choices, key=lambda choice: choice.batch)}
        most = [*(sqrt(a * b) for a, b in pairwise(by_batch)), inf]
        cases = []
        for end, choices in zip(most, by_batch.values(), strict=True):
            ends = [sqrt(a.attributes * b.attributes) for a, b in pairwise(choices)]
            matchers = [[built[name] for name in choice.names] for choice in choices]
            trials = [Trial([matcher.match for matcher in several], TURNS) for several in matchers]
            forwarding = [Trial([matcher.forward for matcher in several], TURNS) for several in matchers]
            cases.append(_Cases(end, ends, matchers, trials, forwarding))
        return cases

    def __getstate__(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def memory_bytes(self) -> int:
        return sum(matcher.memory_bytes() for matcher in self.matchers)


def build(
    table: SubscriptionTable,
    attributes: float | None = None,
    batch: float | None = None,
    clock: Callable[[], float] = thread_time,
) -> Auto:
    """`attributes` that an event has on average, and events that come at once, if that is known: fewer cases are then
    measured, and one index may do. Raises MatchingError."""
    for name, value in (("attributes of an event", attributes), ("events of a batch", batch)):
        if value is not None and not 0 < value < inf:
            raise MatchingError(f"{name} must be above 0 and finite, not {value}")
    own, whole = table, None
    if not is_tiny(table) and (not is_few(table) or compiled(expanded)):
        own, whole = different(table)
    choices, built = _choices(own, attributes, batch, clock)
    reason = _reason(own, choices, table.n_subscriptions) + _like(attributes, batch)
    if whole is not None:
        built = {name: whole(matcher) for name, matcher in built.items()}
    level = logging.DEBUG if table.n_subscriptions <= OFTEN else logging.INFO
    log.log(level, reason, extra={"event": "index_chosen"})
    least = int(own.needed.min()) if own.n_subscriptions else 0
    return Auto(tuple(choices), tuple(built[name] for name in algorithms_of(choices)), reason, least)


def _choices(
    table: SubscriptionTable, attributes: float | None, batch: float | None, clock: Callable[[], float]
) -> tuple[list[Choice], dict[str, Matcher]]:
    if is_tiny(table):
        return _without_measuring(table, unmeasured(table))
    names = asked(table)
    if len(names) == 1:
        return _without_measuring(table, {1: names[0]})
    builds = {name: CANDIDATES[name] for name in names}
    if not is_few(table):
        return choose(table, builds, clock, attributes, batch)
    kind = (*names, *_kind(table), *(value and _rounded(np.array([value])) for value in (attributes, batch)))
    if (choices := _chosen.get(kind)) is not None:
        return choices, {name: builds[name](table) for name in algorithms_of(choices)}
    choices, matchers = choose(table, builds, clock, attributes, batch)
    while len(_chosen) >= KINDS:
        _chosen.pop(next(iter(_chosen)), None)
    _chosen[kind] = choices
    return choices, matchers


def _without_measuring(
    table: SubscriptionTable, algorithms: Mapping[int, str]
) -> tuple[list[Choice], dict[str, Matcher]]:
    choices = [Choice(batch, 1.0, name, np.nan) for batch, name in algorithms.items()]
    return choices, {name: CANDIDATES[name](table) for name in algorithms.values()}


def _kind(table: SubscriptionTable) -> tuple[float, ...]:
    some = table.low <= table.high
    low, high = table.low[some], table.high[some]
    with np.errstate(invalid="ignore", over="ignore"):  # between infinities, and from the least to the greatest double
        width = np.nan_to_num(high - low, posinf=np.inf)
    listed = len(table.column) / max(int(table.needed.sum()), 1)
    needed, width_of, length = _rounded(table.needed), _rounded(width), _rounded(np.array([listed]))
    return table.n_subscriptions.bit_length(), table.n_columns, needed, width_of, length


def _rounded(values: NDArray[Any]) -> float:
    """Their median, in powers of 2 ** 0.5 if it is positive and finite."""
    median = float(np.median(values)) if len(values) else 0.0
    return round(2 * log2(median)) if 0 < median < inf else median


def _reason(table: SubscriptionTable, choices: list[Choice], n_subscriptions: int) -> str:
    """`table` has the different ones of so many subscriptions."""
    mean = float(table.needed.mean()) if len(table.needed) else 0.0
    some = f" ({table.n_subscriptions:,} different)" if table.n_subscriptions < n_subscriptions else ""
    of = f"{n_subscriptions:,} subscriptions{some} of {mean:.3g} of {table.n_columns:,} attributes each"
    if np.isnan(choices[0].us):
        why = "too few to measure" if is_few(table) else "nothing else is compiled"
        names = [choices[0].algorithm, *(f"{choice.algorithm} in batches" for choice in choices[1:])]
        return f"{', '.join(names)} for {of}, {why}"
    by_batch = {choice.batch: [c for c in choices if c.batch == choice.batch] for choice in choices}
    cases = [f"{_found(some)} for events {_together(batch)}" for batch, some in by_batch.items()]
    return f"{', '.join(cases)}; {of}"


def _like(attributes: float | None, batch: float | None) -> str:
    of = [f"{attributes:.3g} attributes each"] if attributes is not None else []
    of += [f"{batch:,.0f} at once"] if batch is not None else []
    return f"; events: {', '.join(of)}" if of else ""


def _found(choices: Iterable[Choice]) -> str:
    """`be_tree (0.4 us) up to 12 attributes, then tiles (2 us)`, by the largest events of each."""
    runs = [list(run)[-1] for _, run in groupby(choices, key=lambda choice: choice.algorithm)]
    *few, most = [f"{choice.algorithm} ({choice.us:.3g} us)" for choice in runs]
    few = [f"{part} up to {choice.attributes:.0f} attributes" for part, choice in zip(few, runs, strict=False)]
    return ", then ".join([*few, most])


def _together(batch: int) -> str:
    return "alone" if batch == 1 else f"in batches of {batch:,}"


STORED = (Auto, Choice, Once)
