"""Divide the marking among threads at the granularity of (attribute, width level): WPA-REIN, section 1.7."""

from __future__ import annotations

import heapq

import numpy as np

from matchers.contract.tables import Float64, Int64


def allocate(work: Float64, threads: int) -> list[Int64]:
    """The groups that each thread marks, ascending, so that the groups of one attribute are contiguous.

    The largest group left goes to the thread with the least work. So no two threads differ by more than one group, and
    the most that a thread has is below 4 / 3 of the best there is (Graham). Groups without work are left out.
    """
    if threads == 1:
        return [np.flatnonzero(work)]
    load = [(0.0, t) for t in range(threads)]
    groups: list[list[int]] = [[] for _ in range(threads)]
    for g in np.argsort(-work, kind="stable")[: np.count_nonzero(work)].tolist():
        least, t = load[0]
        heapq.heapreplace(load, (least + float(work[g]), t))
        groups[t].append(g)
    return [np.array(sorted(own), np.int64) for own in groups]
