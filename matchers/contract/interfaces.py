"""Map subscriptions to interfaces, as filters in PCM: a match of one subscription forwards the event there.

Source: Margara and Cugola, "High Performance Publish-Subscribe Matching Using Parallel Hardware", sec. 2. An interface
is a subscriber, or a neighbouring broker.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from matchers.contract.tables import Int32, MatchBatch, offsets_of
from matchers.errors import TableError
from matchers.kernels.interfaces import behind


@dataclass(frozen=True, eq=False)
class Interfaces:
    """The interface that each subscription stands behind. A match forwards the event to it."""

    of: Int32  # [S]: the interface that a subscription stands behind
    n: int

    @classmethod
    def from_ids(cls, of: ArrayLike, n: int) -> Interfaces:
        """Raises TableError."""
        ids = np.array(of, np.int32)
        if ids.size and not (ids.min() >= 0 and ids.max() < n):
            raise TableError(f"interface must lie within 0 .. {n - 1}, not {ids.min()} .. {ids.max()}")
        ids.flags.writeable = False
        return cls(ids, n)

    def behind(self, matches: MatchBatch) -> MatchBatch:
        """The interfaces that each event is forwarded to, ascending, instead of the subscriptions it satisfies."""
        counts = np.zeros(len(matches), np.int64)
        out = np.empty(min(len(matches.subscription), len(matches) * self.n), np.int32)
        n = behind(matches.offsets, matches.subscription, self.of, self.n, out, counts)
        return MatchBatch(offsets_of(counts), out[:n])
