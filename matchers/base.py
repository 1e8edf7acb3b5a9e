"""The one contract of all algorithms, and how a kernel's matches become a MatchBatch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields

import numpy as np

from matchers.interfaces import Interfaces
from matchers.tables import EventBatch, Int32, Int64, MatchBatch, offsets_of


class Matcher(ABC):
    """Built once from a SubscriptionTable, then only asked; safe to ask from several threads at once.

    Exact algorithms list for each event the subscriptions it satisfies, ascending, each once. Adaptive ones may list
    more, and say so in their own docstring.
    """

    @abstractmethod
    def match(self, events: EventBatch) -> MatchBatch: ...

    def forward(self, events: EventBatch, interfaces: Interfaces) -> MatchBatch:
        """The interfaces behind which a subscription matches, where `match` lists the subscriptions.

        An algorithm that knows a shorter way to these has its own: one subscription settles an interface.
        """
        return interfaces.behind(self.match(events))

    def memory_bytes(self) -> int:
        """What the index occupies: all its arrays."""
        values = (getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]
        return sum(v.nbytes for v in values if isinstance(v, np.ndarray))


Step = Callable[[int, Int32, Int64], int]


def list_matches(step: Step, n_events: int, n_subscriptions: int) -> MatchBatch:
    """Run a kernel that fills a bounded buffer until all events are done.

    `step(first, out, counts)` matches the events from `first` on, writes their subscriptions one after the other into
    `out` and how many each has into `counts[event]`, and returns the first event it has not done: it stops before an
    event for which fewer than S places are left. So a kernel checks for room once an event and never within.
    """
    counts = np.zeros(n_events, np.int64)
    out = np.empty(max(2 * n_subscriptions, 1 << 16), np.int32)
    parts = []
    done = 0
    while done < n_events:
        before, done = done, step(done, out, counts)
        parts.append(out[: counts[before:done].sum()].copy())
    offsets = offsets_of(counts)
    return MatchBatch(offsets, np.concatenate(parts) if parts else out[:0].copy())
