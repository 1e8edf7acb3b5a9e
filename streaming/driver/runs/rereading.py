"""Read a batch with a consumer of the driver if Spark fails on its timestamps or distorts them.

Spark keeps a timestamp in microseconds, so it fails on a record whose milliseconds are too many for that, whatever is
asked of the record. What is before 1582 it takes for a date of the Julian calendar. Kafka keeps any 64 bits, and
whoever may write one such record must not stop the job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import KafkaError, Message, TopicPartition

from streaming.documents.messages import headers_of, place_of
from streaming.driver.isolation import PIECE_BYTES, RAISED
from streaming.errors import BrokerUnreachable
from streaming.kafka.clients import EARLIEST, Cluster
from streaming.kafka.errors import is_passing, is_without_group, translate
from streaming.rows import EVENTS, INPUT, SUBSCRIPTIONS, Source, SourcePartition

PIECE_ROWS = 10_000
TIMEOUT_S = 60.0

Ends = Mapping[tuple[str, int], int]  # (topic, partition) -> the offset after the last


class Misread(Exception):
    """Raised for a batch with timestamps that Spark cannot represent, or misrepresents."""


def misread(trace: str) -> bool:
    """Whether a failed job of Spark says that it could not represent a timestamp."""
    return "java.lang.ArithmeticException" in trace and RAISED not in trace


@dataclass(frozen=True)
class Rereading:
    """Read the rows of a batch from Kafka without Spark. `ends` gives the end of a batch of Spark, by its number."""

    cluster: Cluster
    topics: Mapping[Source, str]
    ends: Callable[[int], Ends]

    def __call__(self, number: int, positions: Mapping[SourcePartition, int]) -> Iterator[pa.Table]:
        """The rows of a batch from these positions on, in pieces (rows.INPUT) in the order of each partition.

        The events come first, since the changes of a batch are not in force for them. Raises JobError.
        """
        ends = self.ends(number)
        for source in (EVENTS, SUBSCRIPTIONS):
            spans = {
                partition: (positions.get((source, partition), 0), end)
                for (topic, partition), end in ends.items()
                if topic == self.topics[source]
            }
            spans = {partition: span for partition, span in spans.items() if span[0] < span[1]}
            for messages in self._read(self.topics[source], spans):
                yield _table(source, messages)

    def _read(self, topic: str, spans: Mapping[int, tuple[int, int]]) -> Iterator[list[Message]]:
        left = {partition: end for partition, (_, end) in spans.items()}
        piece: list[Message] = []
        size = 0
        deadline = time.monotonic() + TIMEOUT_S
        with closing(self.cluster.reader(auto_offset_reset=EARLIEST, queued_max_messages_kbytes=4096)) as consumer:
            consumer.assign([TopicPartition(topic, partition, begin) for partition, (begin, _) in spans.items()])
            while left:
                for message in consumer.consume(PIECE_ROWS - len(piece), 0.2):
                    error = message.error()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        if is_passing(error) or is_without_group(error):
                            continue
                        raise translate(error, f"{topic} cannot be read")
                    partition, offset = place_of(message)
                    if partition not in left:
                        continue
                    deadline = time.monotonic() + TIMEOUT_S
                    if error is None and offset < left[partition]:
                        piece.append(message)
                        size += len(message.key() or b"") + len(message.value() or b"")
                    if error is not None or offset >= left[partition] - 1:
                        del left[partition]
                    if len(piece) >= PIECE_ROWS or size >= PIECE_BYTES:
                        yield piece
                        piece, size = [], 0
                        deadline = time.monotonic() + TIMEOUT_S
                if time.monotonic() > deadline:
                    raise BrokerUnreachable(f"the broker does not give the records of {topic} that are there")
        if piece:
            yield piece


def _table(source: Source, messages: Sequence[Message]) -> pa.Table:
    headers = [[{"key": key, "value": value} for key, value in headers_of(message)] for message in messages]
    columns = [
        [source] * len(messages),
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        [message.timestamp()[1] for message in messages],
        [message.key() for message in messages],
        [message.value() for message in messages],
        headers,
    ]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, INPUT, strict=True)], schema=INPUT)
