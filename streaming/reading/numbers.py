"""Read numbers as Kafka writes them: big-endian numbers and signed varints."""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.jit import inner

_CONTINUES, _DIGITS, _SHIFT, _LAST_SHIFT = np.uint64(128), np.uint64(127), np.uint64(7), np.uint64(63)
_ONE = np.uint64(1)


@inner
def number(data: Any, at: int, width: int) -> Any:
    """A signed big-endian number of `width` bytes, int64."""
    value = np.int64(np.int8(data[at]))
    for i in range(1, width):
        value = (value << 8) | np.int64(data[at + i])
    return value


@inner
def varint(data: Any, at: int, end: int) -> tuple[Any, int]:
    """A signed varint of at most 64 bits, int64, and the position after it; (0, end + 1) if it does not end."""
    bits, shift = np.uint64(0), np.uint64(0)
    while at < end and shift <= _LAST_SHIFT:
        byte = np.uint64(data[at])
        at += 1
        bits |= (byte & _DIGITS) << shift
        if byte < _CONTINUES:
            return np.int64(bits >> _ONE) ^ -np.int64(bits & _ONE), at
        shift += _SHIFT
    return np.int64(0), end + 1
