"""What the job said last of subscriptions, and which of their changes it has not answered.

A change of another partition than the last answer's counts as unanswered if it was written after that answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from confluent_kafka import Message

from streaming.activation import Answer
from streaming.subscriptions import id_of


@dataclass(frozen=True)
class Standing:
    """Of one id; `status` as the job wrote it."""

    id: str
    status: Mapping[str, Any] | None
    waiting: tuple[int, int] | None  # partition and offset of the newest change that is not answered

    @property
    def known(self) -> bool:
        return self.status is not None or self.waiting is not None

    @property
    def refused(self) -> bool:
        return self.status is not None and self.status["status"] == "refused"

    def as_data(self) -> dict[str, Any]:
        waiting = self.waiting and {"partition": self.waiting[0], "offset": self.waiting[1]}
        none = {"id": self.id, "status": "unanswered" if self.known else "unknown"}
        return {**(self.status or none), "waiting": waiting}

    def __str__(self) -> str:
        """Without its id."""
        if not self.known:
            return "neither a subscription nor a status has this id"
        at = "" if self.waiting is None else f"{self.waiting[0]}:{self.waiting[1]}"
        if self.status is None:
            return f"its change at {at} waits for the job's answer"
        said = str(Answer(self.id, self.status["change"]["offset"], self.status, superseded=False))
        return f"{said}; a later change at {at} waits for the job's answer" if at else said


def standings(
    statuses: Iterable[Message | None], changes: Iterable[Message | None], ids: Collection[str]
) -> dict[str, Standing]:
    """Of each id, from both topics: the statuses are read first, so that what they answer is among the changes."""
    wanted = {id.encode(): id for id in ids}
    said: dict[str, tuple[Mapping[str, Any], int]] = {}
    for record in statuses:
        if record is not None and record.value() is not None and (id := wanted.get(record.key())) is not None:
            said[id] = orjson.loads(record.value()), record.timestamp()[1]
    waiting: dict[str, tuple[int, int]] = {}
    for record in changes:
        id = None if record is None else wanted.get(id_of(record.key(), record.value()) or b"")
        if record is not None and id is not None and (id not in said or _is_later(record, *said[id])):
            waiting[id] = record.partition(), record.offset()
    return {id: Standing(id, said[id][0] if id in said else None, waiting.get(id)) for id in ids}


def _is_later(change: Message, status: Mapping[str, Any], said_ms: int) -> bool:
    answered = status["change"]
    if change.partition() == answered["partition"]:
        return bool(change.offset() > answered["offset"])
    return bool(change.timestamp()[1] > said_ms)
