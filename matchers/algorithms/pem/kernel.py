"""Merge the matches of disjoint sets of subscriptions for the same events.

    one found 1 6, another 0 5: bits 0 1 5 6, which are read in order

Cost: O(S / 64 + matches) per event, whatever the number of sets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.bitsets import unmark, unmarked
from matchers.kernels.jit import kernel


@kernel
def gather(offsets: Any, found: Any, begin: Any, n_subscriptions: int, out: Any, counts: Any) -> None:
    """Set p matched found[begin[p] + offsets[p, e]] .. found[begin[p] + offsets[p, e + 1]] for event e."""
    bits = np.empty((n_subscriptions + 63) >> 6, np.uint64)
    m = 0
    for e in range(offsets.shape[1] - 1):
        bits[:] = ~np.uint64(0)
        for p in range(offsets.shape[0]):
            for i in range(begin[p] + offsets[p, e], begin[p] + offsets[p, e + 1]):
                unmark(bits, found[i])
        before = m
        m = unmarked(bits, n_subscriptions, out, m)
        counts[e] = m - before
