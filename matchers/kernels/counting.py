"""Count the columns in which an event hits a subscription, each column once: the parts that counting kernels share.

Several values of one column may hit one subscription. They are one group, and `stamp` remembers the last group that
counted for a subscription:

    column:  2  2  5  7       of a batch's values 8 9 10 11
    group:   9  9  11 12      1 + the place of the column's first value, so no two events share a group

A subscription matches when as many columns were hit as it has intervals in (`needed`).
"""

from __future__ import annotations

from typing import Any

from matchers.kernels.jit import inlined


@inlined
def group_of(column: Any, k: int, begin: int, group: int) -> int:
    """The group of value k of an event that begins at `begin`; `group` is that of the value before."""
    if k == begin or column[k - 1] != column[k]:
        group = k + 1
    return group


@inlined
def count_hit(s: int, group: int, stamp: Any, hits: Any) -> None:
    if stamp[s] != group:
        stamp[s] = group
        hits[s] += 1


@inlined
def list_complete(hits: Any, needed: Any, out: Any, m: int) -> int:
    """Write the subscriptions that match into `out` from m on; returns where they end."""
    for s in range(needed.shape[0]):
        if hits[s] == needed[s]:
            out[m] = s
            m += 1
    return m
