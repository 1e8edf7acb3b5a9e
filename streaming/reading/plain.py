"""Lay out the batches of a fetched partition as kernels read them: without compression and in format 2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from streaming.errors import Unreadable
from streaming.publishing.contract import Bytes, TopicPartition
from streaming.reading import batches
from streaming.reading.batches import (
    ATTRIBUTES,
    BASE,
    BEGIN,
    CODEC,
    END,
    NEXT,
    NEXT_EPOCH,
    RECORDS,
    AbortedTransactions,
    FoundBatches,
    scan,
)
from streaming.reading.contract import AbortedTransaction, FetchedPartition, Position, read_only
from streaming.reading.legacy import upgraded
from streaming.reading.records import LEAST_BYTES, whole_records
from streaming.reading.unpacking import ERRORS, MOST_RECORD_BYTES, Piece, unpacked

TOGETHER_BYTES = 1 << 18  # of small batches: what fits a processor's cache

REASONS = {
    batches.UNKNOWN_FORMAT: "is of an unknown format",
    batches.WRONG_CHECKSUM: "has a wrong checksum",
    batches.WRONG_NUMBERS: "has lengths or offsets that contradict each other",
}


class PlainBatches(NamedTuple):
    """Batches of a partition, or some records of one batch: not compressed, and in the same bytes."""

    of: FetchedPartition
    data: Bytes
    batches: Any  # [B, COLUMNS]; may be empty
    next: Position | None  # after them; None: after their last record

    @property
    def at(self) -> TopicPartition:
        return self.of.topic, self.of.partition

    @property
    def size(self) -> int:
        return int(self.batches[-1, END]) - int(self.batches[0, BEGIN]) if len(self.batches) else 0

    def most_records(self) -> int:
        """Return an upper bound of the records, whatever the heads claim."""
        of_bytes = (self.batches[:, END] - self.batches[:, BEGIN]) // LEAST_BYTES
        return int(np.minimum(self.batches[:, RECORDS], of_bytes).sum())


def position_after(batch: Any) -> Position:
    return Position(int(batch[NEXT]), int(batch[NEXT_EPOCH]))


def unreadable(of: FetchedPartition, offset: int, reason: str) -> Unreadable:
    """The error about the batch with this base offset."""
    return Unreadable(f"{of.topic}, partition {of.partition}: the record batch at offset {offset} {reason}")


def plain_batches(of: FetchedPartition, piece_bytes: int) -> Iterator[PlainBatches]:
    """The batches that count, in pieces of about `piece_bytes`. Raises Unreadable after the good ones."""
    aborted = _aborted(of.aborted)
    begin, at, after = of.begin, 0, 0
    while True:
        found = scan(of.data, at, *begin, of.end, after, aborted)
        begin = Position(found.next, found.epoch)
        if not len(found.batches):
            yield PlainBatches(of, of.data, found.batches, begin)
        elif (found.batches[:, ATTRIBUTES] & CODEC).any():
            yield from _unpacked(of, found.batches, piece_bytes)
        else:
            piece = (found.batches[:, END] - found.at) // piece_bytes
            for some in np.split(found.batches, np.flatnonzero(np.diff(piece)) + 1) if piece.any() else [found.batches]:
                yield PlainBatches(of, of.data, some, position_after(some[-1]))
        if found.state == batches.DONE or found.next >= of.end:
            return
        if found.state != batches.LEGACY:
            raise unreadable(of, found.offset, REASONS[found.state])
        message = of.data.data[found.at :]
        message = message[: 12 + int.from_bytes(message[8:12], "big")]
        chunk, after = _upgraded(of, message, begin, found)
        yield chunk
        begin, at = chunk.next or begin, found.at + len(message)


def _aborted(transactions: Sequence[AbortedTransaction]) -> AbortedTransactions:
    table = np.array(transactions, np.int64).reshape(-1, 2)
    order = np.lexsort((table[:, 1], table[:, 0]))
    return AbortedTransactions(table[order, 0], table[order, 1], np.arange(len(table)))


def _upgraded(
    of: FetchedPartition, message: memoryview, begin: Position, found: FoundBatches
) -> tuple[PlainBatches, int]:
    """Return a message of format 0 or 1 as batches, and the offset after it."""
    try:
        data = upgraded(message)
    except ERRORS as error:
        raise unreadable(of, found.offset, f"is of an old format and cannot be read: {error}") from None
    if data is None:
        raise unreadable(of, found.offset, REASONS[batches.WRONG_CHECKSUM])
    within = scan(read_only(data), 0, *begin, of.end, found.after, _aborted(()))
    if within.state != batches.DONE:
        raise unreadable(of, found.offset, REASONS[within.state])
    return PlainBatches(of, read_only(data), within.batches, Position(within.next, begin.epoch)), within.after


def _unpacked(of: FetchedPartition, table: Any, piece_bytes: int) -> Iterator[PlainBatches]:
    """Decompress batches. Small ones are joined, because each call of a kernel takes microseconds."""
    texts: list[bytes | memoryview] = []
    first = size = 0

    def together(end: int) -> Iterator[PlainBatches]:
        if texts:
            yield _chunk(of, b"".join(texts) if len(texts) > 1 else texts[0], table[first:end])

    for b, (begin, end, attributes) in enumerate(table[:, [BEGIN, END, ATTRIBUTES]].tolist()):
        try:
            pieces = unpacked(attributes & CODEC, of.data.data[begin:end], piece_bytes)
            text, is_all = next(pieces)
        except ERRORS as error:
            yield from together(b)
            raise _unpackable(of, table[b], error) from None
        if size + len(text) > min(TOGETHER_BYTES, piece_bytes) or not is_all:
            yield from together(b)
            texts, first, size = [], b, 0
        if is_all:
            texts.append(text)
            size += len(text)
            table[b, BEGIN], table[b, END] = size - len(text), size
        else:
            yield from _in_pieces(of, table[b : b + 1], text, pieces)
            first = b + 1
    yield from together(len(table))


def _in_pieces(
    of: FetchedPartition, batch: Any, text: bytes | memoryview, pieces: Iterator[Piece]
) -> Iterator[PlainBatches]:
    """Yield a batch in pieces, `text` the first: a record that a piece cuts off is decoded with the next piece."""
    following = position_after(batch[0])
    left, is_last = int(batch[0, RECORDS]), False
    try:
        while True:
            n, end = (left, len(text)) if is_last else whole_records(read_only(text), left)
            if end < 0 or len(text) - end > MOST_RECORD_BYTES:
                raise ValueError(f"a record has more than {MOST_RECORD_BYTES} bytes")
            if n or is_last:
                some = batch.copy()
                some[0, [BEGIN, END, RECORDS]] = 0, end, n
                yield PlainBatches(of, read_only(text), some, following if is_last else None)
            if is_last:
                return
            left, rest = left - n, text[end:]
            piece, is_last = next(pieces)
            text = bytes(rest) + piece
    except ERRORS as error:
        raise _unpackable(of, batch[0], error) from None


def _chunk(of: FetchedPartition, text: bytes | memoryview, table: Any) -> PlainBatches:
    return PlainBatches(of, read_only(text), table, position_after(table[-1]))


def _unpackable(of: FetchedPartition, batch: Any, error: Exception) -> Unreadable:
    return unreadable(of, int(batch[BASE]), f"cannot be decompressed: {error}")
