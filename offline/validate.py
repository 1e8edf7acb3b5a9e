"""Check subscription documents in files as the job does: report rejections, and warnings on accepted ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from offline.documents import Document, Location, Rejection, subscriptions
from streaming.text_format import plain


@dataclass(frozen=True)
class Remark:
    """A warning: valid, but probably a mistake."""

    place: Location
    id: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: note: id {plain(self.id)}: {self.text}"

    def as_data(self) -> dict[str, Any]:
        return {**self.place.as_data(), "id": self.id, "note": self.text}


@dataclass(frozen=True)
class ValidationSummary:
    accepted: int
    rejected: int
    notes: tuple[Remark, ...]

    def __str__(self) -> str:
        counts = f"{self.accepted:,} of {self.accepted + self.rejected:,} accepted"
        return "\n".join((*map(str, self.notes), counts))

    def as_data(self) -> dict[str, Any]:
        return {"accepted": self.accepted, "rejected": self.rejected, "notes": [note.as_data() for note in self.notes]}


def validate_files(files: Iterable[Path], now: datetime) -> Iterator[Rejection | ValidationSummary]:
    """Yield rejections and warnings while reading, and a summary at the end. Raises InputError."""
    accepted = rejected = 0
    notes: list[Remark] = []
    first: dict[str, Location] = {}
    for file in files:
        for document in subscriptions(file):
            if isinstance(document, Rejection):
                rejected += 1
                yield document
            else:
                accepted += 1
                notes += _notes(document, first, now)
    yield ValidationSummary(accepted, rejected, tuple(notes))


def _notes(document: Document, first: dict[str, Location], now: datetime) -> Iterator[Remark]:
    id = document.subscription.id
    before = first.setdefault(id, document.place)
    if before is not document.place:
        yield Remark(document.place, id, f"replaces the document of {before}")
    if idle := document.idle(now):
        yield Remark(document.place, id, idle)
