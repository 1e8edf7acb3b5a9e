"""Whether tiles are worth it, or a batch is matched subscription by subscription (`kernels/dense_kernel.py`).

The model of the tiles decides when an index is built. Where columns depend on each other it is wrong, so the candidates
that are counted decide too: tiles are left where these will take several times as long as the other way.
"""

from __future__ import annotations

from math import ceil

from matchers.algorithms.tiles.kernels.arrays import AT_ONCE, Arrays
from matchers.algorithms.tiles.kernels.layout_kernel import CANDIDATE_NS
from matchers.contract.tables import Int64
from matchers.kernels.vectors import WORDS

FEW_SUBSCRIPTIONS = 2_048  # subscriptions, which tiles match soon enough
PREDICATE_NS, ROW_NS = 4.0, 12.0  # testing 512 events or less, and filling a row
TURN_NS = 0.1  # a subscription, for an event
LARGEST = 1 << 25  # bytes of rows
NEVER_DENSE = 1 << 62  # however many candidates are counted
IF_COUNTED = NEVER_DENSE - 1  # never by the model


def rows(edge_start: Int64) -> int:
    """The number of rows of events: a column has one for each of its cells, and one more."""
    return int(edge_start[-1]) + 2 * (len(edge_start) - 1)


def worth_from(ns: float, index: Arrays) -> int:
    """The least events of a batch that are matched subscription by subscription, if tiles take `ns` for an event."""
    if len(index.start) - 1 < FEW_SUBSCRIPTIONS or rows(index.edge_start) * 8 * WORDS > LARGEST:
        return NEVER_DENSE
    saved = ns - TURN_NS * (len(index.start) - 1)
    from_ = ceil(_ns_at_once(index) / saved) if saved > 0.0 else IF_COUNTED
    return from_ if from_ <= AT_ONCE else IF_COUNTED


def most_candidates(n: int, share: float, index: Arrays) -> int:
    """The candidates of n events that take tiles as long to verify as to match all of a share of the slots instead."""
    ns = _ns_at_once(index) * ceil(n / AT_ONCE) + TURN_NS * (len(index.start) - 1) * n
    return int(share * ns / CANDIDATE_NS)


def _ns_at_once(index: Arrays) -> float:
    """Return the time for up to AT_ONCE events, besides that for each event."""
    return PREDICATE_NS * len(index.low) + ROW_NS * rows(index.edge_start)
