"""Merge overlapping intervals of one (subscription, column), in place."""

from __future__ import annotations

from typing import Any

from matchers.kernels.jit import kernel


@kernel
def merge(subscription: Any, column: Any, low: Any, high: Any) -> int:
    """Merge intervals that ascend by (subscription, column, low). The results are in front; returns their number.

    Empty intervals (low > high) are dropped. If a (subscription, column) has only empty ones, (inf, -inf) remains: no
    value satisfies it.
    """
    kept = 0
    for i in range(low.shape[0]):
        same = kept > 0 and subscription[i] == subscription[kept - 1] and column[i] == column[kept - 1]
        empty = low[i] > high[i]
        if same and empty:
            continue
        if same and low[kept - 1] > high[kept - 1]:
            low[kept - 1] = low[i]
            high[kept - 1] = high[i]
        elif same and low[i] <= high[kept - 1]:
            high[kept - 1] = max(high[kept - 1], high[i])
        else:
            subscription[kept] = subscription[i]
            column[kept] = column[i]
            low[kept] = float("inf") if empty else low[i]
            high[kept] = float("-inf") if empty else high[i]
            kept += 1
    return kept
