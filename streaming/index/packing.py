"""Pack objects made of arrays into bytes or a file, and load them read-only without a copy.

`matchers.index.stored` lists the allowed classes: reading creates only these, and runs no code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from matchers import flat_file
from matchers.errors import MatchingError
from matchers.index import stored

_FORMAT = 12  # of what is in the files; any other is not read

T = TypeVar("T")


def as_bytes(thing: Any) -> bytes:
    """Pack an object. Raises TypeError if it holds a class that `stored` does not name."""
    return b"".join(flat_file.laid_out(*_apart(thing)))


def size(thing: Any) -> int:
    """The number of bytes of a packed object, without packing it."""
    about, arrays = _apart(thing)
    return len(json.dumps(about)) + sum(int(array.nbytes) for array in arrays.values())


def from_bytes(packed: bytes, kind: type[T]) -> T:
    """Unpack an object of this class. Raises MatchingError."""
    return _together(*flat_file.parsed(packed, "bytes of another process"), kind, "bytes of another process")


def write(path: Path, thing: Any) -> None:
    """Write a file, whole or not at all. Raises OSError, and TypeError for a class that `stored` does not name."""
    flat_file.write(path, *_apart(thing))


def read(path: Path, kind: type[T], *, check: bool = False) -> T:
    """Read a file mapped into memory: pages are read when they are used, and shared by all processes of the host.

    `check` reads the whole file and compares its checksum. Raises OSError, and MatchingError if the file is damaged or
    holds another class.
    """
    return _together(*flat_file.read(path, check=check), kind, str(path))


def _apart(thing: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    layouts, tree, arrays = stored.taken_apart(thing)
    return {"format": _FORMAT, "layouts": layouts, "tree": tree}, arrays


def _together(about: dict[str, Any], arrays: dict[str, Any], kind: type[T], name: str) -> T:
    if about.get("format") != _FORMAT:
        raise MatchingError(f"{name}: was written by another version")
    try:
        thing: T = stored.put_together(about["layouts"], about["tree"], arrays, kind)
    except (MatchingError, LookupError) as error:
        raise MatchingError(f"{name}: {error}; it is corrupted or was written by another version") from None
    return thing
