"""Leave out events that have fewer attributes than every subscription needs: they match nothing.

An event has all attributes of the subscriptions that it matches. Where every subscription needs several attributes, an
event of fewer needs no index. Values are counted: an attribute of several values counts several times, so no event is
left out that could match.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from matchers.contract.tables import EventBatch, Int32, MatchBatch, offsets_of

NONE: Int32 = np.empty(0, np.int32)


def without_few(events: EventBatch, least: int, match: Callable[[EventBatch], MatchBatch]) -> MatchBatch:
    """List what `match` lists for the events of at least so many values, and nothing for the others."""
    values = np.diff(events.offsets)
    enough = values >= least
    counts = np.zeros(len(events), np.int64)
    if not enough.any():
        return MatchBatch(offsets_of(counts), NONE)
    of_enough = np.repeat(enough, values)
    some = EventBatch(offsets_of(values[enough]), events.column[of_enough], events.value[of_enough], events.n_columns)
    found = match(some)
    counts[enough] = np.diff(found.offsets)
    return MatchBatch(offsets_of(counts), found.subscription)


def alone_without_few(least: int, match: Callable[[EventBatch], Int32]) -> Callable[[EventBatch], Int32]:
    """Return a function that does this for a batch of one event, by one that matches it."""
    if least <= 1:
        return match
    return lambda event: match(event) if len(event.column) >= least else NONE
