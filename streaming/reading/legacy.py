"""Read messages of formats 0 and 1, which brokers before Kafka 0.11 wrote and newer ones pass on as they are."""

from __future__ import annotations

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatch

from streaming.reading.unpacking import unpacked

_MAGIC = 16
_LARGEST = (1 << 31) - 1
_NO_TIME = -1
_PIECE_BYTES = 1 << 24


class _Message(LegacyRecordBatch):  # type: ignore[misc]  # kafka-python has no types
    """A message that is decompressed by the libraries of this project."""

    def _decompress(self, key_offset: int) -> bytes:
        _, value = self._read_key_value(key_offset)
        return b"".join(piece for piece, _ in unpacked(self.compression_type, memoryview(value or b""), _PIECE_BYTES))


def upgraded(message: memoryview) -> bytes | None:
    """Return the records of a message as a batch of format 2; None if the checksum is wrong.

    Raises the errors of kafka-python and the codecs for bytes that they cannot read.
    """
    read = _Message(message, message[_MAGIC])
    if not read.validate_crc():
        return None
    records = list(read)
    first: int = records[0].offset
    batch = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, _LARGEST)
    for record in records:
        time = _NO_TIME if record.timestamp is None else record.timestamp
        batch.append(record.offset - first, time, record.key, record.value, [])
    return first.to_bytes(8, "big") + bytes(batch.build())[8:]  # a builder's batches begin at 0
