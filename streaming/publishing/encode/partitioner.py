"""Choose the partition of a key like librdkafka's default partitioner (`consistent_random`): the CRC-32 of the key
modulo the partitions; without a key, or with an empty one, a random partition."""

from __future__ import annotations

from itertools import pairwise
from random import randrange
from zlib import crc32

import numpy as np

from matchers.contract.tables import Int64
from matchers.index.texts import Texts


def partition_of(key: bytes | None, partitions: int) -> int:
    return crc32(key) % partitions if key else randrange(partitions)


def partitions_of(names: Texts, partitions: int) -> Int64:
    """[n]: the partition of each of these keys."""
    text, ends = names.text.data, names.start.tolist()
    places = (
        crc32(text[begin:end]) % partitions if end > begin else randrange(partitions) for begin, end in pairwise(ends)
    )
    return np.fromiter(places, np.int64, len(names))
