"""Parse a delivery."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from confluent_kafka import Message

from streaming.documents.messages import headers_of, place_of
from streaming.documents.records import REPLAY, Headers
from streaming.text_format import as_text_or_base64, time_of

LONGEST_VERSION = 19  # digits


@dataclass(frozen=True)
class Delivery:
    """A delivery and its headers. Other programs may write to the topic too, so a header may be missing."""

    partition: int
    offset: int
    time_ms: int  # when it was written
    key: bytes | None
    event: bytes | None  # the published bytes
    headers: Headers
    ids: list[str]  # ids of the subscriptions that matched
    version: int | None  # version of the subscriptions that matched
    replay: str | None  # name of the replay that delivered it
    latency_ms: int | None  # from the event's `ce_time` to the time of the delivery

    @classmethod
    def of(cls, message: Message) -> Delivery:
        every = headers_of(message)
        headers = {name: (value or b"").decode(errors="replace") for name, value in every}
        written_ms = message.timestamp()[1]
        return cls(
            *place_of(message),
            written_ms,
            message.key(),
            message.value(),
            every,
            _ids(headers.get("ce_subscriptionids", "")),
            _version(headers.get("ce_matchversion", "")),
            headers.get(REPLAY),
            _since(headers.get("ce_time", ""), written_ms),
        )

    def json(self) -> Any:
        """Parse the event as JSON. Raises ValueError."""
        return orjson.loads(self.event or b"")

    def as_data(self) -> dict[str, Any]:
        data = {
            "time": time_of(self.time_ms, "T"),
            "latency_ms": self.latency_ms,
            "matchversion": self.version,
            "replay": self.replay,
            "subscriptionids": self.ids,
            "partition": self.partition,
            "offset": self.offset,
        }
        return data | as_text_or_base64("value", self.event)


def _version(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= LONGEST_VERSION else None


def _ids(text: str) -> list[str]:
    try:
        ids = orjson.loads(text)
    except orjson.JSONDecodeError:
        return []
    return [str(id) for id in ids] if isinstance(ids, list) else []


def _since(text: str, now_ms: int) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is None else now_ms - round(moment.timestamp() * 1000)
