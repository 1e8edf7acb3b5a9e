"""Lay one event out by column, so that a kernel finds the values of a column at once.

An event has its values sorted by column, and may hold several in one:

    column:  2  2  5        first[2] = 0, last[2] = 2     last - first = how many
    value:   7  9  1        first[5] = 2, last[5] = 3     0 where the event has none
"""

from __future__ import annotations

from typing import Any

from matchers.kernels.jit import kernel


@kernel
def lay_out(column: Any, begin: int, end: int, first: Any, last: Any) -> None:
    for i in range(begin, end):
        c = column[i]
        if c < first.shape[0]:  # the batch may know more columns than the table
            if last[c] == 0:
                first[c] = i
            last[c] = i + 1


@kernel
def clear(column: Any, begin: int, end: int, first: Any, last: Any) -> None:
    for i in range(begin, end):
        c = column[i]
        if c < first.shape[0]:
            first[c] = 0
            last[c] = 0
