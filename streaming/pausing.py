"""Pause and resume: a subscription's document as it was written last, with or without its flag.

It goes back to the partition it came from: another client may have its own way from keys to partitions, and the order
of two documents counts only within one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from confluent_kafka import Message

from streaming.errors import JobError
from streaming.subscriptions import Refused, read_change


class NoSubscription(JobError):
    """An id that no subscription has."""


@dataclass(frozen=True)
class Written:
    """The last word on an id."""

    partition: int
    document: Mapping[str, Any] | None  # None: withdrawn

    @property
    def paused(self) -> bool:
        return self.document is not None and self.document.get("paused", False)


def last_written(records: Iterable[Message | None], ids: Collection[str]) -> dict[str, Written]:
    """Of each id the last record that the job does not refuse, as it is the one that counts."""
    wanted = {id.encode() for id in ids}
    found = {}
    for record in records:
        if record is None or (record.key() and record.key() not in wanted):
            continue
        try:
            id = read_change(record.key(), record.value()).subscription.id
        except Refused:
            continue
        if id in ids:
            document = None if record.value() is None else orjson.loads(record.value())
            found[id] = Written(record.partition(), document)
    return found


def changed(found: Mapping[str, Written], ids: Iterable[str], pause: bool) -> dict[str, tuple[bytes, bytes, int]]:
    """By id the records (key, value, partition) that pause or resume those that are not so already.

    Raises NoSubscription, with all ids that cannot be."""
    if unknown := [_missing(id, found) for id in ids if id not in found or found[id].document is None]:
        raise NoSubscription(f"{', '.join(unknown)}; nothing was written")
    return {
        id: (id.encode(), orjson.dumps(_flagged(found[id].document or {}, pause)), found[id].partition)
        for id in ids
        if found[id].paused is not pause
    }


def _flagged(document: Mapping[str, Any], pause: bool) -> dict[str, Any]:
    others = {key: value for key, value in document.items() if key != "paused"}
    return {**others, "paused": True} if pause else others


def _missing(id: str, found: Mapping[str, Written]) -> str:
    return f"{id!r} is withdrawn" if id in found else f"no subscription has the id {id!r}"
