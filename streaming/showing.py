"""Dead letters as people and programs read them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson

from streaming.deadletters import Letter

HEX_BYTES = 512  # of a value that is no text
PIECE = 16  # bytes a line
WIDTHS = (10, 20, 21, 6)  # of the columns before the origin
SHORTEST = 8  # characters of the origin's topic
HEADING = ("PLACE", "TIME (UTC)", "REASON", "TRIES", "ORIGIN")


def heading() -> str:
    return _columns(HEADING)


def row(letter: Letter, redriven: bool, width: int) -> str:
    """Two lines: where it lies and where it came from; for whom it was and why it is here, as far as `width` goes."""
    where = "-"
    if origin := letter.origin:
        at = f"{origin.partition}:{origin.offset}"
        where = f"{cut(origin.topic, max(SHORTEST, width - sum(WIDTHS) - len(at) - 1))} {at}"
    facts = (str(letter.place), time_of(letter.time_ms)[:19], letter.reason, str(letter.attempts), where)
    said = f"for {letter.subscriber}: {letter.detail}" if letter.subscriber else letter.detail
    said = f"(redriven) {said}" if redriven else said
    return f"{_columns(facts)}\n{cut(f'  {plain(said)}', width)}"


def page(letter: Letter, redriven: bool) -> Iterator[str]:
    """All that is known of one, as lines."""
    origin = letter.origin
    facts = {
        "place": str(letter.place),
        "time": time_of(letter.time_ms),
        "reason": letter.reason,
        "detail": letter.detail,
        "origin": f"{origin.topic} {origin.partition}:{origin.offset}, {time_of(origin.timestamp_ms)}"
        if origin
        else None,
        "attempts": str(letter.attempts),
        "redriven": "yes" if redriven else "no",
        "subscriber": letter.subscriber,
        "subscriptions": letter.ids,
        "matchversion": None if letter.matchversion is None else str(letter.matchversion),
        **letter.about,
        "key": None if letter.key is None else _short(letter.key),
    }
    given = {name: value for name, value in facts.items() if value is not None}
    width = max(map(len, given))
    yield from (f"{plain(name):{width}}  {plain(value)}" for name, value in given.items())
    yield ""
    yield f"{len(letter.headers)} headers" + (":" if letter.headers else "")
    yield from (f"  {plain(name)}: {'null' if value is None else _short(value)}" for name, value in letter.headers)
    yield ""
    yield from _value(letter)


def as_data(letter: Letter, redriven: bool) -> dict[str, Any]:
    """The same as JSON has it; bytes that are no text are in base64, under a name that says so."""
    origin = letter.origin
    data: dict[str, Any] = {
        "place": str(letter.place),
        "time": time_of(letter.time_ms, "T"),
        "reason": letter.reason,
        "detail": letter.detail,
        "origin": origin and origin._asdict(),
        "attempts": letter.attempts,
        "redriven": redriven,
        "subscriber": letter.subscriber,
        "subscriptionids": letter.ids and orjson.loads(letter.ids),
        "matchversion": letter.matchversion,
        "about": dict(letter.about),
        "headers": [{"name": name} | as_text_or_base64("value", value) for name, value in letter.headers],
    }
    return data | as_text_or_base64("key", letter.key) | as_text_or_base64("value", letter.value)


def plain(text: str) -> str:
    """On its line, and without what a terminal would obey."""
    return text if text.isprintable() else json.dumps(text)[1:-1]


def _columns(texts: tuple[str, ...]) -> str:
    *first, last = texts
    fixed = (f"{plain(text):{width}}" for text, width in zip(first, WIDTHS, strict=True))
    return "".join((*fixed, plain(last)))


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


def _short(value: bytes) -> str:
    """On a line, all of it."""
    try:
        return plain(value.decode())
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def _value(letter: Letter) -> Iterator[str]:
    value = letter.value
    if letter.value_left_out:
        yield f"the value, {letter.about['value_bytes']} bytes, was left out"
    elif value is None:
        yield "no value"
    else:
        yield f"the value, {len(value):,} bytes:"
        yield from pretty(value)


def pretty(value: bytes) -> Iterator[str]:
    """JSON indented, another text as it is, the rest in hexadecimal; nothing that a terminal would obey."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    try:
        document = json.loads(text)
        indented = json.dumps(document, indent=2, ensure_ascii=False)
        yield indented if _harmless(indented) else json.dumps(document, indent=2)
    except (ValueError, RecursionError):
        if _harmless(text):
            yield text
        else:
            yield from _dump(value)


def _harmless(text: str) -> bool:
    return all(line.replace("\t", "").isprintable() for line in text.split("\n"))


def _dump(value: bytes) -> Iterator[str]:
    for begin in range(0, min(len(value), HEX_BYTES), PIECE):
        piece = value[begin : min(begin + PIECE, HEX_BYTES)]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in piece)
        yield f"{begin:08x}  {piece.hex(' '):{3 * PIECE - 1}}  {text}"
    if len(value) > HEX_BYTES:
        yield f"and {len(value) - HEX_BYTES:,} bytes more"
