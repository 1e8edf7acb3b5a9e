"""Build the requests of a fetcher with kafka-python's schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from streaming.publishing.contract import TopicPartition
from streaming.reading.contract import Position

EARLIEST, LATEST = -2, -1  # of ListOffsets
_FETCH = 12  # the newest version with names of topics
_LIST_OFFSETS = 7
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1


class FetchLimits(NamedTuple):
    """Limits on the wait for data and on the size of an answer. A broker returns a batch whole, however large it is."""

    max_wait_ms: int = 10_000  # and no longer than the poll: an idle broker answers seldom
    min_bytes: int = 1
    answer_bytes: int = 8 << 20
    partition_bytes: int = 4 << 20


def fetch(
    session: tuple[int, int],
    positions: Mapping[TopicPartition, Position],
    forgotten: Iterable[TopicPartition],
    limits: FetchLimits,
    rack: str,
) -> Any:
    """A Fetch request for committed records. `session` are its id and epoch."""
    topic_class, forgotten_class = FetchRequest.FetchTopic, FetchRequest.ForgottenTopic
    topics: dict[str, list[Any]] = {}
    for (topic, number), position in positions.items():
        partition = topic_class.FetchPartition(
            partition=number,
            fetch_offset=position.offset,
            last_fetched_epoch=position.epoch,
            partition_max_bytes=limits.partition_bytes,
        )
        topics.setdefault(topic, []).append(partition)
    removed: dict[str, list[int]] = {}
    for topic, number in forgotten:
        removed.setdefault(topic, []).append(number)
    return FetchRequest(
        min_version=_FETCH,
        max_version=_FETCH,
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.answer_bytes,
        isolation_level=_READ_COMMITTED,
        session_id=session[0],
        session_epoch=session[1],
        topics=[topic_class(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
        forgotten_topics_data=[forgotten_class(topic=topic, partitions=some) for topic, some in removed.items()],
        rack_id=rack,
    )


def list_offsets(at: TopicPartition, time: int) -> Any:
    """A ListOffsets request for the first offset (EARLIEST) or the high watermark (LATEST)."""
    topic_class = ListOffsetsRequest.ListOffsetsTopic
    partition = topic_class.ListOffsetsPartition(partition_index=at[1], timestamp=time)
    return ListOffsetsRequest(
        min_version=_LIST_OFFSETS,
        max_version=_LIST_OFFSETS,
        isolation_level=_READ_UNCOMMITTED,
        topics=[topic_class(name=at[0], partitions=[partition])],
    )
