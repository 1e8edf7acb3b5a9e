"""List the interfaces of the subscriptions that events satisfy, each once per event."""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.jit import kernel


@kernel
def behind(offsets: Any, subscription: Any, interface: Any, n_interfaces: int, out: Any, counts: Any) -> int:
    """Fill `out`, which has room for all, and counts [N]; returns the length of the list."""
    stamp = np.zeros(n_interfaces, np.int64)  # the last event, from 1, that is forwarded there
    m = 0
    for event in range(offsets.shape[0] - 1):
        before = m
        for k in range(offsets[event], offsets[event + 1]):
            i = interface[subscription[k]]
            if stamp[i] != event + 1:
                stamp[i] = event + 1
                out[m] = i
                m += 1
        counts[event] = m - before
        out[before:m].sort()
    return m
