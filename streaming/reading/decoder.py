"""Decode fetched record batches to columns.

An event of 272 bytes costs 0.1 µs, since no object is created per record or header: compiled loops pass twice over the
bytes, first to check and measure them, then to copy them into Arrow's buffers. The rest is decompression.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streaming.errors import Unreadable
from streaming.publishing.contract import Bytes, TopicPartition
from streaming.reading.batches import BASE, NEXT_EPOCH, WRONG_NUMBERS
from streaming.reading.columns import columns, room
from streaming.reading.contract import Decoded, FetchedPartition, Position
from streaming.reading.plain import REASONS, PlainBatches, plain_batches, position_after, unreadable
from streaming.reading.records import AFTER, Limits, measure

PIECE_BYTES = 1 << 24  # records that are decoded at once


def decode(fetched: Iterable[FetchedPartition], piece_bytes: int = PIECE_BYTES) -> Iterator[Decoded]:
    """Yield the records of fetched partitions: mostly one item; more if they exceed `piece_bytes` uncompressed.

    Raises Unreadable at the first batch that cannot be read, after the good batches of all partitions.
    """
    chunks: list[PlainBatches] = []
    size = 0
    ended: dict[TopicPartition, Unreadable] = {}  # batches from here on are not even looked at
    after: dict[TopicPartition, int] = {}  # the offset after the last record
    wrong: dict[TopicPartition, Unreadable] = {}  # by their records: chunks from here on are left out
    for partition in fetched:
        try:
            for chunk in plain_batches(partition, piece_bytes):
                if chunks and size + chunk.size > piece_bytes:
                    yield _decoded(chunks, after, wrong)
                    chunks, size = [], 0
                if chunk.at in wrong:
                    break
                chunks.append(chunk)
                size += chunk.size
        except Unreadable as error:
            ended[partition.topic, partition.partition] = error
    if chunks:
        yield _decoded(chunks, after, wrong)
    for first in (ended | wrong).values():
        raise first


def _decoded(
    chunks: list[PlainBatches], after: dict[TopicPartition, int], wrong: dict[TopicPartition, Unreadable]
) -> Decoded:
    """Return the records of chunks up to a wrong batch, which is noted in `wrong`."""
    rows = room(sum(chunk.most_records() for chunk in chunks))
    positions: dict[TopicPartition, Position] = {}
    measured: list[tuple[Bytes, int, int]] = []
    n = 0
    for chunk in chunks:
        if chunk.at in wrong:
            continue
        begin = n
        offsets = chunk.of.begin.offset, chunk.of.end, after.get(chunk.at, 0)
        limits = Limits(int(chunk.of.source), chunk.of.partition, *offsets)
        n, good = measure(chunk.data, chunk.batches, limits, rows, n)
        after[chunk.at] = int(rows.totals[AFTER])
        measured.append((chunk.data, begin, n))
        if good < len(chunk.batches):
            wrong[chunk.at] = unreadable(chunk.of, int(chunk.batches[good, BASE]), REASONS[WRONG_NUMBERS])
            if good:
                positions[chunk.at] = position_after(chunk.batches[good - 1])
        elif chunk.next is not None:
            positions[chunk.at] = chunk.next
        elif n > begin:
            positions[chunk.at] = Position(int(rows.offset[n - 1]) + 1, int(chunk.batches[0, NEXT_EPOCH]))
    return Decoded(columns(rows, n, measured), positions)
