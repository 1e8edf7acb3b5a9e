"""List all subscriptions that are the same as those that an event matches."""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.algorithms.tiles.kernels.runs_kernel import sort_each
from matchers.kernels.jit import kernel


@kernel
def expanded(offsets: Any, unique: Any, id_start: Any, id: Any, n_ids: int) -> Any:
    """The offsets and subscriptions of a MatchBatch, ascending within an event, from one of different subscriptions.

    Those of one are copied; of several they are sorted by insertion and merging, or in a map of bits if they are many.
    """
    to = np.zeros(offsets.shape[0], np.int64)
    for e in range(offsets.shape[0] - 1):
        to[e + 1] = to[e]
        for k in range(offsets[e], offsets[e + 1]):
            to[e + 1] += id_start[unique[k] + 1] - id_start[unique[k]]
    out = np.empty(to[-1], np.int32)
    m = 0
    for k in range(offsets[0], offsets[-1]):
        for i in range(id_start[unique[k]], id_start[unique[k] + 1]):
            out[m] = id[i]
            m += 1
    sort_each(to, n_ids, out)
    return to, out
