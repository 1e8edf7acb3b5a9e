"""Random partitions as brokers return them, with what a reader of committed records must see; ways to corrupt them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import NamedTuple

import numpy as np

from streaming.documents.records import Record
from streaming.errors import Unreadable
from streaming.publishing.contract import ProducerEpoch
from streaming.publishing.encode.compression import CODECS as OUR_CODECS
from streaming.publishing.encode.record_batches import Format, of_records
from streaming.reading.contract import NO_END, AbortedTransaction, FetchedPartition, Position, read_only
from streaming.reading.decoder import decode
from streaming.rows import EVENTS, ConsumerRecord, consumer_records
from tests.support.doubles.fetched_batches import (
    APPEND_TIME,
    CODECS,
    TRANSACTIONAL,
    batch,
    empty,
    marker,
    messages,
    sealed,
)

PARTITION = 7
PRODUCERS = (4, 2**40)
TIMES_MS = (-1, 0, 1_700_000_000_000, 2**62, -(2**62))


class History(NamedTuple):
    """A partition from its first offset on. Batch b is data[starts[b] : starts[b + 1]], and ends before ends[b]."""

    data: bytes
    starts: Sequence[int]  # [B + 1]
    ends: Sequence[int]  # [B]
    visible: Sequence[ConsumerRecord]
    aborted: Sequence[AbortedTransaction]

    def fetched(self, data: bytes, begin: int = 0, end: int = NO_END) -> FetchedPartition:
        return FetchedPartition("events", EVENTS, PARTITION, Position(begin), end, read_only(data), self.aborted)

    def between(self, begin: int, end: int) -> list[ConsumerRecord]:
        return [record for record in self.visible if begin <= record.offset < end]


def history(r: Random, most_batches: int = 6, *, legacy: bool = True) -> History:
    """Batches of several producers, some within transactions, with gaps; by kafka-python's encoder and by ours."""
    parts: list[bytes] = []
    ends: list[int] = []
    written: list[tuple[ConsumerRecord, int]] = []  # with the transaction, or -1
    open_transactions: dict[int, int] = {}  # of a producer: which
    aborted: dict[int, AbortedTransaction] = {}
    first: list[int] = []  # offset of each transaction
    offset = r.choice([0, 3, 2**40])
    for _ in range(r.randint(1, most_batches)):
        offset += r.choice([0, 0, 0, 1, 50])
        producer, kind = r.choice(PRODUCERS), r.random()
        if kind < 0.2 and producer in open_transactions:
            transaction = open_transactions.pop(producer)
            if commit := r.random() < 0.5:
                parts.append(marker(offset, producer, commit=commit))
            else:
                aborted[transaction] = AbortedTransaction(producer, first[transaction])
                parts.append(marker(offset, producer, commit=commit))
            offset += 1
        elif kind < 0.3:
            parts.append(empty(offset, offset + 4))
            offset += 5
        elif kind < 0.4 and legacy:
            codec = r.choice(["none", "gzip", "snappy", "lz4"])
            some = [record._replace(headers=[]) for record in _records(r, offset)]
            some = some[:1] if codec == "none" else some  # each would be a batch of its own
            parts.append(messages(some, 1, codec))
            written += [(record, -1) for record in some]
            offset = some[-1].offset + 1
        else:
            some, transaction = _records(r, offset), -1
            if kind < 0.7:
                transaction = open_transactions.setdefault(producer, len(first))
                first += [offset] if transaction == len(first) else []
            made = _encoded(r, some, producer if transaction >= 0 else -1)
            parts.append(made[0])
            written += [(record, transaction) for record in made[1]]
            offset = made[2]
        ends.append(offset)
    for producer, transaction in open_transactions.items():  # the broker lists only what has ended
        aborted[transaction] = AbortedTransaction(producer, first[transaction])
    visible = [record for record, transaction in written if transaction not in aborted]
    starts = np.cumsum([0, *map(len, parts)]).tolist()
    return History(b"".join(parts), starts, ends, visible, list(aborted.values()))


def _encoded(r: Random, records: list[ConsumerRecord], producer: int) -> tuple[bytes, list[ConsumerRecord], int]:
    """A batch, its records as they are read, and the offset after it."""
    attributes = TRANSACTIONAL if producer >= 0 else 0
    if producer >= 0 and r.random() < 0.5:  # ours has no gaps, and one time
        first, time = records[0].offset, r.choice(TIMES_MS)
        read = [record._replace(offset=first + i, timestamp_ms=time) for i, record in enumerate(records)]
        ours = [Record("", record.key, record.value, list(record.headers)) for record in records]
        most = np.full(1, 1_000_000)
        form = Format(ProducerEpoch(producer, 0), np.zeros(1, np.int64), most, time, r.choice([*OUR_CODECS]))
        made = of_records(ours, [0] * len(ours), form)
        data = first.to_bytes(8, "big") + made.data[made.begin[0] + 8 : made.end[0]].tobytes()
        return data, read, first + len(read)
    last = records[-1].offset + r.choice([0, 0, 3])
    if r.random() < 0.2:
        time = max(record.timestamp_ms for record in records)
        data = batch(records, r.choice([*CODECS]), producer=producer, attributes=attributes | APPEND_TIME, last=last)
        return data, [record._replace(timestamp_ms=time) for record in records], last + 1
    return batch(records, r.choice([*CODECS]), producer=producer, attributes=attributes, last=last), records, last + 1


def _records(r: Random, offset: int) -> list[ConsumerRecord]:
    records = []
    for _ in range(r.choice([1, 1, 2, 5])):
        headers = [(r.choice(["", "a", "ü" * 40]), _text(r, 9)) for _ in range(r.choice([0, 0, 1, 3]))]
        # Differences of times are 64 bits, which Java's and kafka-python's encoders cannot exceed.
        records.append(ConsumerRecord(PARTITION, offset, r.choice(TIMES_MS[:4]), _text(r, 9), _text(r, 300), headers))
        offset += r.choice([1, 1, 1, 4])
    return records


def _text(r: Random, most: int) -> bytes | None:
    return r.choice([None, b"", r.randbytes(r.randint(1, most)), b"x" * r.randint(1, most)])


def read(partition: FetchedPartition, piece_bytes: int) -> Iterator[tuple[list[ConsumerRecord], int | None]]:
    """Yield what is decoded, item by item, and the next offset if it moved. Raises Unreadable."""
    for decoded in decode([partition], piece_bytes):
        decoded.rows.validate(full=True)
        records = [record._replace(headers=list(record.headers)) for record in consumer_records(decoded.rows)]
        position = decoded.positions.get(("events", PARTITION))
        yield records, position and position.offset


def spoil(r: Random, data: bytes, starts: Sequence[int]) -> bytes:
    """Other bytes in some batch, whose checksum is then right or wrong."""
    out = bytearray(data)
    b = r.randrange(len(starts) - 1)
    begin, end = starts[b], starts[b + 1]
    for _ in range(r.choice([1, 1, 2, 8])):
        out[r.randrange(begin, end)] = r.choice([0, 1, 127, 128, 255, r.randrange(256)])
    if r.random() < 0.7 and end - begin > 61:
        out[begin:end] = sealed(out[begin:end])
    return bytes(out)


def check(seed: int) -> None:
    """Read a history as it is, cut off and spoiled. Raises AssertionError, or what a decoder should not raise."""
    r = Random(seed)
    made = history(r)
    last = made.ends[-1]
    begin, end = (r.choice([0, r.randint(0, last + 2), r.choice(made.ends)]) for _ in range(2))
    end = r.choice([NO_END, max(begin, end)])
    cut = r.choice([len(made.data), r.randint(0, len(made.data))])
    whole = [e for e, stop in zip(made.ends, made.starts[1:], strict=True) if stop <= cut]

    position = begin
    records: list[ConsumerRecord] = []
    for some, following in read(made.fetched(made.data[:cut], begin, end), r.choice([1, 50, 1000, 1 << 24])):
        assert all(record.offset >= position for record in some)
        records += some
        position = position if following is None else following
        assert records == made.between(begin, position)
    reached = max(begin, min(whole[-1] if whole else begin, end))
    assert records == made.between(begin, min(end, reached))
    assert position == reached

    spoiled = spoil(r, made.data, made.starts)
    with suppress(Unreadable):
        for some, _ in read(made.fetched(spoiled, begin, end), r.choice([50, 1 << 24])):
            assert all(begin <= record.offset < end for record in some)
