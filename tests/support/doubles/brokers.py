"""Two brokers in memory that speak Kafka's protocol, as far as what publishes uses it.

The rules are those of Kafka's transaction coordinator, for both versions of transactions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors
from kafka.protocol.producer import ProduceRequest
from kafka.record import MemoryRecords

from streaming.documents.records import Record
from tests.support.doubles import connections
from tests.support.doubles.broker_logs import ABORTED, COMMITTED, DECIDED, EMPTY, NODES, OPEN, Broker, Id, Transaction

OK = 0
LATE = -1  # no answer: the request arrives after the next one of anybody
UNKNOWN_TOPIC: int = errors.UnknownTopicOrPartitionError.errno
CONCURRENT: int = errors.ConcurrentTransactionsError.errno
FENCED: int = errors.ProducerFencedError.errno
OLD_EPOCH: int = errors.InvalidProducerEpochError.errno
NO_TRANSACTION: int = errors.InvalidTxnStateError.errno
UNKNOWN_ID: int = errors.InvalidProducerIdMappingError.errno
OUT_OF_ORDER: int = errors.OutOfOrderSequenceNumberError.errno
UNSTABLE: int = errors.UnstableOffsetCommitError.errno
NOT_ATTEMPTED: int = errors.OperationNotAttemptedError.errno
NOT_LEADER: int = errors.NotLeaderForPartitionError.errno

Answer = SimpleNamespace


@dataclass
class Written:
    """The last transaction of a producer in a topic."""

    producer: tuple[int, int]
    next: int = 0  # sequence
    batches: dict[int, list[Record]] = field(default_factory=dict)  # by their first sequence


class Brokers(Broker):
    """`point` is called before and after the effect of each request, with its name. It may raise what the client gets
    instead of an answer; what it returns is an error code in place of the effect, or LATE. `owner` tells who begins a
    transaction.
    """

    def __init__(self, version: int) -> None:
        super().__init__()
        self.version = version
        self.now = 1_700_000_000.0
        self.node = NODES[0]  # the broker that is asked
        self.rejecting: dict[str, int] = {}  # topic -> error code
        self.point: Callable[[str, bool], int] = lambda name, after: OK
        self.owner: Callable[[], Any] = lambda: None
        self._late: list[Callable[[], object]] = []  # requests whose connections were lost
        self._written: dict[str, dict[str, Written]] = defaultdict(dict)  # by slot and topic
        self._answers: dict[str, Callable[[int, Any], Any]] = {
            "Metadata": self._metadata,
            "FindCoordinator": self._find,
            "ApiVersions": self._versions,
            "InitProducerId": self._init,
            "AddPartitionsToTxn": self._add_partitions,
            "AddOffsetsToTxn": self._add_group,
            "Produce": self._produce,
            "TxnOffsetCommit": self._commit_offsets,
            "EndTxn": self._end,
            "OffsetFetch": self._fetch_offsets,
        }

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let all clients be those of these brokers."""
        connections.install(patch, self)

    def answer(self, request: Any) -> Any:
        """The response of either broker. Raises what `point` raises."""
        name = "Produce" if isinstance(request, ProduceRequest) else type(request).__name__.removesuffix("Request")
        if name in ("Metadata", "FindCoordinator", "ApiVersions"):
            return self._answers[name](OK, request)
        late, self._late = self._late, []
        code = self.point(name, False)
        if code == LATE:
            self._late.append(lambda: self._answers[name](OK, request))
            raise errors.KafkaConnectionError("cut by the test")
        response = self._answers[name](code, request)
        for late_request in late:
            late_request()
        self.point(name, True)
        return response

    def delete(self, topics: Any) -> None:
        topics = list(topics)
        super().delete(topics)
        for written in self._written.values():
            for topic in topics:
                if topic in written:  # sent again, these records would be there twice: once among the deleted ones
                    written[topic].next = -1

    def _metadata(self, code: int, request: Any) -> Any:
        def about(name: str) -> Any:
            there = name in self.logs
            node = NODES[sum(name.encode()) % len(NODES)]
            partitions = [Answer(partition_index=0, leader_id=node)] if there else []
            return Answer(name=name, error_code=OK if there else UNKNOWN_TOPIC, partitions=partitions)

        return Answer(brokers=NODES, topics=[about(topic.name) for topic in request.topics])

    def _find(self, code: int, request: Any) -> Any:
        (key,) = request.coordinator_keys
        node = NODES[len(key) % len(NODES)]
        return Answer(coordinators=[Answer(key=key, error_code=OK, error_message=None, node_id=node)])

    def _versions(self, code: int, request: Any) -> Any:
        return Answer(
            error_code=OK, finalized_features=[Answer(name="transaction.version", max_version_level=self.version)]
        )

    def _known(self, slot: str, producer_id: int) -> Id | None:
        known = self.ids.get(slot)
        return known if known is not None and known.producer_id == producer_id else None

    def _init(self, code: int, request: Any) -> Any:
        known = self.ids.get(request.transactional_id)
        if known is None:
            known = self.ids[request.transactional_id] = Id(producer_id=1_000 + len(self.ids))
        code = code or self._opened(known, request)
        return _opened(code, known.producer_id, known.epoch)

    def _opened(self, known: Id, request: Any) -> int:
        given = request.producer_epoch
        if given >= 0:
            if request.producer_id != known.producer_id or given not in (known.epoch, known.last_epoch):
                return FENCED
            if given == known.last_epoch:  # the answer was lost
                return OK
        if known.transaction.state == DECIDED:
            return CONCURRENT
        if known.transaction.state == OPEN:
            known.transaction.state = ABORTED
            known.epoch += 1
            return CONCURRENT
        known.timeout_s = request.transaction_timeout_ms / 1000
        known.transaction = Transaction(state=EMPTY)
        known.last_epoch = known.epoch if given >= 0 else -1
        known.epoch += 1
        return OK

    def _add_partitions(self, code: int, request: Any) -> Any:
        known = self._known(request.v3_and_below_transactional_id, request.v3_and_below_producer_id)
        code = code or self._joins(known, request.v3_and_below_producer_epoch, begins=True)
        missing = [
            topic.name for topic in request.v3_and_below_topics if topic.name not in self.logs
        ]  # then none is added

        def code_of(topic: str) -> int:
            if code or not missing:
                return code
            return UNKNOWN_TOPIC if topic in missing else NOT_ATTEMPTED

        if not code and not missing and known is not None:
            known.added |= {topic.name for topic in request.v3_and_below_topics}
        return Answer(
            results_by_topic_v3_and_below=[
                Answer(
                    name=topic.name,
                    results_by_partition=[
                        Answer(partition_index=number, partition_error_code=code_of(topic.name))
                        for number in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    def _add_group(self, code: int, request: Any) -> Any:
        known = self._known(request.transactional_id, request.producer_id)
        code = code or self._joins(known, request.producer_epoch, begins=True)
        if not code and known is not None:
            known.added.add(request.group_id)
        return Answer(error_code=code)

    def _joins(self, known: Id | None, epoch: int, *, begins: bool, of: str = "") -> int:
        """Whether who asks may write in the slot's transaction; begins it."""
        if known is None:
            return UNKNOWN_ID
        if epoch != known.epoch:
            return OLD_EPOCH
        if known.transaction.state == DECIDED:
            return CONCURRENT
        if known.transaction.state != OPEN:
            if not begins:
                return NO_TRANSACTION
            known.transaction = Transaction(self.owner(), began=self.now)
            known.added = set()
        return OK if begins or of in known.added else NO_TRANSACTION

    def _produce(self, code: int, request: Any) -> Any:
        body = ProduceRequest.decode(bytes(request.body), version=request.version)
        assert body.acks == -1
        return Answer(
            responses=[
                Answer(
                    name=topic.name,
                    partition_responses=[
                        Answer(
                            index=data.index,
                            error_code=self._appended(code, body.transactional_id, topic.name, data),
                            error_message=None,
                        )
                        for data in topic.partition_data
                    ],
                )
                for topic in body.topic_data
            ]
        )

    def _appended(self, code: int, slot: str, topic: str, data: Any) -> int:
        if code:
            return NOT_LEADER
        if topic not in self.logs or data.index != 0:
            return UNKNOWN_TOPIC
        if topic in self.rejecting:
            return self.rejecting[topic]
        records = MemoryRecords(data.records)
        batch = records.next_batch()
        assert batch is not None
        assert not records.has_next(), "one batch per partition and request"
        assert batch.validate_crc()
        assert batch.is_transactional
        known = self._known(slot, batch.producer_id)
        if code := self._joins(known, batch.producer_epoch, begins=self.version == 2, of=topic):
            return code
        assert known is not None
        producer = batch.producer_id, batch.producer_epoch
        written = self._written[slot].get(topic)
        if written is None or written.producer != producer:
            written = self._written[slot][topic] = Written(producer)
        sequence = batch.base_sequence
        if sequence in written.batches and written.next >= 0:  # sent again
            return OK
        if sequence != max(written.next, 0):
            return OUT_OF_ORDER
        lost = {id(record) for record in written.batches.get(sequence, ())}
        self.deleted = [entry for entry in self.deleted if id(entry[1]) not in lost]
        content = [Record(topic, record.key, record.value, list(record.headers)) for record in batch]
        written.batches[sequence] = content
        written.next = sequence + len(content)
        self.logs[topic] += [(known.transaction, record) for record in content]
        return OK

    def _commit_offsets(self, code: int, request: Any) -> Any:
        known = self._known(request.transactional_id, request.producer_id)
        code = code or self._joins(known, request.producer_epoch, begins=self.version == 2, of=request.group_id)
        if not code and known is not None:
            known.transaction.group = request.group_id
            known.transaction.offsets |= {
                (topic.name, partition.partition_index): (
                    partition.committed_offset,
                    partition.committed_metadata.removesuffix("\0"),
                )
                for topic in request.topics
                for partition in topic.partitions
            }
        return Answer(
            topics=[
                Answer(
                    name=topic.name,
                    partitions=[
                        Answer(partition_index=partition.partition_index, error_code=code)
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _end(self, code: int, request: Any) -> Any:
        known = self._known(request.transactional_id, request.producer_id)
        code = code or self._ended(known, request.producer_epoch, request.committed)
        epoch = known.epoch if known is not None else -1
        return _opened(code, request.producer_id, epoch)

    def _ended(self, known: Id | None, epoch: int, commit: bool) -> int:
        if known is None:
            return UNKNOWN_ID
        state = known.transaction.state
        again = self.version == 2 and epoch == known.epoch - 1
        if state in (OPEN, EMPTY):
            if epoch != known.epoch:
                return FENCED
            if state == EMPTY and (commit or self.version == 1):
                return NO_TRANSACTION
        elif not again and (epoch != known.epoch or state == DECIDED):
            return FENCED if epoch != known.epoch or self.version == 2 else CONCURRENT
        elif state == DECIDED:
            return CONCURRENT if commit else NO_TRANSACTION
        elif again or self.version == 1:  # the answer was lost
            return OK if (state == COMMITTED) is commit else NO_TRANSACTION
        elif commit:
            return NO_TRANSACTION
        if self.version == 2:
            known.epoch += 1
        if state != OPEN:  # the abort of none
            known.transaction = Transaction(state=ABORTED)
        elif not commit:
            known.transaction.state = ABORTED
        elif self.late:
            self.late, known.transaction.state = False, DECIDED
        else:
            self.commit(known.transaction)
        return OK

    def _fetch_offsets(self, code: int, request: Any) -> Any:
        (group,) = request.groups
        there = self.offsets.get(group.group_id, {})
        pending: set[tuple[str, int]] = set()
        for known in self.ids.values():
            if known.transaction.state in (OPEN, DECIDED) and request.require_stable:
                pending |= known.transaction.offsets.keys()

        def partition(topic: str, number: int) -> Any:
            offset, note = there.get((topic, number), (-1, ""))
            unstable = UNSTABLE if (topic, number) in pending else OK
            return Answer(
                partition_index=number,
                committed_offset=offset,
                metadata=note,
                error_code=UNSTABLE if code else unstable,
            )

        topics = [
            Answer(name=topic.name, partitions=[partition(topic.name, number) for number in topic.partition_indexes])
            for topic in group.topics
        ]
        return Answer(groups=[Answer(group_id=group.group_id, error_code=OK, topics=topics)])


def _opened(code: int, producer_id: int, epoch: int) -> Any:
    """An answer with the producer id and epoch that are to be used."""
    return Answer(error_code=code, producer_id=-1 if code else producer_id, producer_epoch=-1 if code else epoch)
