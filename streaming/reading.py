"""Read the events of an Arrow batch into the values that subscriptions ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from matchers.fields import Fields
from matchers.values import Values, read_documents, read_json_values, spliced
from streaming.codecs import Undecodable, decode_event


@dataclass(frozen=True)
class Reading:
    values: Values
    undecodable: dict[int, str]  # row -> reason; these rows hold nothing, and must match nothing
    document: Callable[[int], dict[str, Any]]  # of a row: the whole event


def read_json_events(value: pa.BinaryArray, fields: Fields) -> Reading:
    """From JSON, by the kernel; the few that it leaves, and those that are no events, one by one."""
    begins, ends, text = _bytes_of(value)
    values, hard = read_json_values(text, begins, ends, fields)
    documents: dict[int, dict[str, Any]] = {}
    undecodable = {}
    for row in hard.tolist():
        try:
            documents[row] = decode_event(value[row].as_py())
        except Undecodable as error:
            undecodable[row] = str(error)
    values = spliced(values, np.array(list(documents), np.int64), read_documents(list(documents.values()), fields))

    def document(row: int) -> dict[str, Any]:
        if row not in documents:
            documents[row] = decode_event(value[row].as_py())
        return documents[row]

    return Reading(values, undecodable, document)


def _bytes_of(value: pa.BinaryArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Begins and ends within the array's own bytes, and these, not copied. Null is empty."""
    _, offsets, data = value.buffers()
    at = np.frombuffer(offsets, np.int32)[value.offset : value.offset + len(value) + 1].astype(np.int64)
    text = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return at[:-1], at[1:], text
