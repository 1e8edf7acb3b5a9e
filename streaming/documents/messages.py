"""Read what the client's types leave open of a consumed record: confluent-kafka declares all of it optional."""

from __future__ import annotations

from operator import methodcaller
from typing import cast

from confluent_kafka import Message

from streaming.documents.records import Headers

_HEADERS = methodcaller("headers")


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
    """The headers; none if the name of one is not UTF-8, which the library cannot read.

    It then returns a broken list beside an error, at which a direct call of its method may crash; one by `methodcaller`
    raises SystemError. The library's stub gives headers the type of those to produce, which may also be a dictionary.
    """
    try:
        return cast(Headers, _HEADERS(message) or [])
    except SystemError:
        message.set_headers([])
        return []
