"""Map subscriptions to interfaces, as filters in PCM: a match of one subscription forwards the event there.

Source: Margara and Cugola, "High Performance Publish-Subscribe Matching Using Parallel Hardware", sec. 2. An interface
is a subscriber, or a neighbouring broker.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from matchers.contract.tables import Int32, MatchBatch, ids_of, offsets_of
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
        ids = ids_of("interface", of, n)
        ids.flags.writeable = False
        return cls(ids, n)

    def behind(self, matches: MatchBatch) -> MatchBatch:
        """The interfaces that each event is forwarded to, ascending, instead of the subscriptions it satisfies. Raises
        TableError if one of these has no interface."""
        if (most := matches.subscription.max(initial=-1)) >= len(self.of):
            raise TableError(f"{len(self.of)} subscriptions have an interface, and number {most} has none")
        counts = np.zeros(len(matches), np.int64)
        out = np.empty(min(len(matches.subscription), len(matches) * self.n), np.int32)
        n = behind(matches.offsets, matches.subscription, self.of, self.n, out, counts)
        return MatchBatch(offsets_of(counts), out[:n])
