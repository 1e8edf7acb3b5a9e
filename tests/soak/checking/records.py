"""Records on their way from the reader to the check, as arrays of numbers."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rig.records import change_of, delivery_of, status_of

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

KINDS = {"accepted": 0, "unsubscribed": 1, "rejected": 2}
# Columns of a delivery, whose ids are in another array, of a status, before the offsets from which it counts, and of a
# change, before its subscriber and pattern.
PARTITION, OFFSET, SUBSCRIBER, VERSION, CHECKSUM, IDS = range(6)
STATUS_PARTITION, STATUS_OFFSET, STATUS_KIND, STATUS_VERSION, STATUS_TIME = range(5)
CHANGE_TIME = 7  # behind the columns of `change_of`


class Chunk(NamedTuple):
    """The records read since the last chunk, each kind in the order of its log."""

    deliveries: Int64  # [D, 6]
    ids: Int32  # [I] of the deliveries, one after the other
    statuses: Int64  # [T, 5 + Q] for Q partitions of the events topic
    changes: Sequence[Int32]  # [C, 8] by partition


class Records:
    """Collects the records of a chunk. Times are milliseconds since `began_ms`, so that four bytes hold them."""

    def __init__(self, event_partitions: int, change_partitions: int, began_ms: int) -> None:
        self._began_ms = began_ms
        self._event_partitions = event_partitions
        self._change_partitions = change_partitions
        self._clear()

    def _clear(self) -> None:
        self._deliveries, self._ids, self._statuses = array("q"), array("i"), array("q")
        self._changes = [array("i") for _ in range(self._change_partitions)]

    def __len__(self) -> int:
        """The number of deliveries, statuses and changes."""
        numbers = (self._deliveries, 6), (self._statuses, 5 + self._event_partitions), *((c, 8) for c in self._changes)
        return sum(len(rows) // width for rows, width in numbers)

    def delivery(self, subscriber: int, headers: Mapping[str, bytes], value: bytes) -> None:
        *numbers, ids = delivery_of(subscriber, headers, value)
        self._deliveries.extend((*numbers, len(ids)))
        self._ids.extend(ids)

    def status(self, value: bytes, read_ms: int) -> None:
        status = status_of(value)
        kind, time_ms = KINDS[status.status], read_ms - self._began_ms
        self._statuses.extend((status.partition, status.offset, kind, status.version, time_ms))
        self._statuses.extend(status.begins(self._event_partitions))

    def change(self, partition: int, key: bytes | None, value: bytes | None, timestamp_ms: int) -> None:
        self._changes[partition].extend(change_of(key, value))
        self._changes[partition].append(timestamp_ms - self._began_ms)

    def taken(self) -> Chunk:
        """Return all collected records, and forget them."""
        chunk = Chunk(
            _rows(self._deliveries, 6),
            np.array(self._ids, np.int32),
            _rows(self._statuses, 5 + self._event_partitions),
            [_rows(changes, 8) for changes in self._changes],
        )
        self._clear()
        return chunk


def _rows(numbers: array[int], columns: int) -> Any:
    return np.array(numbers).reshape(-1, columns)
