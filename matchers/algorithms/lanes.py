"""Match a batch in chunks, in which kernels count for many events at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from matchers.contract.matcher import list_matches
from matchers.contract.tables import EventBatch, Int32, Int64, MatchBatch
from matchers.kernels.lanes import LANES, any_arrays, list_bits

Words = NDArray[np.uint64]

ALL = ~np.uint64(0)  # bits of a word
CHUNK_BITS = 1 << 27  # of subscriptions, for all events of a chunk
CHUNK = 1024  # events
FEWEST = 5  # events that are matched in lanes: for fewer it is faster one after the other
MOST_LINES = 1 << 18  # 16 MB: beyond, a line is loaded from memory for every row


def in_lanes(events: EventBatch, n_columns: int) -> bool:
    """Whether there are enough events, and none with several values in one of the table's columns."""
    return len(events) >= FEWEST and not any_arrays(events.arrays, n_columns)


def dense(events: EventBatch, n_columns: int, fewest: int) -> bool:
    """Whether a row has so many lanes on average that it costs less than to count for one event after the other.

    How many these are depends on what an event costs alone. Processor time in us per event, one by one and in lanes, of
    50,000 subscriptions with 5 predicates of width 0.3 on 100 columns, batches of 256, least of two, by the lanes of a
    row; `opindex` needs no limit, as it chooses by partition:

                   8          16         24         32         48
        counting   28, 159    72, 225    107, 241   117, 188   169, 124
        sff        52, 154    129, 211   172, 161   272, 185   253, 95
        ocm        43, 33     173, 167   493, 320   711, 332   1775, 373
        opindex    43, 23     150, 44    243, 108   311, 133   793, 343
    """
    lanes = min(len(events), LANES)
    return len(events.value) * lanes >= fewest * len(events) * n_columns


def list_chunks(
    mark: Callable[[int, Words], None],
    n_events: int,
    n_subscriptions: int,
    begin: Words | np.uint64 = ALL,
    group: int = LANES,
) -> MatchBatch:
    """`mark(base, bits)` clears, for event base + e, the bits of its matches in bits[e], [S / 64].

    Before it is called, each event has the bits of `begin`. It takes whole groups of events, but for the last.
    """
    fit = CHUNK_BITS // max(n_subscriptions, 1) // group * group
    chunk = min(max(fit, group), CHUNK, n_events)
    room = np.empty((chunk, -(-n_subscriptions // 64)), np.uint64)
    parts = []
    for base in range(0, n_events, chunk):
        bits = room[: n_events - base]
        bits[:] = begin
        mark(base, bits)

        def step(first: int, out: Int32, counts: Int64, bits: Words = bits) -> int:
            return list_bits(first, n_subscriptions, bits, out, counts)

        parts.append(list_matches(step, len(bits), n_subscriptions))
    return MatchBatch.joined(parts) if len(parts) > 1 else parts[0]
