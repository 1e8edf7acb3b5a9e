"""Read lines and ids from files, standard input and arguments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from offline.files import STDIN, lines, name_of
from streaming.errors import JobError


def lines_of(file: Path | None) -> Iterator[tuple[str, bytes]]:
    """Yield (where, line) of each line that is not blank."""
    file = file or STDIN
    return ((f"{name_of(file)}, line {number}", line) for number, line in lines(file))


def ids_of(values: list[str] | None) -> Iterator[str]:
    """Yield ids that a record's key can hold. Raises JobError for others."""
    written = (("argument", id.encode(errors="surrogateescape")) for id in values) if values else lines_of(None)
    for where, id in written:
        try:
            text = id.decode()
        except UnicodeDecodeError:
            raise JobError(f"{where}: an id must be UTF-8; {id!r} is not") from None
        if not text:
            raise JobError(f"{where}: an id must have at least 1 character")
        yield text
