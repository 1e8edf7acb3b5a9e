"""The counts of a task's committed transactions by subscriber and subscription, as arrays.

A task reports them as bytes, which the driver does not look into before it has the time (`streaming.subscribers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from matchers import flat_file
from matchers.contract.tables import Int64
from matchers.index.texts import Texts

NEVER_MS = 0  # the time of the last event of whoever got none with a credible timestamp


class SubscriberCounts(NamedTuple):
    """The counts of S subscribers, and of I subscriptions of theirs. A subscription may be there several times."""

    names: Texts  # [S]
    deliveries: Int64  # [S]
    size_bytes: Int64  # [S]: of the deliveries, with headers and before compression
    matches: Int64  # [S]: pairs of an event and a subscription
    last_event_ms: Int64  # [S]: the latest timestamp of an event that matched, since the epoch
    dead_letters: Mapping[str, Mapping[str, int]]  # by subscriber and reason
    ids: Texts  # [I]: of subscriptions
    owner: Int64  # [I]: which of the subscribers has it
    id_matches: Int64  # [I]
    id_last_event_ms: Int64  # [I]

    def to_bytes(self) -> bytes:
        arrays = {name: value for name, value in self._asdict().items() if name not in ("names", "ids", "dead_letters")}
        for name, texts in (("names", self.names), ("ids", self.ids)):
            arrays |= {f"{name}.text": texts.text, f"{name}.start": texts.start}
        return b"".join(flat_file.laid_out(self.dead_letters, arrays))

    @classmethod
    def from_bytes(cls, packed: bytes) -> SubscriberCounts:
        letters, arrays = flat_file.parsed(packed, "counts of a task")
        for name in ("names", "ids"):
            arrays[name] = Texts(arrays.pop(f"{name}.text"), arrays.pop(f"{name}.start"))  # type: ignore[assignment]
        return cls(dead_letters=letters, **arrays)  # type: ignore[arg-type]
