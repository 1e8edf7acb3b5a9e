"""Count the deliveries of events before they are published: a quota needs one counter, which the driver has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from streaming.documents.records import NO_TIMESTAMP
from streaming.rows import RowKind
from streaming.worker.events.matches import Matches
from streaming.worker.transaction import SUBSCRIBERS


class DeliveryCounter:
    """Takes the place of `publishing.Task`, and publishes nothing."""

    def publish(
        self, rows: pa.RecordBatch, matches: Matches, taken: float | None = None
    ) -> tuple[int, list[Mapping[str, Any]]]:
        """DELIVERY_COUNTS rows."""
        return 0, list(_delivery_counts(rows, matches))

    def report(self) -> list[Mapping[str, Any]]:
        return []


def _delivery_counts(rows: pa.RecordBatch, matches: Matches) -> Iterator[Mapping[str, Any]]:
    """The deliveries of each partition and second, by subscriber. An event without a timestamp belongs to no second."""
    row, names, _ = matches.between(0, len(rows))
    timestamp = np.asarray(rows["timestamp"])
    timed = timestamp[row] != NO_TIMESTAMP
    delivered = np.unique(np.column_stack([row, SUBSCRIBERS.numbers(names)])[timed], axis=0)
    row, subscriber = delivered.T
    places = [np.asarray(rows[name])[row] for name in ("source", "partition")]
    keys = np.column_stack([*places, timestamp[row] // 1000, subscriber])
    distinct, counts = np.unique(keys, axis=0, return_counts=True)
    ends = np.flatnonzero(np.any(distinct[1:, :3] != distinct[:-1, :3], axis=1)) + 1
    for some, n in zip(np.split(distinct, ends), np.split(counts, ends), strict=True):
        if len(some):
            yield {
                "kind": RowKind.DELIVERY_COUNTS,
                "source": int(some[0, 0]),
                "partition": int(some[0, 1]),
                "timestamp": int(some[0, 2]),
                "subscribers": SUBSCRIBERS.names.at(some[:, 3]),
                "counts": n.astype(np.int64).tobytes(),
            }
