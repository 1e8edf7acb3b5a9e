"""Parse the times that flags take."""

from __future__ import annotations

import typer

from streaming.kafka import times


def moment(flag: str, text: str | None, now_ms: int) -> int | None:
    try:
        return None if text is None else times.moment(text, now_ms)
    except ValueError as error:
        raise typer.BadParameter(f"{flag}: {error}") from None
