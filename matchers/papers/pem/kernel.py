"""Merge the matches of disjoint sets of subscriptions for the same events.

    one numbers 1 4 6 as 0 1 2 and found 0 2, another found 0 5: bits 0 1 5 6, which are read in order

Cost: O(S / 64 + matches) per event, whatever the number of sets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.bitsets import unmark, unmarked
from matchers.kernels.jit import kernel


@kernel
def gather(offsets: Any, found: Any, subscription: Any, bits: Any) -> None:
    """Clear the bits of what one set matched: subscription[found[offsets[e]]] .. [offsets[e + 1]] for event e."""
    for e in range(offsets.shape[0] - 1):
        for i in range(offsets[e], offsets[e + 1]):
            unmark(bits[e], subscription[np.uint64(found[i])])


@kernel
def list_all(bits: Any, n_subscriptions: int, out: Any, counts: Any) -> None:
    """List each event's subscriptions whose bit is 0."""
    m = 0
    for e in range(bits.shape[0]):
        before = m
        m = unmarked(bits[e], n_subscriptions, out, m)
        counts[e] = m - before
