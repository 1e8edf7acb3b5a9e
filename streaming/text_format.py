"""Make texts, times and bytes safe for a terminal or JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime

HEX_BYTES = 512  # of a value that is no text
LINE_BYTES = 16  # of hexadecimal
MOST_LEVELS = 16  # of indented JSON


def plain(text: str, *, quoted: bool = True) -> str:
    """A text on one line without anything that a terminal would obey: if need be as JSON writes it.

    `quoted=False` leaves out JSON's quotes, for columns of a table.
    """
    if text.isprintable():
        return text
    return json.dumps(text) if quoted else json.dumps(text)[1:-1]


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def time_of(ms: int, between: str = " ") -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(between, "milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):  # a producer may have claimed any time
        return f"{ms} ms"


def as_text_or_base64(name: str, value: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if value is None else value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value or b"").decode()}


def pretty(value: bytes) -> Iterator[str]:
    """JSON indented, another text as it is, the rest in hexadecimal; nothing that a terminal would obey. JSON that is
    nested deeper than MOST_LEVELS stands on one line: indented it could be a thousand times as long."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    try:
        document = json.loads(text)
        indent = None if _is_deeper(document, MOST_LEVELS) else 2
        indented = json.dumps(document, indent=indent, ensure_ascii=False)
        yield indented if _harmless(indented) else json.dumps(document, indent=indent)
    except (ValueError, RecursionError):
        if _harmless(text):
            yield text
        else:
            yield from _dump(value)


def _is_deeper(value: object, levels: int) -> bool:
    """Whether lists and objects are nested deeper than so many levels."""
    if not isinstance(value, dict | list):
        return False
    children = value.values() if isinstance(value, dict) else value
    return not levels or any(_is_deeper(child, levels - 1) for child in children)


def _harmless(text: str) -> bool:
    return all(line.replace("\t", "").isprintable() for line in text.split("\n"))


def _dump(value: bytes) -> Iterator[str]:
    for begin in range(0, min(len(value), HEX_BYTES), LINE_BYTES):
        piece = value[begin : min(begin + LINE_BYTES, HEX_BYTES)]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in piece)
        yield f"{begin:08x}  {piece.hex(' '):{3 * LINE_BYTES - 1}}  {text}"
    if len(value) > HEX_BYTES:
        yield f"and {len(value) - HEX_BYTES:,} more bytes"
