"""How figures of the status are written for people, and texts from outside."""

from __future__ import annotations

from datetime import UTC, datetime

STAGES = {
    "wait": "waiting for the batch",
    "match": "matching",
    "publish": "publishing",
    "commit": "committing",
    "total": "all of it",
}


def readable(text: str) -> str:
    """Without what is no character: half of a surrogate pair, and control characters."""
    whole = text.encode(errors="replace").decode()
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in whole)


def number(value: float) -> str:
    return f"{value:,.1f}" if value % 1 and value < 100 else f"{value:,.0f}"


def seconds(s: float | None) -> str:
    return "-" if s is None else f"{1000 * s:,.0f} ms" if s < 10 else f"{s:,.1f} s"


def duration(s: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if s >= 2 * size:
            return f"{s / size:.0f} {unit}"
    return f"{s:.0f} s"


def size(n: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= size:
            return f"{n / size:,.1f} {unit}"
    return f"{n:.0f} bytes"


def moment(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
