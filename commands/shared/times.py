"""Parse the times and offsets that flags take."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import typer

from streaming.documents.starts import OLDEST, Start
from streaming.kafka import times

_OFFSETS = re.compile(r"(?:([a-zA-Z0-9._-]+)/)?([0-9]{1,9}):([0-9]{1,18})")  # topic, partition, offset


def moment(flag: str, text: str | None, now_ms: int) -> int | None:
    try:
        return None if text is None else times.moment(text, now_ms)
    except ValueError as error:
        raise typer.BadParameter(f"{flag}: {error}") from None


def start_of(flag: str, text: str, now_ms: int, topics: Callable[[], Sequence[str]]) -> Start:
    """Parse `oldest`, a past time, or offsets by partition; `topics` lists those of events. Raises BadParameter."""
    if text == OLDEST:
        return OLDEST
    offsets = [_OFFSETS.fullmatch(part) for part in text.split(",")]
    if any(offsets):
        return _offsets(flag, text, offsets, topics)
    try:
        at_ms = times.moment(text, now_ms)
    except ValueError as error:
        raise typer.BadParameter(f"{flag}: {error}; nor is it {OLDEST}, nor offsets such as 0:120,1:95") from None
    if at_ms >= now_ms:
        raise typer.BadParameter(f"{flag} must be before now")
    return at_ms


def _offsets(
    flag: str, text: str, offsets: Sequence[re.Match[str] | None], topics: Callable[[], Sequence[str]]
) -> dict[tuple[str, int], int]:
    names: Sequence[str] = ()
    found: dict[tuple[str, int], int] = {}
    for part, each in zip(text.split(","), offsets, strict=True):
        if each is None:
            raise typer.BadParameter(f"{flag}: {part!r} is not PARTITION:OFFSET or TOPIC/PARTITION:OFFSET")
        topic, partition, offset = each[1], int(each[2]), int(each[3])
        if topic is None:
            names = names or topics()
            if len(names) > 1:
                example = f"{names[0]}/{part}"
                raise typer.BadParameter(
                    f"{flag}: {part} does not name its topic ({', '.join(names)}); write {example}"
                )
            topic = names[0]
        if (topic, partition) in found:
            raise typer.BadParameter(f"{flag}: partition {partition} of {topic} has two offsets")
        found[topic, partition] = offset
    return found
