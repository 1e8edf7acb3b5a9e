"""Search the long list of intervals that a slot has in one column, instead of comparing them one by one.

Why it is fast: a list of 1,000 values takes 20 steps. What calls these is not made longer by them, as they are not
inlined, and slots with few intervals in a column never come here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.jit import inner

LONG = 64  # intervals of a slot, from which on `on_lists` is faster than comparing all


@inner
def end_of_list(i: Any, end: Any, range_: Any) -> Any:
    """Return the first of the intervals i .. end, ascending by column, that is not in the column of i. All uint64."""
    one, three = np.uint64(1), np.uint64(3)
    c = range_[three * i]
    if range_[three * (end - one)] == c:
        return end
    while i < end:
        middle = (i + end) >> one
        if range_[three * middle] == c:
            i = middle + one
        else:
            end = middle
    return i


@inner
def on_list(value: Any, i: Any, end: Any, low: Any, high: Any) -> bool:
    """Whether the value lies on one of the intervals i .. end of a column, which ascend and are disjoint."""
    one, first = np.uint64(1), i
    while i < end:
        middle = (i + end) >> one
        if low[middle] <= value:
            i = middle + one
        else:
            end = middle
    return bool(i > first and value <= high[i - one])


@inner
def on_lists(i: Any, end: Any, values: Any, origin: Any, range_: Any, low: Any, high: Any) -> bool:
    """Whether the event with its values at `origin`, one for each column, hits an interval in each column of i .. end.

    An absent value is NaN, which lies on none.
    """
    three = np.uint64(3)
    while i < end:
        beyond = end_of_list(i, end, range_)
        if not on_list(values[origin + np.uint64(range_[three * i])], i, beyond, low, high):
            return False
        i = beyond
    return True
