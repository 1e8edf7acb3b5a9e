"""Run each kernel of this package once, so that all are compiled and cached before the first answer is decoded."""

from __future__ import annotations

import numpy as np

from streaming.documents.records import Record
from streaming.publishing.contract import ProducerEpoch
from streaming.publishing.encode.record_batches import Format, of_records
from streaming.reading.contract import NO_END, AbortedTransaction, FetchedPartition, Position, read_only
from streaming.reading.decoder import PIECE_BYTES, decode
from streaming.rows import EVENTS

_VALUE = b"v" * 1_000  # so long that compression makes it shorter


def compile() -> None:
    records = [Record("", b"key", _VALUE, [("name", b"content"), ("null", None)]), Record("", None, None, [])]
    for compression in ("none", "lz4"):
        form = Format(ProducerEpoch(0, 0), np.zeros(1, np.int64), np.full(1, 1_000_000), 0, compression)
        data = read_only(of_records(records, [0, 0], form).data.tobytes())
        of_others = [AbortedTransaction(1, 0)]
        fetched = FetchedPartition("", EVENTS, 0, Position(0), NO_END, data, of_others)
        for piece_bytes in (PIECE_BYTES, 1):  # a batch at once, and record by record
            assert sum(len(decoded.rows) for decoded in decode([fetched], piece_bytes)) == len(records)
