"""The page `/dead-letters`: the last ones, with their reasons."""

from __future__ import annotations

from collections.abc import Iterator

from streaming.console.console import Console
from streaming.console.dead_letters import StoredDeadLetter
from streaming.monitoring.web.console.frame import ConsoleAnswer, Fields, framed, problem, when, word
from streaming.monitoring.web.elements import Content, element, note, section, table
from streaming.text_format import pretty

PATH = "/dead-letters"
COLUMNS = ("time", "reason", "subscriber", "origin", "detail")
SHOWN_BYTES = 4_000  # of a value
SHOWN_HEADERS = 20


def answer(console: Console, fields: Fields) -> ConsoleAnswer:
    letters, is_whole = console.dead_letters()
    content: list[Content] = []
    if letters:
        content.append(table(COLUMNS, map(_row, letters), texts=len(COLUMNS)))
    elif is_whole:
        content.append(note("none"))
    if not is_whole:
        content.append(problem("not all records could be read in time: some of the last may be missing"))
    about = note(element("code", "run_stream.py dlq list"), f" lists all in {console.dead_letters_topic}")
    return framed("Dead letters", PATH, section("The last ones", *content, about, class_="rows"))


def _row(letter: StoredDeadLetter) -> tuple[Content, ...]:
    origin = letter.origin
    return (
        word(when(letter.time_ms)),
        word(letter.reason + (", redriven" if letter.redriven else "")),
        letter.subscriber or "-",
        f"{origin.topic} {origin.partition}:{origin.offset}" if origin else "-",
        element("div", letter.detail, _record(letter)),
    )


def _record(letter: StoredDeadLetter) -> Content:
    return element(
        "details", element("summary", f"record at {letter.place}"), element("pre", "\n".join(_lines(letter)))
    )


def _lines(letter: StoredDeadLetter) -> Iterator[str]:
    yield f"attempts: {letter.attempts}"
    if letter.ids:
        yield f"subscriptions: {letter.ids[:SHOWN_BYTES]}"
    for name, value in letter.headers[:SHOWN_HEADERS]:
        yield f"header {name}: {_excerpt(value)}"
    if len(letter.headers) > SHOWN_HEADERS:
        yield f"... {len(letter.headers)} headers"
    if letter.key is not None:
        yield f"key: {_excerpt(letter.key)}"
    if letter.value_left_out:
        yield f"the value, {letter.about['value_bytes']} bytes, was left out"
    else:
        yield _excerpt(letter.value)


def _excerpt(value: bytes | None) -> str:
    if value is None:
        return "null"
    if len(value) <= SHOWN_BYTES:
        return "\n".join(pretty(value))
    return f"{value[:SHOWN_BYTES].decode(errors='replace')}\n... {len(value):,} bytes"
