"""Wait until the status topic has answered each written change.

    starts(topics, status topic)                        before the first is written
    writer.write(..., taken=pending.take)               the broker's report tells its partition and offset
    answers(cluster, starts, pending, timeout_s)        its status names both

The status topic is compacted: a status may be gone, but only when a later change of the same id has one. That one
answers both. It has the job's positions in all partitions, so it answers changes in other partitions too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import orjson
from confluent_kafka import Message

from streaming.documents.messages import place_of
from streaming.errors import JobError
from streaming.kafka import clients
from streaming.kafka.clients import Cluster
from streaming.kafka.topics import TIMEOUT_S, Topics
from streaming.text_format import plain

NAMED = 5  # ids that an error lists

Starts = Mapping[tuple[str, int], int]  # (topic, partition) -> offset of the first record to read


class Unanswered(JobError):
    """The timeout passed before the job answered. The changes stay written, and a job will answer them."""

    retry = True


class ChangeRejected(JobError):
    """The job rejected changes, or a document is invalid and was not written. `reasons` has the reason for each id."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        some = [f"{plain(id)}: {reason}" for id, reason in zip(reasons, reasons.values(), strict=True)][:NAMED]
        more = f" and {len(reasons) - NAMED:,} others" if len(reasons) > NAMED else ""
        super().__init__(f"rejected: {'; '.join(some)}{more}")


@dataclass(frozen=True)
class ChangeAck:
    """The answer to a change: its status or, if `superseded`, the status of a later change of the same id.

    `status` is the job's record; docs/records.md explains its keys.
    """

    id: str
    partition: int  # of the change
    offset: int
    status: Mapping[str, Any]
    superseded: bool

    @property
    def _by(self) -> Mapping[str, int]:
        """The change that its status is about, or the change that supersedes it."""
        by: Mapping[str, int] = self.status.get("superseded_by") or self.status["change"]
        return by

    @property
    def rejected(self) -> bool:
        """Whether the job rejected the change."""
        return not self.superseded and self.status["status"] == "rejected"

    @property
    def reason(self) -> str:
        """The reason of the rejection, or ""."""
        return str(self.status["reason"]) if self.rejected else ""

    @property
    def version(self) -> int:
        """The first version of the subscriptions that includes the change, as in `Delivery.version`."""
        return int(self.status["version"])

    def __str__(self) -> str:
        """Without its id."""
        if self.superseded:
            by = self._by
            elsewhere = f", partition {by['partition']}" if by["partition"] != self.partition else ""
            return f"superseded by a later change, offset {by['offset']}{elsewhere}"
        if self.rejected:
            return f"rejected: {self.reason}"
        events = ", ".join(_places(self.status["in_force_from"]))
        state = "in force" if self.status["status"] == "accepted" else self.status["status"]
        return f"{state} from version {self.status['version']}, events {events}"

    def as_data(self) -> Mapping[str, Any]:
        if not self.superseded:
            return self.status
        change = {"partition": self.partition, "offset": self.offset}
        return {"id": self.id, "status": "superseded", "by": self.status, "change": change}


def _places(in_force_from: Mapping[str, Any]) -> Iterator[str]:
    """The offsets of events, by partition, or by topic and partition."""
    for at, offset in in_force_from.items():
        yield from (
            (f"{at} {place}" for place in _places(offset)) if isinstance(offset, Mapping) else (f"{at}:{offset}",)
        )


class PendingChanges:
    """Changes that are written and not answered."""

    def __init__(self) -> None:
        self._offsets: dict[int, dict[str, list[int]]] = {}  # by partition and id, ascending
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def take(self, change: Message) -> None:
        self.add((change.key() or b"").decode(errors="replace"), *place_of(change))

    def add(self, id: str, partition: int, offset: int) -> None:
        self._offsets.setdefault(partition, {}).setdefault(id, []).append(offset)
        self._count += 1

    def answered(self, status: Mapping[str, Any]) -> Iterator[ChangeAck]:
        """The changes that a status answers; they are no longer pending."""
        id, change = status["id"], status["change"]
        read_up_to = (
            {} if "superseded_by" in status else status.get("read_up_to", {})
        )  # the change that supersedes it comes later
        for partition, ids in self._offsets.items():
            waiting = ids.get(id, [])
            end = change["offset"] + 1 if partition == change["partition"] else read_up_to.get(str(partition), 0)
            while waiting and waiting[0] < end:
                offset = waiting.pop(0)
                self._count -= 1
                is_its_own = (partition, offset) == (change["partition"], change["offset"])
                yield ChangeAck(id, partition, offset, status, superseded=not is_its_own or "superseded_by" in status)
            if not waiting:
                ids.pop(id, None)

    def ids(self) -> Iterator[str]:
        return (id for waiting in self._offsets.values() for id in waiting)


def starts(topics: Topics, topic: str) -> Starts:
    """The end offsets of a topic. Raises TopicMissing and Forbidden."""
    topics.required([topic], "the job writes its answers there; `run_stream.py topics create` creates the topics")
    return topics.ends([topic], TIMEOUT_S)


def answers(cluster: Cluster, starts: Starts, pending: PendingChanges, timeout_s: float) -> Iterator[ChangeAck]:
    """Each answer as it comes, until no change is pending. Raises Unanswered when the time is over."""
    deadline = time.monotonic() + timeout_s
    topics = sorted({topic for topic, _ in starts})
    written = len(pending)
    with closing(clients.read(cluster, topics, follow=True, starts=starts)) as records:
        while pending:
            message = next(records)
            if message is not None and (value := message.value()) is not None:
                yield from pending.answered(orjson.loads(value))
            if pending and time.monotonic() > deadline:
                raise Unanswered(_unanswered(pending, written, topics, timeout_s))


def _unanswered(pending: PendingChanges, written: int, topics: list[str], timeout_s: float) -> str:
    some = [id for id, _ in zip(pending.ids(), range(NAMED), strict=False)]
    return (
        f"no answer to {len(pending):,} of {written:,} changes within {timeout_s:g} s: "
        f"{', '.join(map(repr, some))}{', ...' if len(pending) > len(some) else ''}. The changes are written; a "
        f"running job (`run_stream.py run`) with the same topics and brokers answers them on {', '.join(topics)} with "
        "its next batch. Many changes at once need a longer timeout"
    )
