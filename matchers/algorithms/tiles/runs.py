"""Room for matches as they are found, and the matches of events listed from there (`kernels/runs_kernel.py`)."""

from __future__ import annotations

import numpy as np

from matchers.algorithms.tiles.kernels.runs_kernel import MatchRuns, arrange, count_matches
from matchers.contract.tables import Int32, MatchBatch, offsets_of
from matchers.kernels.vectors import WORDS


def room_for(matches: int, runs: int, sets: int) -> MatchRuns:
    return MatchRuns(
        np.empty(runs, np.int32),
        np.empty(runs, np.int64),
        np.empty(matches, np.int32),
        np.empty(sets, np.int32),
        np.empty(sets, np.int64),
        np.empty(sets * WORDS, np.uint64),
        np.zeros(3, np.int64),
    )


def listed(runs: MatchRuns, n_events: int, id: Int32, id_start: Int32, n_subscriptions: int) -> MatchBatch:
    offsets = np.zeros(n_events + 1, np.int64)
    count_matches(runs, id_start, offsets)
    out = np.empty(int(offsets[-1]), np.int32)  # by numpy, which uses huge pages
    arrange(runs, id, id_start, n_subscriptions, offsets, out)
    return MatchBatch(offsets, out)


def united(parts: list[MatchBatch], id: Int32, id_start: Int32, n_subscriptions: int) -> MatchBatch:
    """The matches of the same events with different subscriptions. `id` and `id_start` only go with the kernels."""
    if len(parts) == 1:
        return parts[0]
    n = len(parts[0])
    matches = np.concatenate([part.subscription for part in parts])
    first = offsets_of([len(part.subscription) for part in parts])
    begin = np.concatenate([part.offsets[:-1] + at for part, at in zip(parts, first, strict=False)])
    event = np.tile(np.arange(n, dtype=np.int32), len(parts))
    no_sets = (np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint64))
    runs = MatchRuns(event, begin, matches, *no_sets, np.array([len(event), len(matches), 0]))
    return listed(runs, n, id, id_start, n_subscriptions)
