"""`sff`: Siena's fast forwarding. Identical constraints are stored once and counted for all their filters.

Source: Carzaniga and Wolf, "Forwarding in a Content-Based Network", SIGCOMM 2003, as PCM describes and measures it
(Margara and Cugola, sec. 4): it runs over the attributes of an event and counts the constraints that these satisfy in
an index by attribute and operator, which combines identical constraints of different filters. A filter whose
constraints are all satisfied settles its interface: all other filters of that interface are left alone from there on,
and the event is done when all interfaces are settled. A filter is our subscription; `forward` takes the
interfaces (contract/interfaces.py). `match` lists filters, so there nothing is settled early.

An event costs what its values satisfy: V values, of C / d constraints on an attribute a share p each, V * C / d * p
increments anywhere in memory. It is fast where little is satisfied, or where interfaces are settled soon: with one or
two constraints a filter most of the work is left out: one of two cases in which PCM is slower, beside few filters.

Ours differs: an interval between two bounds is one constraint (the original has two), and `!=` is two of which one
holds at most. Counters are an array of bytes, not a hash table of those begun, and are copied for each event: 64 of
them a cache line, while to begin one in a table is a random access. A filter of a settled interface is counted on and
its interface not listed again, which costs less than a test per filter. We leave out
the search for interfaces that an absent attribute excludes (their sec. 4.3): it is for few filters an interface.

If the events of a batch have many of the columns, `match` counts up to 64 of them at once, in lanes (kernels/lanes.py).
`forward` takes one after the other: an event is done when its interfaces are settled, lanes when those of all are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matchers.algorithms.lanes import MOST_LINES, Words, dense, in_lanes, list_chunks
from matchers.contract.interfaces import Interfaces
from matchers.contract.matcher import Matcher, list_matches
from matchers.contract.tables import EventBatch, Int32, Int64, MatchBatch, SubscriptionTable
from matchers.kernels.counting import padded
from matchers.papers.sff.kernel import (
    AT_LEAST,
    AT_MOST,
    BETWEEN,
    EQUAL,
    KINDS,
    SharedConstraints,
    Target,
    sff,
    sff_in_lanes,
)

DENSE_LANES = 24  # lanes of a row at least


@dataclass(frozen=True, eq=False)
class Sff(Matcher):
    constraints: SharedConstraints

    def match(self, events: EventBatch) -> MatchBatch:
        n_columns = len(self.constraints.run) // KINDS
        fit = self.constraints.n_filters <= MOST_LINES and self.constraints.needed.itemsize == 1
        if fit and dense(events, n_columns, DENSE_LANES) and in_lanes(events, n_columns):

            def mark(base: int, bits: Words) -> None:
                sff_in_lanes(base, events.arrays, self.constraints, bits)

            return list_chunks(mark, len(events), self.constraints.n_filters)
        return self._list(events, Target(np.empty(0, np.int32), self.constraints.n_filters))

    def forward(self, events: EventBatch, interfaces: Interfaces) -> MatchBatch:
        if not self.constraints.n_filters:
            return self.match(events)
        return self._list(events, Target(interfaces.of, interfaces.n))

    def _list(self, events: EventBatch, target: Target) -> MatchBatch:
        def step(first: int, out: Int32, counts: Int64) -> int:
            return sff(first, events.arrays, self.constraints, target, out, counts)

        return list_matches(step, len(events), target.most)


def build(table: SubscriptionTable) -> Sff:
    satisfiable = np.flatnonzero(table.low <= table.high)
    column, low, high = table.column[satisfiable], table.low[satisfiable], table.high[satisfiable]
    kind = np.select([low == high, high == np.inf, low == -np.inf], [EQUAL, AT_LEAST, AT_MOST], BETWEEN)
    section = column * np.int64(KINDS) + kind
    end = np.where(kind == AT_MOST, high, low)
    order = np.lexsort((high, end, section))
    section, low, high = section[order], low[order], high[order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (np.diff(section) != 0) | (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    begin = np.flatnonzero(fresh)
    return Sff(
        SharedConstraints(
            np.searchsorted(section[begin], np.arange(table.n_columns * KINDS + 1)).astype(np.int64),
            low[begin],
            high[begin],
            np.append(begin, len(order)).astype(np.int64),
            table.subscription[satisfiable][order],
            padded(table.needed),
            table.n_subscriptions,
            np.flatnonzero(table.needed == 0).astype(np.int32),
        )
    )


STORED = (Sff, SharedConstraints)
