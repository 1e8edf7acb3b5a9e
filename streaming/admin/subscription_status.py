"""Look up the last status of subscriptions and their unanswered changes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from confluent_kafka import Message

from streaming.admin.change_acks import ChangeAck
from streaming.documents.change_order import records_read
from streaming.documents.messages import place_of
from streaming.documents.subscriptions import id_of


@dataclass(frozen=True)
class SubscriptionStatus:
    """The last status of an id, as the job wrote it. `str` returns it as a sentence."""

    id: str
    status: Mapping[str, Any] | None
    waiting: tuple[int, int] | None  # partition and offset of the newest unanswered change

    @property
    def known(self) -> bool:
        """Whether a subscription or a status has this id."""
        return self.status is not None or self.waiting is not None

    @property
    def rejected(self) -> bool:
        """Whether the job rejected the last change."""
        return self.status is not None and self.status["status"] == "rejected"

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
        change = self.status["change"]
        answer = str(ChangeAck(self.id, change["partition"], change["offset"], self.status, superseded=False))
        return f"{answer}; a later change at {at} waits for the job's answer" if at else answer


def statuses_of(
    statuses: Iterable[Message | None], changes: Iterable[Message | None], ids: Collection[str], topic_id: str
) -> dict[str, SubscriptionStatus]:
    """The status of each id. The statuses are read first, so that every change that they answer is among `changes`.

    `topic_id` is that of the changes' topic. Statuses about an earlier topic of its name do not count."""
    wanted = {id.encode(): id for id in ids}
    last: dict[str, Mapping[str, Any]] = {}
    partition_of: dict[str, int] = {}  # of the last status
    for record in statuses:
        if record is None or (value := record.value()) is None:
            continue
        if (id := wanted.get(record.key() or b"")) is not None:
            status, (partition, _) = orjson.loads(value), place_of(record)
            if (status.get("topic_id") or topic_id) != topic_id:  # earlier versions do not name it
                continue
            # Within a partition the last one counts.
            if partition_of.get(id, partition) == partition or records_read(status) >= records_read(last[id]):
                last[id], partition_of[id] = status, partition
    waiting: dict[str, tuple[int, int]] = {}
    for record in changes:
        id = None if record is None else wanted.get(id_of(record.key(), record.value()) or b"")
        if record is not None and id is not None and (id not in last or _is_later(record, last[id])):
            waiting[id] = place_of(record)
    return {id: SubscriptionStatus(id, last.get(id), waiting.get(id)) for id in ids}


def _is_later(change: Message, status: Mapping[str, Any]) -> bool:
    """Whether the job had not yet read the change."""
    partition, offset = place_of(change)
    if partition == status["change"]["partition"]:
        return bool(offset > status["change"]["offset"])
    return bool(offset >= status.get("read_up_to", {}).get(str(partition), 0))
