"""The most bytes of a record batch, by topic. A topic may take less than a client sends, and does not say how much: it
rejects what is larger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from matchers.contract.tables import Int64
from streaming.publishing.contract import TopicPartition

DIVISOR = 4  # each try aborts a transaction


class BatchLimits:
    """`most_bytes` for all topics but those for which it was reduced."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._reduced: dict[str, int] = {}

    def of(self, destinations: Sequence[TopicPartition]) -> Int64:
        """[D]: the limit of each destination, in bytes without compression. A record may be larger, as a batch of its
        own."""
        if not self._reduced:
            return np.full(len(destinations), self._most_bytes, np.int64)
        return np.array([self._reduced.get(topic, self._most_bytes) for topic, _ in destinations], np.int64)

    def reduce(self, topics: Iterable[str]) -> None:
        """Reduce the limits of topics that have rejected batches of several records as too large."""
        for topic in topics:
            self._reduced[topic] = self._reduced.get(topic, self._most_bytes) // DIVISOR
