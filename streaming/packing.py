"""Objects made of arrays, as bytes or as a file from which they come back without a copy; then they are read-only.

Only for what our own processes give each other: nothing that came from a topic is ever unpacked.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from matchers import flat_file
from matchers.errors import MatchingError

_FORMAT = 1  # of what is in the files; any other is not read


def as_bytes(thing: Any) -> bytes:
    whole, buffers = _taken_apart(thing)
    return pickle.dumps([whole, *(bytes(buffer) for buffer in buffers)], 5)


def size(thing: Any) -> int:
    """Bytes that it is packed into, without packing it."""
    whole, buffers = _taken_apart(thing)
    return len(whole) + sum(buffer.nbytes for buffer in buffers)


def from_bytes(packed: bytes) -> Any:
    whole, *buffers = pickle.loads(packed)
    return pickle.loads(whole, buffers=buffers)


def write(path: Path, thing: Any) -> None:
    """Whole or not at all. Raises OSError."""
    whole, buffers = _taken_apart(thing)
    arrays = {str(i): np.frombuffer(buffer, np.uint8) for i, buffer in enumerate([whole, *buffers])}
    flat_file.write(path, {"format": _FORMAT}, arrays)


def read(path: Path, *, check: bool = False) -> Any:
    """Mapped into memory: pages are read when they are used, and shared with all processes of the host.

    `check` reads all of it and compares its checksum. Raises OSError, and MatchingError if it is not what was written.
    """
    about, arrays = flat_file.read(path, check=check)
    if about.get("format") != _FORMAT:
        raise MatchingError(f"{path}: was written by another version")
    whole, *buffers = arrays.values()
    return pickle.loads(whole.tobytes(), buffers=buffers)


def _taken_apart(thing: Any) -> tuple[bytes, list[memoryview]]:
    buffers: list[pickle.PickleBuffer] = []
    return pickle.dumps(thing, 5, buffer_callback=buffers.append), [buffer.raw() for buffer in buffers]
