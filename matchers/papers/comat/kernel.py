"""Compute the features that predict matching time in `tama` and `rein`, and merge the matches of both by event.

Every k-th end of a column is kept, ascending, lows and highs separately:

    low    1   2   2   5   7            value = 4:  3 lows up to it, 1 high below it, so it lies on about (3 - 1) * k
    high   3   4   6   8   9

Cost per event: two searches among the ends known of a column, 256 at most, for each value; a copy of each match.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from matchers.kernels.ascending import first_beyond, first_from
from matchers.kernels.jit import kernel

FEATURES = 4  # of an event: 1, its values, intervals it is expected to hit, predicates in columns that it has


class IntervalEnds(NamedTuple):
    """A columns, E ends known of either kind."""

    start: Any  # [A + 1] int64: column a has the ends start[a] .. start[a + 1]
    low: Any  # [E] float64, ascending within a column
    high: Any  # [E] float64, ascending within a column
    each: Any  # [A] float64: how many intervals an end stands for
    predicates: Any  # [A] float64


@kernel
def features(offsets: Any, column: Any, value: Any, ends: Any, found: Any) -> None:
    """Fill found [N, FEATURES]. Columns that the table lacks are ignored."""
    for e in range(offsets.shape[0] - 1):
        before = -1
        values = 0.0
        hits = 0.0
        predicates = 0.0
        for i in range(offsets[e], offsets[e + 1]):
            a = column[i]
            if a >= ends.each.shape[0]:
                continue
            begin, end = ends.start[a], ends.start[a + 1]
            lows = first_beyond(ends.low, begin, end, value[i])
            highs = first_from(ends.high, begin, end, value[i])
            values += 1.0
            hits += max(lows - highs, 0) * ends.each[a]
            if a != before:
                predicates += ends.predicates[a]
                before = a
        found[e, 0] = 1.0
        found[e, 1] = values
        found[e, 2] = hits
        found[e, 3] = predicates


@kernel
def interleave(
    second: Any, offsets: Any, subscription: Any, offsets_2: Any, subscription_2: Any, counts: Any, out: Any
) -> None:
    """Event e takes the next matches of the second algorithm where second[e], else those of the first."""
    m = 0
    i = 0
    j = 0
    for e in range(second.shape[0]):
        before = m
        if second[e]:
            for k in range(offsets_2[j], offsets_2[j + 1]):
                out[m] = subscription_2[k]
                m += 1
            j += 1
        else:
            for k in range(offsets[i], offsets[i + 1]):
                out[m] = subscription[k]
                m += 1
            i += 1
        counts[e] = m - before
