"""Format dead letters for people and programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from streaming.admin.dead_letters import StoredDeadLetter
from streaming.text_format import as_text_or_base64, cut, plain, pretty, time_of

WIDTHS = (9, 20, 22, 9)  # of the columns before the origin
SHORTEST = 8  # characters of the origin's topic
HEADING = ("POSITION", "TIME (UTC)", "REASON", "ATTEMPTS", "ORIGIN")


def heading() -> str:
    return _columns(HEADING)


def row(letter: StoredDeadLetter, width: int) -> str:
    """Two lines: its position and its origin; its subscriber and the detail, cut to `width`."""
    where = "-"
    if origin := letter.origin:
        at = f"{origin.partition}:{origin.offset}"
        where = f"{cut(origin.topic, max(SHORTEST, width - sum(WIDTHS) - len(at) - 1))} {at}"
    facts = (str(letter.place), time_of(letter.time_ms)[:19], letter.reason, str(letter.attempts), where)
    detail = f"for {letter.subscriber}: {letter.detail}" if letter.subscriber else letter.detail
    detail = f"(redriven) {detail}" if letter.redriven else detail
    return f"{_columns(facts)}\n{cut(f'  {plain(detail, quoted=False)}', width)}"


def page(letter: StoredDeadLetter) -> Iterator[str]:
    """Yield all facts of a dead letter, line by line."""
    origin = letter.origin
    facts = {
        "position": str(letter.place),
        "time": time_of(letter.time_ms),
        "reason": letter.reason,
        "detail": letter.detail,
        "origin": f"{origin.topic} {origin.partition}:{origin.offset}, {time_of(origin.timestamp_ms)}"
        if origin
        else None,
        "attempts": str(letter.attempts),
        "redriven": "yes" if letter.redriven else "no",
        "subscriber": letter.subscriber,
        "subscriptions": letter.ids,
        "matchversion": None if letter.matchversion is None else str(letter.matchversion),
        **letter.about,
        "key": None if letter.key is None else _short(letter.key),
    }
    known = {name: value for name, value in facts.items() if value is not None}
    width = max(map(len, known))
    yield from (f"{plain(name, quoted=False):{width}}  {plain(value, quoted=False)}" for name, value in known.items())
    yield ""
    yield f"{len(letter.headers)} headers" + (":" if letter.headers else "")
    yield from (
        f"  {plain(name, quoted=False)}: {'null' if value is None else _short(value)}" for name, value in letter.headers
    )
    yield ""
    yield from _value(letter)


def as_data(letter: StoredDeadLetter) -> dict[str, Any]:
    """A dead letter as JSON. Bytes that are not UTF-8 are in base64, under a name that ends with `_base64`."""
    origin = letter.origin
    data: dict[str, Any] = {
        "position": str(letter.place),
        "time": time_of(letter.time_ms, "T"),
        "reason": letter.reason,
        "detail": letter.detail,
        "origin": origin and origin._asdict(),
        "attempts": letter.attempts,
        "redriven": letter.redriven,
        "subscriber": letter.subscriber,
        "subscriptionids": letter.ids and orjson.loads(letter.ids),
        "matchversion": letter.matchversion,
        "about": dict(letter.about),
        "headers": [{"name": name} | as_text_or_base64("value", value) for name, value in letter.headers],
    }
    return data | as_text_or_base64("key", letter.key) | as_text_or_base64("value", letter.value)


def _columns(texts: tuple[str, ...]) -> str:
    *first, last = texts
    fixed = (f"{plain(text, quoted=False):{width - 1}} " for text, width in zip(first, WIDTHS, strict=True))
    return "".join((*fixed, plain(last, quoted=False)))


def _short(value: bytes) -> str:
    """The whole value on one line, as a string or in hexadecimal."""
    try:
        return plain(value.decode(), quoted=False)
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def _value(letter: StoredDeadLetter) -> Iterator[str]:
    value = letter.value
    if letter.value_left_out:
        yield f"the value, {letter.about['value_bytes']} bytes, was left out"
    elif value is None:
        yield "no value"
    else:
        yield f"the value, {len(value):,} bytes:"
        yield from pretty(value)
