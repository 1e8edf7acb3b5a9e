"""Read deliveries as a subscriber does, and format them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson
from confluent_kafka import Message

from streaming.documents.messages import headers_of, place_of
from streaming.documents.records import REPLAY
from streaming.kafka import clients
from streaming.kafka.clients import Cluster
from streaming.publishing.delivery import DeliveryRule
from streaming.text_format import as_text_or_base64, cut, plain, time_of

if TYPE_CHECKING:
    from config.model import Settings

MOST_IDS = 40  # characters of a line
SHORTEST = 20  # characters of an event


def received(settings: Settings, subscriber: str, *, follow: bool, from_now: bool = False) -> Iterator[Message | None]:
    """The deliveries of a subscriber in either layout, up to the present end.

    With `follow` it never ends and yields None whenever nothing has come for a moment. The first offset is settled when
    this returns. Raises JobError.
    """
    rule = DeliveryRule.of(settings.deliveries)
    cluster = Cluster.of(settings)
    topic = rule.topic(subscriber)
    topics = cluster.topics()
    topics.required(
        [topic],
        "`run_stream.py topics create` makes it"
        if rule.shared
        else f"the job makes it with the first subscription of {subscriber}, and `subscriptions list` names all "
        "subscribers; or are deliveries.prefix and deliveries.layout not those of the job?",
    )
    starts = {(topic, partition): end for partition, _, end in topics.offsets(topic)} if from_now else None
    records = clients.read(cluster, [topic], follow=follow, starts=starts)
    return (record for record in records if record is None or not rule.shared or record.key() == subscriber.encode())


@dataclass(frozen=True)
class Delivery:
    """A delivery with what its headers say. Others may write to the topic too, so each of these may be missing."""

    partition: int
    offset: int
    time_ms: int  # when it was written
    event: bytes | None
    ids: list[str]
    version: int | None
    replay: str | None
    latency_ms: int | None  # from the time that the event says to when this was written

    @classmethod
    def of(cls, message: Message) -> Delivery:
        headers = {name: (value or b"").decode(errors="replace") for name, value in headers_of(message)}
        written_ms = message.timestamp()[1]
        return cls(
            *place_of(message),
            written_ms,
            message.value(),
            _ids(headers.get("ce_subscriptionids", "")),
            int(version) if (version := headers.get("ce_matchversion", "")).isdecimal() else None,
            headers.get(REPLAY),
            _since(headers.get("ce_time", ""), written_ms),
        )

    def parts(self, width: int) -> tuple[str, str, str, str, str]:
        """The parts of a line: time, delay, version or replay, subscriptions, and as much of the event as `width` has
        room for."""
        late = "-" if self.latency_ms is None else f"{self.latency_ms:,} ms"
        by = f"version {self.version}" if self.version is not None else f"replay {self.replay}" if self.replay else "-"
        ids = cut(", ".join(self.ids) or "-", MOST_IDS)
        facts = (time_of(self.time_ms).split(" ")[-1], f"{late:>9}", plain(by, quoted=False), plain(ids, quoted=False))
        event = "no value" if self.event is None else self.event.decode(errors="replace")
        room = width - sum(len(fact) + 2 for fact in facts)
        return (*facts, cut(plain(event, quoted=False), max(SHORTEST, room)))

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
