"""Named arrays in one file that is mapped into memory: pages load on first use, and processes share them.

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
from collections.abc import Iterator, Mapping
from operator import index
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from matchers.errors import MatchingError

MAGIC = b"sluice\x00\x02"
ALIGN = 64


def laid_out(about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Iterator[bytes | memoryview]:
    """The bytes of a file, piece by piece. Raises TypeError if `about` is not JSON."""
    places = []
    at = 0
    for name, array in arrays.items():
        places.append({"name": name, "type": array.dtype.str, "length": len(array), "at": at})
        at += -(-array.nbytes // ALIGN) * ALIGN
    checksum = _checksum(arrays)
    header = json.dumps({"about": dict(about), "bytes": at, "arrays": places, "checksum": checksum}).encode()
    header += b" " * (-(len(MAGIC) + 8 + len(header)) % ALIGN)
    yield MAGIC + len(header).to_bytes(4, "little") + zlib.crc32(header).to_bytes(4, "little") + header
    for array in arrays.values():
        yield np.ascontiguousarray(array).data
        yield bytes(-array.nbytes % ALIGN)


def write(path: Path, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Arrays of one dimension. `about` is JSON. Raises OSError."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{uuid4().hex}.part")
    try:
        with temporary.open("wb") as file:
            file.writelines(laid_out(about, arrays))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _keep_name(path)
    finally:
        temporary.unlink(missing_ok=True)


def _keep_name(path: Path) -> None:
    """Write the directory of a new file to disk: until then a crash of the machine may bring the older file back."""
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read(path: Path, *, check: bool = False) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The content of a file, with read-only mapped arrays. `check` reads them all to verify their checksums.

    Raises OSError, and MatchingError if it is no such file.
    """
    if not path.stat().st_size:
        raise MatchingError(f"{path}: is not a saved index of this version")
    return parsed(np.memmap(path, np.uint8, "r"), str(path), check=check)


def parsed(
    content: bytes | NDArray[np.uint8], name: str, *, check: bool = False
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Parse the bytes of a file into arrays that share its memory. `name` is for messages. Raises MatchingError."""
    whole = np.frombuffer(content, np.uint8) if isinstance(content, bytes) else content
    begin = len(MAGIC) + 8
    start = whole[:begin].tobytes()
    if start[: len(MAGIC)] != MAGIC:
        raise MatchingError(f"{name}: is not a saved index of this version")
    size, written = (int.from_bytes(start[at : at + 4], "little") for at in (len(MAGIC), len(MAGIC) + 4))
    text = whole[begin : begin + size].tobytes()
    try:
        if len(start) < begin or zlib.crc32(text) != written:
            raise ValueError
        header = json.loads(text)
        about, places, end = dict(header["about"]), header["arrays"], begin + size + header["bytes"]
        checksum = header["checksum"]
        fields = [
            (str(p["name"]), _dtype(p["type"]), index(p["length"]), begin + size + index(p["at"])) for p in places
        ]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise MatchingError(f"{name}: its header cannot be read; save the index again") from None
    if len(whole) != end:
        raise MatchingError(f"{name}: has {len(whole)} bytes instead of {end}; save the index again")
    arrays = {}
    for field, dtype, length, at in fields:
        if at < begin + size or length < 0 or at + length * dtype.itemsize > end:
            raise MatchingError(f"{name}: its array {field} extends beyond the end; save the index again")
        arrays[field] = np.asarray(whole[at : at + length * dtype.itemsize]).view(dtype)
    if check and _checksum(arrays) != checksum:
        raise MatchingError(f"{name}: its checksum is wrong; save the index again")
    return about, arrays


def _dtype(text: str) -> np.dtype[Any]:
    """Raises ValueError for all but numbers and truth values: an array of objects would be one of addresses."""
    dtype = np.dtype(str(text))
    if dtype.kind not in "biuf":
        raise ValueError(text)
    return dtype


def _checksum(arrays: Mapping[str, NDArray[Any]]) -> int:
    checksum = 0
    for array in arrays.values():
        checksum = zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data, checksum)
    return checksum
