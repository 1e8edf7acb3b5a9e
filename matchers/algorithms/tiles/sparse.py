"""Match sparse events by their columns: subscriptions are filed under four of theirs (`kernels/sparse_kernel.py`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.algorithms.tiles.clustering import Ranges
from matchers.algorithms.tiles.kernels.arrays import AT_ONCE
from matchers.algorithms.tiles.kernels.sparse_kernel import ColumnIndex, match_filed
from matchers.contract.tables import EventBatch, Int64, MatchBatch

FILED = 4  # columns
FEW_OF_COLUMNS = 1 / 8  # of all columns, that subscriptions constrain on average
SPARSE_OF_COLUMNS = 1 / 4  # of all columns, that an event has at most
LAID_OUT = 1 << 22  # bytes that the columns of events take
MATCHES = 64  # of an event, for which there is room at first


def column_index(hulls: Ranges) -> ColumnIndex:
    """The index of all slots, if these constrain few of the columns; else of none.

    A slot is filed under those of its columns that the fewest slots constrain.
    """
    n, d = len(hulls.start) - 1, len(hulls.n_cells)
    if len(hulls.column) > FEW_OF_COLUMNS * d * n:
        n = 0
    filed = np.full((FILED, n), d, np.int32)
    if n:
        rarity = np.empty(d, np.int64)
        rarity[np.argsort(np.bincount(hulls.column, minlength=d), kind="stable")] = np.arange(d)
        rare_first = np.argsort(hulls.owner * np.int64(d) + rarity[hulls.column])
        place = np.arange(len(hulls.column)) - hulls.start[hulls.owner]
        rarest = place < FILED
        filed[place[rarest], hulls.owner[rarest]] = hulls.column[rare_first[rarest]]
    slot = np.lexsort(filed[::-1])
    first, second, third, fourth = (columns[slot] for columns in filed)
    new = np.ones(n, bool)
    new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    begin = np.flatnonzero(new)
    pair_start = np.searchsorted(first[begin], np.arange(d + 2))
    return ColumnIndex(pair_start, second[begin], np.append(begin, n), third, fourth, slot.astype(np.int32))


def most_values(by_columns: ColumnIndex) -> int:
    """The most values of a sparse event; below 0 if no event is matched by its columns."""
    return int(SPARSE_OF_COLUMNS * (len(by_columns.pair_start) - 2)) if len(by_columns.slot) else -1


def match(
    events: EventBatch, some: tuple[int, int], d: int, filed: Any, worth: int, counters: Int64
) -> MatchBatch | None:
    """The matches of a range of events with a held `Filed` of d columns. None if they have more than about `worth`
    candidates each, which are not worth it to verify."""
    first, last = some
    most = max(8 * LAID_OUT // (d + 1), AT_ONCE)
    parts = []
    for begin in range(first, last, most):
        end = min(begin + most, last)
        matches, candidates = MATCHES * (end - begin), worth * (end - begin)
        few, *found = match_filed(begin, end, *events.arrays, filed, candidates, matches, counters)
        if not few:
            return None
        parts.append(MatchBatch(*found))
    return parts[0] if len(parts) == 1 else MatchBatch.joined(parts)
