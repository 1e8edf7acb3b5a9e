"""The predicates of subscriptions as ranges of cells (`tiles/quantiles.py`), as kernels take them."""

from __future__ import annotations

from typing import Any, NamedTuple


class PredicateLists(NamedTuple):
    """P predicates of S subscriptions; subscription s owns start[s] .. start[s + 1]."""

    start: Any  # [S + 1] int64
    column: Any  # [P] int32
    low: Any  # [P] uint16: the first cell
    high: Any  # [P] uint16: the last cell
    owner: Any  # [P] int32: the subscription
