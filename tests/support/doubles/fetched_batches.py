"""Record batches as brokers return them, by kafka-python's encoder: with codecs, control batches and old formats."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import lz4.frame
import pyarrow as pa
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.util import calc_crc32c

from streaming.rows import ConsumerRecord

HEAD = 61
APPEND_TIME, TRANSACTIONAL, CONTROL = 8, 16, 32  # attributes
_LARGEST = 1 << 30
_NOBODY = -1


def _snappy(data: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(data, asbytes=True)
    return packed


def _xerial(data: bytes, block: int = 100) -> bytes:
    """Frame snappy as Java's clients do, in smaller blocks."""
    blocks = [_snappy(data[i : i + block]) for i in range(0, len(data), block)]
    return b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + b"".join(len(b).to_bytes(4, "big") + b for b in blocks)


def _zstd_stream(data: bytes) -> bytes:
    """A frame that does not say how much it holds."""
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(data)
    return bytes(out.getvalue())


# By name: the number in a batch's attributes, and the compression of its records.
CODECS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (0, bytes),
    "gzip": (1, lambda data: zlib.compress(data, 1, wbits=31)),
    "gzip of two members": (1, lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
    "snappy": (2, _snappy),
    "snappy in blocks": (2, _xerial),
    "lz4": (3, lambda data: lz4.frame.compress(data, block_linked=False, store_size=False)),
    "lz4 with a size": (3, lz4.frame.compress),
    "zstd": (4, lambda data: pa.Codec("zstd").compress(data, asbytes=True)),
    "zstd as a stream": (4, _zstd_stream),
}


def batch(
    records: Sequence[ConsumerRecord],
    codec: str = "none",
    *,
    producer: int = _NOBODY,
    attributes: int = 0,
    base: int | None = None,
    last: int | None = None,
) -> bytes:
    """A batch of format 2. `base` and `last` are offsets that differ from those of the records after compaction."""
    base = records[0].offset if base is None else base
    builder = DefaultRecordBatchBuilder(2, 0, bool(attributes & TRANSACTIONAL), producer, 0, 0, _LARGEST)
    for record in records:
        builder.append(record.offset - base, record.timestamp_ms, record.key, record.value, list(record.headers))
    made = bytes(builder.build())
    last = (records[-1].offset if records else base) if last is None else last
    number, pack = CODECS[codec]
    head = bytearray(made[:HEAD])
    head[:8] = base.to_bytes(8, "big")
    head[21:23] = (attributes | number).to_bytes(2, "big")
    head[23:27] = (last - base).to_bytes(4, "big")
    return sealed(bytes(head) + pack(made[HEAD:]))


def sealed(data: bytes | bytearray) -> bytes:
    """A batch with the length and checksum that its bytes have."""
    out = bytearray(data)
    out[8:12] = (len(out) - 12).to_bytes(4, "big")
    out[17:21] = calc_crc32c(memoryview(out)[21:]).to_bytes(4, "big")
    return bytes(out)


def empty(base: int, last: int) -> bytes:
    """A batch whose records compaction removed; it keeps the sequence numbers of its producer."""
    made = bytearray(batch([ConsumerRecord(0, base, 0)], last=last)[:HEAD])
    made[57:61] = bytes(4)
    return sealed(made)


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    """The control batch that ends a transaction."""
    record = ConsumerRecord(0, offset, 0, b"\0\0\0" + bytes([commit]), bytes(6))
    return batch([record], producer=producer, attributes=TRANSACTIONAL | CONTROL)


def messages(records: Sequence[ConsumerRecord], magic: int, codec: str = "none") -> bytes:
    """Messages of format 0 or 1: one for each record, or one with all of them compressed."""
    number, pack = CODECS[codec]
    if not number:
        return b"".join(_message(r.offset, magic, r.timestamp_ms, r.key, r.value) for r in records)
    # Within a message of format 1 offsets count from its first record.
    first = records[0].offset if magic else 0
    within = b"".join(_message(r.offset - first, magic, r.timestamp_ms, r.key, r.value) for r in records)
    newest = max(record.timestamp_ms for record in records)
    return _message(records[-1].offset, magic, newest, None, pack(within), number)


def _message(offset: int, magic: int, time: int, key: bytes | None, value: bytes | None, attributes: int = 0) -> bytes:
    builder: Any = LegacyRecordBatchBuilder(magic, 0, _LARGEST)
    builder._buffer.extend(bytes(builder.size_in_bytes(offset, time, key, value)))
    builder._encode_msg(0, offset, time, key, value, attributes)
    return bytes(builder._buffer)
