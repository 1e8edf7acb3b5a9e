"""Read one record by its position, or the last ones of a topic, in bounded time and memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streaming.documents.messages import headers_of, partition_of, place_of
from streaming.errors import BrokerUnreachable, TopicMissing
from streaming.kafka.clients import Cluster
from streaming.kafka.errors import is_without_group, translate

POLL_S = 0.1
OPTIONS: dict[str, Any] = {  # what is fetched ahead is thrown away
    "fetch_wait_max_ms": 10,
    "queued_min_messages": 1,
    "queued_max_messages_kbytes": 16_384,
}
OFFSETS_PER_RECORD = 4  # that are looked through: every transaction ends in an offset that holds no record
MAX_BYTES = 32 << 20  # of all records that are read for the last ones


class LastRecords(NamedTuple):
    """Records at the end of a topic, the newest first."""

    messages: list[Message]
    is_whole: bool  # False: there was no time, or no memory, to read up to the end


def record_at(cluster: Cluster, topic: str, partition: int, offset: int, timeout_s: float) -> Message | None:
    """The committed record at this position; None if it is not there any more. Raises JobError."""
    consumer = cluster.reader(**OPTIONS)
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        for message in _polled(consumer, time.monotonic() + timeout_s):
            return message if message.error() is None and place_of(message)[1] == offset else None
    except KafkaException as error:
        raise translate(error.args[0], f"{topic} cannot be read") from error
    finally:
        consumer.close()
    raise BrokerUnreachable(f"{topic} cannot be read: no answer within {timeout_s:g} s")


def last_records(cluster: Cluster, topic: str, most: int, timeout_s: float) -> LastRecords:
    """The records among the last OFFSETS_PER_RECORD * `most` offsets of each partition. Raises JobError."""
    deadline = time.monotonic() + timeout_s
    consumer = cluster.reader(**OPTIONS)
    messages: list[Message] = []
    size = 0
    try:
        begins = dict(_begins(consumer, topic, OFFSETS_PER_RECORD * most, deadline))
        consumer.assign([TopicPartition(topic, partition, begin) for partition, begin in begins.items()])
        unread = set(begins)
        for message in _polled(consumer, deadline) if unread else ():
            if message.error() is None:
                messages.append(message)
                size += _size(message)
            else:
                unread.discard(partition_of(message))
            if not unread or size > MAX_BYTES:
                break
    except KafkaException as error:
        raise translate(error.args[0], f"{topic} cannot be read") from error
    finally:
        consumer.close()
    messages.sort(key=lambda message: message.timestamp()[1], reverse=True)
    return LastRecords(messages, not unread)


def _size(message: Message) -> int:
    """The bytes of key, value and headers."""
    headers = [part for header in headers_of(message) for part in header]
    return sum(len(part) for part in (message.key(), message.value(), *headers) if part is not None)


def _begins(consumer: Consumer, topic: str, offsets: int, deadline: float) -> Iterator[tuple[int, int]]:
    """Each partition that has records, and the offset so many before its end. Raises KafkaException, TopicMissing and
    BrokerUnreachable."""
    found = consumer.list_topics(topic, _left_s(topic, deadline)).topics[topic]
    if found.error is not None:
        if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise TopicMissing(f"no topic {topic}")
        raise KafkaException(found.error)
    for partition in found.partitions:
        at = TopicPartition(topic, partition)
        low, end = consumer.get_watermark_offsets(at, _left_s(topic, deadline))
        if low < end:
            yield partition, max(low, end - offsets)


def _left_s(topic: str, deadline: float) -> float:
    """Raises BrokerUnreachable."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise BrokerUnreachable(f"{topic} cannot be read: no answer within the time limit")
    return left_s


def _polled(consumer: Consumer, deadline: float) -> Iterator[Message]:
    """Records, and the ends of partitions, until then. Raises KafkaException."""
    while time.monotonic() < deadline:
        message = consumer.poll(POLL_S)
        error = None if message is None else message.error()
        if message is None or (error is not None and is_without_group(error)):
            continue
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        yield message
