"""Check subscription documents in files as the job would: which are refused, and what is odd about the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from offline.documents import Document, Place, Refusal, plain, subscriptions


@dataclass(frozen=True)
class Note:
    """What is no error but may be a mistake."""

    place: Place
    id: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: note: id {plain(self.id)}: {self.text}"

    def as_data(self) -> dict[str, Any]:
        return {**self.place.as_data(), "id": self.id, "note": self.text}


@dataclass
class Summary:
    accepted: int = 0
    refused: int = 0
    notes: list[Note] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.accepted:,} of {self.accepted + self.refused:,} accepted"

    def as_data(self) -> dict[str, Any]:
        return {"accepted": self.accepted, "refused": self.refused, "notes": [note.as_data() for note in self.notes]}


def validate(files: list[Path], now: datetime, summary: Summary) -> Iterator[Refusal]:
    """What is refused, as it is read; counts and notes go to the summary. Raises InputError."""
    first: dict[str, Place] = {}
    for file in files:
        for document in subscriptions(file):
            if isinstance(document, Refusal):
                summary.refused += 1
                yield document
                continue
            summary.accepted += 1
            summary.notes += _notes(document, first, now)


def _notes(document: Document, first: dict[str, Place], now: datetime) -> Iterator[Note]:
    id = document.subscription.id
    before = first.setdefault(id, document.place)
    if before is not document.place:
        yield Note(document.place, id, f"replaces that of {before}")
    if not document.in_force(now):
        yield Note(document.place, id, document.expired)
