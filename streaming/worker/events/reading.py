"""Decode the events of an Arrow batch into the values that subscriptions name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from matchers.index.fields import Fields
from matchers.index.values import Values, joined, none_read, read_documents, read_json_values, without
from streaming.codecs import Decode, Undecodable, decode_event
from streaming.codecs.depth import checked
from streaming.worker.buffers import bytes_of
from streaming.worker.events import record_fields


@dataclass(frozen=True)
class DecodedBatch:
    values: Values
    undecodable: dict[int, str]  # row -> reason; these rows hold nothing, and must match nothing
    document: Callable[[int], dict[str, Any]]  # the whole event; of an undecodable row one without fields


def read_events(rows: pa.RecordBatch, fields: Fields, decode: Decode, topic: str) -> DecodedBatch:
    """Decode events: JSON by the kernel; the ones it leaves, and other codecs' events, one by one.

    The fields beside the value hide those of the same names in it.
    """
    value = rows["value"]
    if decode is decode_event:
        values, left = read_json_values(*bytes_of(value), fields)
    else:
        values, left = none_read(len(value)), np.arange(len(value))
    documents: dict[int, dict[str, Any]] = {}
    undecodable: dict[int, str] = {}

    def document(row: int) -> dict[str, Any]:
        if row in undecodable:
            return {}
        if row not in documents:
            headers: dict[str, list[bytes]] = {}
            for header in rows["headers"][row].as_py() or ():
                headers.setdefault(header["key"], []).append(header["value"] or b"")
            documents[row] = checked(decode(value[row].as_py(), headers))
        return documents[row]

    for row in left.tolist():
        try:
            document(row)
        except Undecodable as error:
            undecodable[row] = str(error)
    at = np.array(list(documents), np.int64)
    values = joined(values, at, read_documents(list(documents.values()), fields))
    beside = record_fields.are_beside(fields)
    if not beside.any():
        return DecodedBatch(values, undecodable, document)

    def whole(row: int) -> dict[str, Any]:
        if row in undecodable:
            return {}
        own = {name: value for name, value in document(row).items() if name not in record_fields.NAMES}
        return own | record_fields.document(rows, row, topic)

    of_records = record_fields.values(rows, fields, topic)
    return DecodedBatch(joined(without(values, beside), np.arange(len(rows)), of_records), undecodable, whole)
