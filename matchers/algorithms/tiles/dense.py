"""Whether tiles are worth it, or a batch is matched subscription by subscription (`kernels/dense_kernel.py`)."""

from __future__ import annotations

from math import ceil

from matchers.algorithms.tiles.kernels.arrays import AT_ONCE, Arrays
from matchers.contract.tables import Int64
from matchers.kernels.vectors import WORDS

FEW_SUBSCRIPTIONS = 2_048  # subscriptions, which tiles match soon enough
PREDICATE_NS, ROW_NS = 4.0, 12.0  # to ask 512 events or less, and to fill a row
TURN_NS = 0.1  # a subscription, for an event
LARGEST = 1 << 25  # bytes of rows
NEVER_DENSE = 1 << 62


def rows(edge_start: Int64) -> int:
    """The number of rows of events: a column has one for each of its cells, and one more."""
    return int(edge_start[-1]) + 2 * (len(edge_start) - 1)


def worth_from(ns: float, index: Arrays) -> int:
    """The least events of a batch that are matched subscription by subscription, if tiles take `ns` for an event."""
    slots = len(index.start) - 1
    n_rows = rows(index.edge_start)
    saved = ns - TURN_NS * slots
    if slots < FEW_SUBSCRIPTIONS or saved <= 0.0 or n_rows * 8 * WORDS > LARGEST:
        return NEVER_DENSE
    from_ = ceil((PREDICATE_NS * len(index.low) + ROW_NS * n_rows) / saved)
    return from_ if from_ <= AT_ONCE else NEVER_DENSE
