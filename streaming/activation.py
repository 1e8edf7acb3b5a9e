"""When is a change in force? Wait until the status topic has answered each that was written.

    cluster.topics().offsets(status topic) -> starts        before the first is written
    clients.write(..., taken=outstanding.take)              the broker's report tells its partition and offset
    answers(cluster, starts, outstanding, timeout_s)        its status names both

The status topic is compacted: a status may be gone, but only when a later change of the same id has one. That one
answers both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from confluent_kafka import Message

from streaming import clients
from streaming.clients import Cluster
from streaming.errors import JobError

NAMED = 5  # ids that an error lists

Starts = Mapping[tuple[str, int], int]  # (topic, partition) -> offset of the first record to read
_WORDS = {"accepted": "in force", "paused": "paused", "withdrawn": "withdrawn"}


class Unanswered(JobError):
    """The time to wait is over. What was written stays written, and a job will answer it."""

    retry = True


@dataclass(frozen=True)
class Answer:
    """What became of a change: its status, or, where `superseded`, that of a later change of the same id."""

    id: str
    offset: int  # of the change, in the partition that its status names
    status: Mapping[str, Any]
    superseded: bool

    @property
    def refused(self) -> bool:
        return not self.superseded and self.status["status"] == "refused"

    def __str__(self) -> str:
        """Without its id."""
        if self.superseded:
            return f"superseded by a later change, offset {self.status['change']['offset']}"
        if self.refused:
            return f"refused: {self.status['reason']}"
        events = ", ".join(f"{p}:{offset}" for p, offset in self.status["in_force_from"].items())
        return f"{_WORDS[self.status['status']]} from version {self.status['version']}, events {events}"

    def as_data(self) -> Mapping[str, Any]:
        if not self.superseded:
            return self.status
        change = {**self.status["change"], "offset": self.offset}
        return {"id": self.id, "status": "superseded", "by": self.status, "change": change}


class Outstanding:
    """Changes that are written and not answered."""

    def __init__(self) -> None:
        self._offsets: dict[int, dict[str, list[int]]] = {}  # by partition and id, ascending
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def take(self, change: Message) -> None:
        self.add(change.key().decode(), change.partition(), change.offset())

    def add(self, id: str, partition: int, offset: int) -> None:
        self._offsets.setdefault(partition, {}).setdefault(id, []).append(offset)
        self._count += 1

    def answered(self, status: Mapping[str, Any]) -> Iterator[Answer]:
        """The changes that a status answers; they are no longer outstanding."""
        id, change = status["id"], status["change"]
        waiting = self._offsets.get(change["partition"], {})
        while waiting.get(id) and waiting[id][0] <= change["offset"]:
            offset = waiting[id].pop(0)
            self._count -= 1
            yield Answer(id, offset, status, superseded=offset < change["offset"])
        if id in waiting and not waiting[id]:
            del waiting[id]

    def ids(self) -> Iterator[str]:
        return (id for waiting in self._offsets.values() for id in waiting)


def starts(cluster: Cluster, topic: str) -> Starts:
    """Where a topic ends now. Raises TopicMissing and Forbidden."""
    topics = cluster.topics()
    topics.required([topic], "there the job would answer; `run_stream.py topics create` makes what it needs")
    return {(topic, partition): end for partition, _, end in topics.offsets(topic)}


def answers(cluster: Cluster, starts: Starts, outstanding: Outstanding, timeout_s: float) -> Iterator[Answer]:
    """Each as it comes, until nothing is outstanding. Raises Unanswered when the time is over."""
    deadline = time.monotonic() + timeout_s
    topics = sorted({topic for topic, _ in starts})
    written = len(outstanding)
    records = clients.read(cluster, topics, follow=True, starts=starts)
    while outstanding:
        message = next(records)
        if message is not None and message.value() is not None:
            yield from outstanding.answered(orjson.loads(message.value()))
        if outstanding and time.monotonic() > deadline:
            raise Unanswered(_unanswered(outstanding, written, topics, timeout_s))


def _unanswered(outstanding: Outstanding, written: int, topics: list[str], timeout_s: float) -> str:
    some = [id for id, _ in zip(outstanding.ids(), range(NAMED), strict=False)]
    return (
        f"{len(outstanding):,} of {written:,} changes are not answered after {timeout_s:g} s: "
        f"{', '.join(map(repr, some))}{', ...' if len(outstanding) > len(some) else ''}. They are written and will be "
        f"answered on {', '.join(topics)} by the next batch of a job that reads them: is it running (`run_stream.py "
        "run`), with the same topics and brokers? Many changes at once may need a longer --timeout"
    )
