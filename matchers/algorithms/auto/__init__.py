"""`auto`: the algorithm that a measurement finds fastest for the table. The default.

Ours. No algorithm is the best everywhere: `tiles` is ahead where an event satisfies few of many subscriptions, `hem`
where it satisfies percents of all, `be_tree` and `ocm` where events have few of many attributes, `scan` where there is
hardly anything to match. The best one depends on widths, skew, sizes, the events that come at once and the machine, so
candidates (candidates.py) are measured on samples of the table (choosing.py), which takes a second or two however long
the table is. Two are built, if no single one is fast for events of all sizes that come alone and together; each batch
goes to the one that was faster for the like of it.

A table of TINY subscriptions at most is scanned. Tables of FEW are built with each update of an index in service: what
was measured for one holds for all of its kind in this process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import log2
from time import thread_time

import numpy as np

from matchers.algorithms.auto.candidates import CANDIDATES, FEW, asked
from matchers.algorithms.auto.choosing import Choice, choose
from matchers.contract.interfaces import Interfaces
from matchers.contract.matcher import Matcher
from matchers.contract.tables import EventBatch, Int32, MatchBatch, SubscriptionTable
from matchers.errors import MatchingError

log = logging.getLogger("sluice.matching")

TINY = 64  # subscriptions
KINDS = 256  # that are kept, of tables of few
_chosen: dict[tuple[object, ...], list[Choice]] = {}  # by kind


@dataclass(frozen=True, eq=False)
class Auto(Matcher):
    choices: tuple[Choice, ...]  # ascending by batch, then by the attributes of an event
    matchers: tuple[Matcher, ...]  # of each choice
    reason: str

    @property
    def about(self) -> str:
        return self.reason

    @property
    def algorithms(self) -> list[str]:
        """The names of those that match, one or two."""
        return list(dict.fromkeys(choice.algorithm for choice in self.choices))

    def match(self, events: EventBatch) -> MatchBatch:
        return self._for(events).match(events)

    def forward(self, events: EventBatch, interfaces: Interfaces) -> MatchBatch:
        return self._for(events).forward(events, interfaces)

    def alone(self) -> Callable[[EventBatch], Int32]:
        at = self._of_batch(1)
        if len({id(self.matchers[i]) for i in at}) == 1:
            return self.matchers[at[0]].alone()
        made = {id(self.matchers[i]): self.matchers[i].alone() for i in at}
        functions = [made[id(self.matchers[i])] for i in at]
        ends = [(self.choices[a].attributes * self.choices[b].attributes) ** 0.5 for a, b in pairwise(at)]
        return lambda event: functions[sum(len(event.column) > end for end in ends)](event)

    def _for(self, events: EventBatch) -> Matcher:
        """The matcher of the choice nearest to these events, as a ratio: first by their number, then by attributes."""
        if all(matcher is self.matchers[0] for matcher in self.matchers):
            return self.matchers[0]
        n = max(len(events), 1)
        values = max(len(events.column) / n, 1.0)
        return self.matchers[min(self._of_batch(n), key=lambda i: _apart(self.choices[i].attributes, values))]

    def _of_batch(self, n: int) -> list[int]:
        """The choices for as many events at once, or about as many."""
        nearest = min((choice.batch for choice in self.choices), key=lambda batch: _apart(batch, n))
        return [i for i, choice in enumerate(self.choices) if choice.batch == nearest]

    def memory_bytes(self) -> int:
        return sum({id(matcher): matcher.memory_bytes() for matcher in self.matchers}.values())


def build(
    table: SubscriptionTable,
    attributes: float | None = None,
    batch: float | None = None,
    clock: Callable[[], float] = thread_time,
) -> Auto:
    """`attributes` that an event has on average, and events that come at once, if that is known: fewer cases are then
    measured, and one index may do. Raises MatchingError."""
    for name, value in (("attributes of an event", attributes), ("events of a batch", batch)):
        if value is not None and not value > 0:
            raise MatchingError(f"{name} must be above 0, not {value}")
    choices = _choices(table, attributes, batch, clock)
    reason = _reason(table, choices)
    log.log(logging.DEBUG if table.n_subscriptions <= FEW else logging.INFO, reason)  # one update, one table of few
    names = dict.fromkeys(choice.algorithm for choice in choices)
    matchers = {name: CANDIDATES[name].build(table) for name in names}
    return Auto(tuple(choices), tuple(matchers[choice.algorithm] for choice in choices), reason)


def _choices(
    table: SubscriptionTable, attributes: float | None, batch: float | None, clock: Callable[[], float]
) -> list[Choice]:
    names = ["scan"] if table.n_subscriptions <= TINY else asked(table)
    if len(names) == 1:
        return [Choice(1, 1.0, names[0], np.nan)]
    kind = (*names, attributes, batch, table.n_subscriptions.bit_length(), table.n_columns, _rounded(table.needed))
    few = table.n_subscriptions <= FEW
    if few and kind in _chosen:
        return _chosen[kind]
    choices = choose(table, {name: CANDIDATES[name].build for name in names}, clock, attributes, batch)
    if few:
        while len(_chosen) >= KINDS:
            _chosen.pop(next(iter(_chosen)), None)
        _chosen[kind] = choices
    return choices


def _rounded(needed: Int32) -> int:
    """The predicates of a subscription on average, in powers of 2 ** 0.5."""
    return round(2 * log2(max(float(needed.mean()), 1.0)))


def _apart(a: float, b: float) -> float:
    return abs(log2(a / b))


def _reason(table: SubscriptionTable, choices: list[Choice]) -> str:
    mean = float(table.needed.mean()) if len(table.needed) else 0.0
    of = f"{table.n_subscriptions:,} subscriptions of {mean:.3g} of {table.n_columns:,} attributes each"
    if np.isnan(choices[0].us):
        why = "too few to measure" if table.n_subscriptions <= FEW else "nothing else is compiled"
        return f"{choices[0].algorithm} for {of}, {why}"
    by_batch = {choice.batch: [c for c in choices if c.batch == choice.batch] for choice in choices}
    cases = [f"{_found(some)} for events {_together(batch)}" for batch, some in by_batch.items()]
    return f"{', '.join(cases)}; {of}"


def _found(choices: Iterable[Choice]) -> str:
    """`be_tree (0.4 us) up to 12 attributes, then tiles (2 us)`, by the largest events of each."""
    runs = [list(run)[-1] for _, run in groupby(choices, key=lambda choice: choice.algorithm)]
    *few, most = [f"{choice.algorithm} ({choice.us:.3g} us)" for choice in runs]
    few = [f"{part} up to {choice.attributes:.0f} attributes" for part, choice in zip(few, runs, strict=False)]
    return ", then ".join([*few, most])


def _together(batch: int) -> str:
    return "alone" if batch == 1 else f"in batches of {batch:,}"
