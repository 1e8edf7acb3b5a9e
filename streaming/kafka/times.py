"""Find the offsets of a topic between two times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, TopicPartition

from streaming.documents import instants
from streaming.kafka.topics import TIMEOUT_S

UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_AGO = re.compile(rf"([0-9]+)([{''.join(UNITS_MS)}])")

Place = tuple[str, int]  # topic and partition
Span = tuple[int, int]  # the first offset, and the one to stop before


def moment(text: str, now_ms: int) -> int:
    """A time with its zone, or how long ago it was, in milliseconds since the epoch. Raises ValueError."""
    if ago := _AGO.fullmatch(text):
        at = now_ms - int(ago[1]) * UNITS_MS[ago[2]]
    else:
        try:
            at = instants.milliseconds(text)
        except ValueError as error:
            raise ValueError(
                f"{text!r} is neither {error}, nor how long ago it was, such as 90s, 30m, 2h, 7d or 1w"
            ) from None
    return max(0, at)  # a time below zero is a command to Kafka


def bounds(consumer: Consumer, partitions: Iterable[Place]) -> dict[Place, Span]:
    """The first and the end offset of each partition, for readers of committed records."""
    return {at: consumer.get_watermark_offsets(TopicPartition(*at), TIMEOUT_S) for at in partitions}


def first_since(consumer: Consumer, partitions: Iterable[Place], at_ms: int) -> dict[Place, int]:
    """The offset of the first record at or after a time, by partition; negative if there is none."""
    offsets = consumer.offsets_for_times([TopicPartition(*at, at_ms) for at in partitions], TIMEOUT_S)
    return {(p.topic, p.partition): p.offset for p in offsets}


def between(consumer: Consumer, bounds: Mapping[Place, Span], from_ms: int, to_ms: int | None) -> dict[Place, Span]:
    """The offsets from one time to before another, or to the end of the bounds, by partition."""
    since = first_since(consumer, bounds, from_ms)
    until = {} if to_ms is None else first_since(consumer, bounds, to_ms)
    return spans(bounds, since, until)


def spans(bounds: Mapping[Place, Span], since: Mapping[Place, int], until: Mapping[Place, int]) -> dict[Place, Span]:
    """The offsets from the first record at or after one time to before the first at or after another.

    The end, if `first_since` finds no such record. Records with an earlier time than one before them stay in
    order of offset.
    """
    spans = {}
    for at, (low, high) in bounds.items():
        start, end = (_within(low, high, offsets.get(at, -1)) for offsets in (since, until))
        spans[at] = (start, max(start, end))
    return spans


def _within(low: int, high: int, offset: int) -> int:
    return high if offset < 0 else min(max(low, offset), high)
