"""`auto`: the algorithm that a measurement finds fastest for the table.

Ours. No algorithm is the best everywhere: `tiles` is ahead where an event satisfies few of many subscriptions, `hem`
where it satisfies percents of all, `be_tree` and `ocm` where events have few of many attributes. The best one depends
on widths, skew, sizes and the machine, so it is measured on samples of the table (choosing.py), which takes a second or
two however long the table is. If events of few attributes and events of many need different algorithms, both are built,
and each batch goes to the one for its size of events.

A table of FEW subscriptions at most is not measured: every update of an index in service builds such tables.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import thread_time

import numpy as np

from matchers.algorithms import be_tree, hem, ocm, tiles
from matchers.algorithms.auto.choosing import Choice, choose
from matchers.contract.interfaces import Interfaces
from matchers.contract.matcher import Matcher
from matchers.contract.tables import EventBatch, MatchBatch, SubscriptionTable
from matchers.errors import MatchingError

log = logging.getLogger("sluice.matching")

CANDIDATES: dict[str, Callable[[SubscriptionTable], Matcher]] = {
    "tiles": tiles.build,
    "hem": hem.build,
    "be_tree": be_tree.build,
    "ocm": ocm.build,
}
FEW = 2_000
SMALL = "hem"  # for these


@dataclass(frozen=True, eq=False)
class Auto(Matcher):
    choices: tuple[Choice, ...]  # ascending by the attributes of an event
    matchers: tuple[Matcher, ...]  # of each choice
    reason: str

    def match(self, events: EventBatch) -> MatchBatch:
        return self._for(events).match(events)

    def forward(self, events: EventBatch, interfaces: Interfaces) -> MatchBatch:
        return self._for(events).forward(events, interfaces)

    def _for(self, events: EventBatch) -> Matcher:
        """The matcher chosen for the size of events nearest, as a ratio, to the values of these."""
        if len(self.choices) == 1:
            return self.matchers[0]
        values = max(len(events.column) / max(len(events), 1), 1.0)
        return self.matchers[int(np.argmin([abs(np.log(choice.attributes / values)) for choice in self.choices]))]

    def memory_bytes(self) -> int:
        return sum({id(matcher): matcher.memory_bytes() for matcher in self.matchers}.values())


def build(table: SubscriptionTable, attributes: float | None = None, clock: Callable[[], float] = thread_time) -> Auto:
    """`attributes` that an event has on average, if that is known: one index will then do. Raises MatchingError."""
    if attributes is not None and not attributes > 0:
        raise MatchingError(f"attributes of an event must be above 0, not {attributes}")
    if table.n_subscriptions <= FEW:
        choices = [Choice(1.0, SMALL, 0.0)]
        reason = f"{SMALL} for {table.n_subscriptions:,} subscriptions, too few to measure"
    else:
        choices = choose(table, CANDIDATES, clock, attributes)
        reason = _reason(table, choices)
    log.info(reason)
    matchers = {name: CANDIDATES[name](table) for name in dict.fromkeys(choice.algorithm for choice in choices)}
    return Auto(tuple(choices), tuple(matchers[choice.algorithm] for choice in choices), reason)


def _reason(table: SubscriptionTable, choices: list[Choice]) -> str:
    last = {choice.algorithm: choice for choice in choices}
    *few, most = [f"{name} ({choice.us:.3g} us)" for name, choice in last.items()]
    few = [f"{part} up to {choice.attributes:.0f} attributes" for part, choice in zip(few, last.values(), strict=False)]
    found = ", then ".join([*few, most])
    mean = float(table.needed.mean())
    return f"{found} for {table.n_subscriptions:,} subscriptions of {mean:.3g} of {table.n_columns:,} attributes each"
