"""Named arrays in one file that can be mapped into memory: nothing is read before it is used, and hosts share pages.

    8 bytes            magic
    4 bytes            length of the header
    4 bytes            its CRC-32
    header             JSON: what `write` was given, the name, type, length and place of each array, and the CRC-32
                       of them all
    arrays             each from a multiple of 64 bytes on

Written beside its place and then moved there, so a file is whole or not there.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchers.errors import MatchingError

MAGIC = b"sluice\x00\x02"
ALIGN = 64


def write(path: Path, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Arrays of one dimension. `about` is JSON. Raises OSError."""
    places = []
    at = 0
    for name, array in arrays.items():
        places.append({"name": name, "type": array.dtype.str, "length": len(array), "at": at})
        at += -(-array.nbytes // ALIGN) * ALIGN
    checksum = _checksum(arrays)
    header = json.dumps({"about": dict(about), "bytes": at, "arrays": places, "checksum": checksum}).encode()
    header += b" " * (-(len(MAGIC) + 8 + len(header)) % ALIGN)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            file.write(MAGIC + len(header).to_bytes(4, "little") + zlib.crc32(header).to_bytes(4, "little") + header)
            for array in arrays.values():
                file.write(np.ascontiguousarray(array).data)
                file.write(bytes(-array.nbytes % ALIGN))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read(path: Path, *, check: bool = False) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What was written, the arrays read-only and mapped. `check` reads them all, to see whether they are unspoiled.

    Raises OSError, and MatchingError if it is no such file.
    """
    begin = len(MAGIC) + 8
    with path.open("rb") as file:
        start = file.read(begin)
        if start[: len(MAGIC)] != MAGIC:
            raise MatchingError(f"{path}: is no saved index of this version")
        size, written = (int.from_bytes(start[at : at + 4], "little") for at in (len(MAGIC), len(MAGIC) + 4))
        text = file.read(min(size, path.stat().st_size))
        try:
            if len(start) < begin or zlib.crc32(text) != written:
                raise ValueError
            header = json.loads(text)
            about, places, end = header["about"], header["arrays"], begin + size + header["bytes"]
            checksum = header["checksum"]
            fields = [(p["name"], np.dtype(p["type"]), p["length"], begin + size + p["at"]) for p in places]
        except (ValueError, LookupError, TypeError):
            raise MatchingError(f"{path}: its header cannot be read; save the index again") from None
    if path.stat().st_size != end:
        raise MatchingError(f"{path}: has {path.stat().st_size} bytes and not {end}; save the index again")
    mapped = np.memmap(path, np.uint8, "r")
    arrays = {}
    for name, dtype, length, at in fields:
        if at + length * dtype.itemsize > end:
            raise MatchingError(f"{path}: its array {name} ends beyond it; save the index again")
        arrays[name] = np.asarray(mapped[at : at + length * dtype.itemsize]).view(dtype)
    if check and _checksum(arrays) != checksum:
        raise MatchingError(f"{path}: its checksum is wrong, so its bytes are not those written; save the index again")
    return about, arrays


def _checksum(arrays: Mapping[str, NDArray[Any]]) -> int:
    found = 0
    for array in arrays.values():
        found = zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data, found)
    return found
