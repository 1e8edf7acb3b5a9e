"""Define what encoding, slots and their callers pass to each other."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchers.contract.tables import Int64
from streaming.errors import JobError

Bytes = NDArray[np.uint8]
TopicPartition = tuple[str, int]
Offsets = Mapping[TopicPartition, int]  # offset of the first record not yet read
Notes = Mapping[TopicPartition, str]  # metadata of such offsets

LEAST_ATTEMPTS = 5  # at one transaction, however long they take


class ProducerEpoch(NamedTuple):
    """The producer id and epoch that the broker assigned to a slot: only the newest producer may write."""

    id: int
    epoch: int


class RecordBatches(NamedTuple):
    """Record batches, by ascending destination; several of one destination are in order.

    A destination is an index into a list of TopicPartition.
    """

    data: Bytes  # all of them; batch i is data[begin[i] : end[i]]
    begin: Int64  # [B]
    end: Int64  # [B]
    destination: Int64  # [B]
    records: Int64  # [B]: how many it has


class Aborted(JobError):
    """A transaction was aborted by its slot, and nothing of it is visible. Another one may succeed.

    `rejected` maps topics whose records the broker rejects to its reason. Topics in `too_large` are not among them:
    they reject batches of several records, and may take smaller ones. `gone` are topics that were deleted. The slot
    continues with `producer`.
    """

    retry = True

    def __init__(
        self,
        reason: str,
        producer: ProducerEpoch,
        rejected: Mapping[str, str] = MappingProxyType({}),
        gone: frozenset[str] = frozenset(),
        too_large: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(reason)
        self.producer = producer
        self.rejected = rejected
        self.gone = gone
        self.too_large = too_large
