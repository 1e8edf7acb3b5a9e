"""Read files and standard input, line by line."""

from __future__ import annotations

import sys
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import cast

STDIN = Path("-")
CHUNK_BYTES = 1 << 18  # about a thousand events


class InputError(Exception):
    """A file or an argument cannot be used. The text names it, the reason and the remedy."""


def name_of(file: Path) -> str:
    return "standard input" if file == STDIN else str(file)


def content(file: Path) -> bytes:
    """Return the content of a file. Raises InputError."""
    with _opened(file) as stream:
        text: bytes = stream.read()
    return text.removeprefix(BOM_UTF8)


def lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not blank, with its number from 1 on. Raises InputError."""
    for batch in batches(file):
        yield from batch


def batches(file: Path) -> Iterator[list[tuple[int, bytes]]]:
    """The lines in one list per read, so that lines that come slowly through a pipe need not wait for more."""
    number, pending = 1, [b""]
    with _opened(file) as stream:
        while chunk := stream.read1(CHUNK_BYTES):
            *whole, rest = chunk.split(b"\n")
            if not whole:
                pending.append(rest)
                continue
            whole[0] = b"".join((*pending, whole[0]))
            yield list(_numbered(whole, number))
            number, pending = number + len(whole), [rest]
    yield list(_numbered([b"".join(pending)], number))


def _numbered(lines: list[bytes], first: int) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(lines, first):
        text = (line.removeprefix(BOM_UTF8) if number == 1 else line).strip()
        if text:
            yield number, text


@contextmanager
def _opened(file: Path) -> Iterator[BufferedReader]:
    try:
        if file != STDIN:
            with file.open("rb") as stream:
                yield stream
        elif sys.stdin is None:
            raise InputError("standard input is closed; name a file instead")
        else:
            yield cast(BufferedReader, sys.stdin.buffer)  # the stub says BinaryIO, which has no read1
    except OSError as error:
        raise InputError(f"{name_of(file)}: cannot be read: {error.strerror}") from None
