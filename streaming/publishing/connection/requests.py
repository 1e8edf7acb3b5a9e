"""Build the requests of a transaction, and find the answers in the responses.

A response that lacks a requested answer counts as no response: the request is sent again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)

from streaming.publishing.connection.answers import NO_ANSWER, BrokerError
from streaming.publishing.contract import Notes, Offsets, ProducerEpoch, TopicPartition

# The newest version of each request in a transaction, by the cluster's feature transaction.version.
PRODUCE = {1: 11, 2: 12}
_OFFSETS = {1: 3, 2: 5}
_END = {1: 3, 2: 5}
_INIT = 5
_ADD = 3  # 4 and newer are for brokers

# confluent_kafka writes the zero byte at the end of a text too, and reads on until there is one.
_END_OF_NOTE = "\0"


class CommittedOffset(NamedTuple):
    offset: int
    note: str  # its metadata; empty if there is none


class CoordinatorRequest(NamedTuple):
    """A request to the coordinator of a transactional id or of a group."""

    name: str
    coordinator: CoordinatorType
    key: str  # the transactional id, or the group
    make: Callable[[], Any]  # a new request: it may be sent more than once
    answers: Callable[[Any], Iterable[BrokerError]]  # of a response


class EncodedProduce(ProduceRequest, init=False):  # type: ignore[misc,call-arg]  # kafka-python has no types
    """A Produce request whose body is encoded already.

    `encode` returns a view: TLS takes 16 KB at a time, and would copy the rest of a `bytes` each time.
    """

    __slots__ = ("body",)

    def encode(self, version: int | None = None, header: bool = False, framed: bool = False) -> memoryview:
        head = self.encode_header(flexible=True)
        return memoryview(b"".join((struct.pack(">i", len(head) + len(self.body)), head, self.body)))


def produce(version: int, body: Any) -> EncodedProduce:
    request = EncodedProduce(version=version, acks=-1)
    request.body = memoryview(body)
    return request


def produce_answers(response: Any, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, BrokerError]:
    """Return the errors of partitions, by partition."""
    return _of_partitions(
        partitions,
        (
            ((topic.name, partition.index), partition.error_code, partition.error_message)
            for topic in response.responses or ()
            for partition in topic.partition_responses or ()
        ),
    )


def init_producer_id(slot: str, timeout_ms: int, producer: ProducerEpoch | None = None) -> CoordinatorRequest:
    """Get a producer id and epoch, which aborts open transactions of other producers of that name. With `producer`,
    only if that is the newest: it gets the next epoch."""
    current = producer or ProducerEpoch(-1, -1)
    return CoordinatorRequest(
        "InitProducerId",
        CoordinatorType.TRANSACTION,
        slot,
        lambda: InitProducerIdRequest(
            min_version=3,
            max_version=_INIT,
            transactional_id=slot,
            transaction_timeout_ms=timeout_ms,
            producer_id=current.id,
            producer_epoch=current.epoch,
        ),
        _producer,
    )


def add_partitions(slot: str, producer: ProducerEpoch, partitions: Iterable[TopicPartition]) -> CoordinatorRequest:
    """Announce the partitions that the transaction will write to (version 1 of transactions)."""
    asked = list(partitions)
    return CoordinatorRequest(
        "AddPartitionsToTxn",
        CoordinatorType.TRANSACTION,
        slot,
        lambda: AddPartitionsToTxnRequest(
            max_version=_ADD,
            v3_and_below_transactional_id=slot,
            v3_and_below_producer_id=producer.id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=numbers)
                for topic, numbers in _by_topic(asked).items()
            ],
        ),
        lambda response: _of_partitions(
            asked,
            (
                ((topic.name, partition.partition_index), partition.partition_error_code, None)
                for topic in response.results_by_topic_v3_and_below or ()
                for partition in topic.results_by_partition or ()
            ),
        ).values(),
    )


def add_group(slot: str, producer: ProducerEpoch, group: str) -> CoordinatorRequest:
    """Announce the group whose offsets the transaction will commit (version 1 of transactions)."""
    return CoordinatorRequest(
        "AddOffsetsToTxn",
        CoordinatorType.TRANSACTION,
        slot,
        lambda: AddOffsetsToTxnRequest(
            max_version=_ADD,
            transactional_id=slot,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            group_id=group,
        ),
        _single,
    )


def commit_offsets(
    version: int, slot: str, producer: ProducerEpoch, group: str, offsets: Offsets, notes: Notes
) -> CoordinatorRequest:
    topic_class = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic

    def make() -> Any:
        return TxnOffsetCommitRequest(
            min_version=3,
            max_version=_OFFSETS[version],
            transactional_id=slot,
            group_id=group,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[
                topic_class(
                    name=topic,
                    partitions=[
                        topic_class.TxnOffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=offsets[topic, number],
                            committed_leader_epoch=-1,
                            committed_metadata=_written(notes.get((topic, number), "")),
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in _by_topic(offsets).items()
            ],
        )

    return CoordinatorRequest(
        "TxnOffsetCommit",
        CoordinatorType.GROUP,
        group,
        make,
        lambda response: _of_partitions(
            offsets,
            (
                ((topic.name, partition.partition_index), partition.error_code, None)
                for topic in response.topics or ()
                for partition in topic.partitions or ()
            ),
        ).values(),
    )


def _written(note: str) -> str:
    return note + _END_OF_NOTE if note else ""


def end(version: int, slot: str, producer: ProducerEpoch, *, commit: bool) -> CoordinatorRequest:
    """The response of version 2 holds the next producer id and epoch."""
    return CoordinatorRequest(
        "EndTxn",
        CoordinatorType.TRANSACTION,
        slot,
        lambda: EndTxnRequest(
            min_version=_END[version],
            max_version=_END[version],
            transactional_id=slot,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=commit,
        ),
        _producer if version == 2 else _single,
    )


def fetch_offsets(group: str, partitions: Sequence[TopicPartition], *, stable: bool = True) -> CoordinatorRequest:
    """Request the committed offsets; `stable` ones wait until no open transaction can change them."""
    group_class = OffsetFetchRequest.OffsetFetchRequestGroup

    def answers(response: Any) -> Iterable[BrokerError]:
        groups = _of_group(response, group)
        if not groups:
            yield BrokerError("", NO_ANSWER, f"the answer lacks {group}")
        for fetched in groups:
            if fetched.error_code:
                yield BrokerError("", fetched.error_code)
                continue
            yield from _of_partitions(
                partitions,
                (
                    ((topic.name, partition.partition_index), partition.error_code, None)
                    for topic in fetched.topics or ()
                    for partition in topic.partitions or ()
                ),
            ).values()

    return CoordinatorRequest(
        "OffsetFetch",
        CoordinatorType.GROUP,
        group,
        lambda: OffsetFetchRequest(
            min_version=8,
            max_version=9,
            groups=[
                group_class(
                    group_id=group,
                    member_id=None,
                    member_epoch=-1,
                    topics=[
                        group_class.OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
                        for topic, numbers in _by_topic(partitions).items()
                    ],
                )
            ],
            require_stable=stable,
        ),
        answers,
    )


def fetched_offsets(response: Any, group: str) -> dict[TopicPartition, CommittedOffset]:
    """Return the offset of each partition that has one, from a response without errors."""
    return {
        (topic.name, partition.partition_index): CommittedOffset(
            partition.committed_offset,
            (partition.metadata or "").removesuffix(_END_OF_NOTE),
        )
        for fetched in _of_group(response, group)
        for topic in fetched.topics
        for partition in topic.partitions
        if partition.committed_offset >= 0
    }


def _of_group(response: Any, group: str) -> list[Any]:
    return [fetched for fetched in response.groups or () if fetched.group_id == group]


def _single(response: Any) -> Iterable[BrokerError]:
    """Yield the error of a response with a single answer."""
    if response.error_code:
        yield BrokerError("", response.error_code)


def _producer(response: Any) -> Iterable[BrokerError]:
    """Yield the errors of a response that assigns a producer."""
    yield from _single(response)
    if not response.error_code and (response.producer_id < 0 or response.producer_epoch < 0):
        yield BrokerError("", NO_ANSWER, "the answer has no producer")


def _of_partitions(
    asked: Iterable[TopicPartition], told: Iterable[tuple[TopicPartition, int, str | None]]
) -> dict[TopicPartition, BrokerError]:
    """Return the errors of the requested partitions. A partition that the response lacks counts as unanswered: taking
    it for a success would lose its records or offsets."""
    codes: dict[TopicPartition, tuple[int, str | None]] = {}
    for at, code, message in told:
        if code or at not in codes:
            codes[at] = code, message
    answers = {}
    for topic, number in asked:
        code, message = codes.get((topic, number), (NO_ANSWER, f"the answer lacks partition {number}"))
        if code:
            answers[topic, number] = BrokerError(topic, code, message)
    return answers


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return by_topic
