"""Read what the client's types leave open of a consumed record: confluent-kafka declares all of it optional."""

from __future__ import annotations

from typing import cast

from confluent_kafka import Message

from streaming.documents.records import Headers


def place_of(message: Message) -> tuple[int, int]:
    """Partition and offset of a record, or of the end of a partition. Other errors have neither."""
    offset = message.offset()
    assert offset is not None
    return partition_of(message), offset


def partition_of(message: Message) -> int:
    partition = message.partition()
    assert partition is not None
    return partition


def topic_of(message: Message) -> str:
    topic = message.topic()
    assert topic is not None
    return topic


def headers_of(message: Message) -> Headers:
    """The headers. The library's stub gives them the type of headers to produce, which may also be a dictionary."""
    return cast(Headers, message.headers() or [])
