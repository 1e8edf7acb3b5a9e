"""Room for matches as they are found, and the matches of events listed from there (`kernels/runs.py`)."""

from __future__ import annotations

import numpy as np

from matchers.algorithms.tiles.kernels.runs import Runs, arrange, count_matches
from matchers.contract.tables import Int32, MatchBatch
from matchers.kernels.vectors import WORDS


def room_for(matches: int, runs: int, sets: int) -> Runs:
    return Runs(
        np.empty(runs, np.int32),
        np.empty(runs, np.int64),
        np.empty(matches, np.int32),
        np.empty(sets, np.int32),
        np.empty(sets, np.int64),
        np.empty(sets * WORDS, np.uint64),
        np.zeros(3, np.int64),
    )


def listed(runs: Runs, n_events: int, id: Int32, id_start: Int32, n_subscriptions: int) -> MatchBatch:
    offsets = np.zeros(n_events + 1, np.int64)
    count_matches(runs, id_start, offsets)
    out = np.empty(int(offsets[-1]), np.int32)  # by numpy, which uses huge pages
    arrange(runs, id, id_start, n_subscriptions, offsets, out)
    return MatchBatch(offsets, out)
