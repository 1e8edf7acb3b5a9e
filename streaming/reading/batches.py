"""Find the record batches of a fetched partition, and decide which ones count.

    batch    base offset 8 | length 4 | leader epoch 4 | magic 1 | CRC 4 | attributes 2 | last offset delta 4
             | base timestamp 8 | max timestamp 8 | producer id 8 | epoch 2 | base sequence 4 | records 4 | records

A control batch holds one record, which ends a transaction. A batch of an aborted transaction does not count, and
neither does one without records or without requested offsets.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.ascending import first_from
from matchers.kernels.jit import inner, kernel
from streaming.publishing.encode.crc32c import crc32c
from streaming.reading.contract import NO_END
from streaming.reading.numbers import number, varint

HEAD = 61  # bytes of a batch before its records
_BEFORE_LENGTH_COUNTS = 12
_EPOCH, _MAGIC, _CRC, _ATTRIBUTES, _LAST_DELTA, _BASE_TIME = 12, 16, 17, 21, 23, 27
_MAX_TIME, _PRODUCER, _RECORDS = 35, 43, 57
_NEWEST = 2  # the format of batches with a head
_LEAST_LEGACY = 14  # bytes of a message of format 0 that are counted

# Attributes of a batch.
CODEC, APPEND_TIME, TRANSACTIONAL, CONTROL = 7, 8, 16, 32

# Columns of a table of batches, int64.
BEGIN = 0  # where its records begin in the data
END = 1  # and end
BASE = 2  # offset that deltas are added to
LAST = 3  # the last offset
NEXT = 4  # the offset to read after it and after all that follow it and do not count
ATTRIBUTES = 5
TIME = 6  # ms that deltas are added to
MAX_TIME = 7  # ms
RECORDS = 8
NEXT_EPOCH = 9  # the leader epoch that goes with NEXT
COLUMNS = 10


# Why the search for batches ended.
DONE = 0  # at the end of the data, or of the wanted offsets
LEGACY = 1  # at a message of format 0 or 1
UNKNOWN_FORMAT = 2
WRONG_CHECKSUM = 3
WRONG_NUMBERS = 4  # its lengths, offsets or number of records contradict each other


class FoundBatches(NamedTuple):
    """The result of a search."""

    batches: Any  # [B, COLUMNS] int64: those that count
    at: int  # where the search ended in the data
    next: int  # the offset to read after the batches before it
    epoch: int  # and the leader epoch of the last of these
    after: int  # the offset after the last of these, whatever was requested
    state: int  # DONE, ...
    offset: int  # the base offset of the batch that ended the search


class AbortedTransactions(NamedTuple):
    """The T aborted transactions of a fetched partition, ascending by producer and first offset."""

    producer: Any  # [T] int64
    first: Any  # [T] int64: offset
    open: Any  # [T] int64; where a producer begins: its first transaction that has not ended. Updated by `scan`


@inner
def _marks_abort(data: Any, at: int, end: int) -> Any:
    """Whether the one record of a control batch ends an aborted transaction: its key is version 2 | type 2."""
    _, at = varint(data, at, end)
    _, at = varint(data, at + 1, end)
    _, at = varint(data, at, end)
    length, at = varint(data, at, end)
    return length >= 4 and at + 4 <= end and data[at + 2] == 0 and data[at + 3] == 0


@inner
def _whole(data: Any, at: int) -> Any:
    """Return whether the data holds the whole batch, or message, that begins there."""
    return (
        at + _BEFORE_LENGTH_COUNTS + _LEAST_LEGACY <= data.shape[0]
        and number(data, at + 8, 4) <= data.shape[0] - at - _BEFORE_LENGTH_COUNTS
    )


@inner
def _is_aborted(aborted: Any, id: int, last: int, ends: Any) -> Any:
    """Return whether a batch of producer `id` up to offset `last` belongs to an aborted transaction. `ends`: the batch
    ends the transaction."""
    producer, first, open = aborted.producer, aborted.first, aborted.open
    low = first_from(producer, 0, producer.shape[0], id)
    if low == producer.shape[0] or producer[low] != id:
        return False
    i = open[low]
    if i == producer.shape[0] or producer[i] != id or first[i] > last:
        return False
    if ends:
        while i < producer.shape[0] and producer[i] == id and first[i] <= last:
            i += 1
        open[low] = i
    return True


@kernel
def scan(
    data: Any, at: int, begin: int, epoch: int, end: int, after: int, aborted: AbortedTransactions
) -> FoundBatches:
    """Return the batches from position `at` on that count for offsets begin .. end. `epoch` is the leader epoch before
    them, and no batch may begin before the offset `after`: the offsets of a partition ascend.

    Cost: O(length of the data + B log T). A broker may list as many transactions as fit its answer.
    """
    count, here = 0, at
    while _whole(data, here) and number(data, here + 8, 4) >= _LEAST_LEGACY and data[here + _MAGIC] == _NEWEST:
        count += 1
        here += _BEFORE_LENGTH_COUNTS + number(data, here + 8, 4)
    batches = np.empty((count, COLUMNS), np.int64)
    kept = 0
    following: Any = np.int64(begin)
    state = DONE
    base: Any = np.int64(0)
    while _whole(data, at):
        base = number(data, at, 8)
        length = number(data, at + 8, 4)
        stop = at + _BEFORE_LENGTH_COUNTS + length
        if length < _LEAST_LEGACY:
            state = WRONG_NUMBERS
            break
        if data[at + _MAGIC] != _NEWEST:
            state = LEGACY if data[at + _MAGIC] < _NEWEST else UNKNOWN_FORMAT
            break
        if base < after:
            state = WRONG_NUMBERS
            break
        if base >= end:
            if following < end:
                following, epoch = end, number(data, at + _EPOCH, 4)
            break
        if stop < at + HEAD:
            state = WRONG_NUMBERS
            break
        if np.uint32(crc32c(data, at + _ATTRIBUTES, stop)) != np.uint32(number(data, at + _CRC, 4) & 0xFFFFFFFF):
            state = WRONG_CHECKSUM
            break
        attributes, records = number(data, at + _ATTRIBUTES, 2), number(data, at + _RECORDS, 4)
        delta = number(data, at + _LAST_DELTA, 4)
        # A batch that compaction emptied is a head.
        if not 0 <= delta < NO_END - base or records < 0 or (records == 0 and stop > at + HEAD):
            state = WRONG_NUMBERS
            break
        last = base + delta
        counts = last >= begin and records > 0 and not attributes & CONTROL
        if attributes & (TRANSACTIONAL | CONTROL):
            id = number(data, at + _PRODUCER, 8)
            ends = attributes & CONTROL != 0 and _marks_abort(data, at + HEAD, stop)
            counts = not _is_aborted(aborted, id, last, ends) and counts
        after = last + 1
        following, epoch = max(following, min(last + 1, end)), number(data, at + _EPOCH, 4)
        if counts:
            batches[kept, BEGIN], batches[kept, END] = at + HEAD, stop
            batches[kept, BASE], batches[kept, LAST] = base, last
            batches[kept, ATTRIBUTES], batches[kept, RECORDS] = attributes, records
            batches[kept, TIME] = number(data, at + _BASE_TIME, 8)
            batches[kept, MAX_TIME] = number(data, at + _MAX_TIME, 8)
            kept += 1
        if kept:
            batches[kept - 1, NEXT], batches[kept - 1, NEXT_EPOCH] = following, epoch
        at = stop
    if kept:
        batches[kept - 1, NEXT], batches[kept - 1, NEXT_EPOCH] = following, epoch
    return FoundBatches(batches[:kept], at, following, epoch, after, state, base)
