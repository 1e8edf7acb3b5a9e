"""Pause and resume: set or clear the flag in a subscription's last document.

A start in the document (`from`) is left out: it was that of the document which the new one replaces.

It goes back to the partition it came from, so that compaction removes the old document in time: another client may
have its own way from keys to partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from streaming.admin.subscription_topic import StoredSubscription
from streaming.errors import JobError


class NoSubscription(JobError):
    """No subscription has this id."""


def changed(
    last: Mapping[str, StoredSubscription], ids: Iterable[str], pause: bool
) -> dict[str, tuple[bytes, bytes, int]]:
    """The records (key, value, partition), by id, that pause or resume the subscriptions that need it.

    Raises NoSubscription, with all unknown ids."""
    if unknown := [missing(id, last) for id in ids if id not in last or last[id].value is None]:
        raise NoSubscription(f"{', '.join(unknown)}; nothing was written")
    return {
        id: (id.encode(), orjson.dumps(_flagged(last[id].document, pause)), last[id].partition)
        for id in ids
        if last[id].change.paused is not pause
    }


def _flagged(document: Mapping[str, Any], pause: bool) -> dict[str, Any]:
    others = {key: value for key, value in document.items() if key not in ("paused", "from")}
    return {**others, "paused": True} if pause else others


def missing(id: str, last: Mapping[str, StoredSubscription]) -> str:
    """The reason that an id has no document."""
    return f"{id!r} is unsubscribed" if id in last else f"no subscription has the id {id!r}"
