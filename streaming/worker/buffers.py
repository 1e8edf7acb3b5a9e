"""Access the bytes of an Arrow array without a copy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from matchers.contract.tables import Int64


def bytes_of(values: pa.BinaryArray) -> tuple[np.ndarray, Int64, Int64]:
    """Return the array's bytes, and the begin and end of each value in them. Null is empty."""
    _, offsets, data = values.buffers()
    at = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    text = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return text, at[:-1], at[1:]
