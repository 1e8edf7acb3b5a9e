"""Define what the fetcher, the decoder and their caller pass to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streaming.publishing.contract import Bytes, TopicPartition
from streaming.rows import Source

NO_END = (1 << 63) - 1  # an end offset that no partition reaches


class Position(NamedTuple):
    """The next offset to read, and the leader epoch of the last batch before it; -1 if that is unknown.

    The epoch lets a leader notice that its records before the offset differ from those that were read.
    """

    offset: int
    epoch: int = -1


class AbortedTransaction(NamedTuple):
    """An aborted transaction: the records of the producer from the first offset to the producer's next abort marker."""

    producer_id: int
    first_offset: int


class FetchedPartition(NamedTuple):
    """The record batches that a broker returned for one partition; the last one may be cut off."""

    topic: str
    source: Source
    partition: int
    begin: Position  # the first batch may begin before it
    end: int  # the offset to stop before, or NO_END
    data: Bytes  # read-only
    aborted: Sequence[AbortedTransaction] = ()


class Decoded(NamedTuple):
    """Records with the columns of `streaming.rows.INPUT`, and the position after them of each partition."""

    rows: pa.RecordBatch
    positions: Mapping[TopicPartition, Position]


def read_only(data: bytes | bytearray | memoryview | pa.Buffer) -> NDArray[np.uint8]:
    """View bytes as kernels of this package take them: they are compiled for read-only arrays."""
    array = np.frombuffer(data, np.uint8)
    array.flags.writeable = False
    return array
