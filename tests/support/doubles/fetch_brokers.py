"""Two brokers in memory that answer Fetch requests, with sessions, replicas, leader epochs and deleted records.

The rules are those of Kafka's ReplicaManager and FetchSession. A broker without data for a request waits as long as the
request says, at most LONGEST_WAIT_S, and then answers without records: it does not notice what comes meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka import errors
from kafka.protocol.consumer import FetchResponse

from streaming.publishing.contract import TopicPartition
from streaming.rows import ConsumerRecord
from tests.support.doubles.broker_logs import NODES
from tests.support.doubles.brokers import OK, UNKNOWN_TOPIC, Answer, Brokers
from tests.support.doubles.fetched_batches import batch

DivergingEpoch = FetchResponse.FetchableTopicResponse.PartitionData.EpochEndOffset
OUT_OF_RANGE: int = errors.OffsetOutOfRangeError.errno
NOT_LEADER: int = errors.NotLeaderForPartitionError.errno
NO_SESSION: int = errors.FetchSessionIdNotFoundError.errno
WRONG_SESSION_EPOCH: int = errors.InvalidFetchSessionEpochError.errno

LONGEST_WAIT_S = 0.5


@dataclass
class Log:
    """A partition. A batch is (base offset, offset after it, leader epoch, bytes)."""

    leader: int = NODES[0]
    batches: list[tuple[int, int, int, bytes]] = field(default_factory=list)
    start: int = 0
    end: int = 0
    stable: int | None = None  # where the first open transaction begins
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])  # (leader epoch, its first offset)
    aborted: Sequence[tuple[int, int, int]] = ()  # (producer, first offset, offset of the marker)
    preferred: int = -1  # the replica for clients with a rack
    replicas: tuple[int, ...] = ()  # brokers that answer too
    errors: dict[int, int] = field(default_factory=dict)  # of Fetch, by broker

    def append(self, records: Sequence[ConsumerRecord], codec: str = "none", **options: Any) -> None:
        self.append_bytes(batch(records, codec, **options), records[0].offset, records[-1].offset + 1)

    def append_bytes(self, data: bytes, base: int, end: int) -> None:
        epoch = self.epochs[-1][0]
        self.batches.append((base, end, epoch, data[:12] + epoch.to_bytes(4, "big") + data[16:]))
        self.end = end

    def delete_before(self, offset: int) -> None:
        self.start = offset
        self.batches = [one for one in self.batches if one[1] > offset]

    def truncate(self, offset: int) -> None:
        """An unclean election: the new leader lacks the records from this offset on."""
        self.batches = [one for one in self.batches if one[1] <= offset]
        self.end = offset
        self.epochs.append((self.epochs[-1][0] + 1, offset))

    def last_stable(self) -> int:
        return self.end if self.stable is None else self.stable

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The greatest epoch that is not beyond this one, and the offset at which it ends."""
        known = [one for one, _ in self.epochs if one <= epoch]
        later = [first for one, first in self.epochs if one > epoch]
        return (known[-1] if known else -1), (later[0] if later else self.end)


@dataclass
class Session:
    epoch: int
    partitions: dict[TopicPartition, Any]  # of requests; those that had data come last
    told: dict[TopicPartition, int] = field(default_factory=dict)  # the high watermark that the client knows


class FetchBrokers(Brokers):
    """`opens` tells whether brokers open sessions. `requests` has the Fetch requests, with the node."""

    def __init__(self) -> None:
        super().__init__(2)
        self.partition_logs: dict[TopicPartition, Log] = {}
        self.sessions: dict[int, Session] = {}
        self.opens = True
        self.requests: list[tuple[int, Any]] = []
        self.on_fetch: Callable[[], None] = lambda: None
        self._answers |= {"Fetch": self._fetch, "ListOffsets": self._list_offsets}
        self._last_session = 0

    def _metadata(self, code: int, request: Any) -> Any:
        def about(name: str) -> Any:
            logs = [(number, log) for (topic, number), log in self.partition_logs.items() if topic == name]
            partitions = [Answer(partition_index=number, leader_id=log.leader) for number, log in logs]
            return Answer(name=name, error_code=OK if logs else UNKNOWN_TOPIC, partitions=partitions)

        return Answer(brokers=NODES, topics=[about(topic.name) for topic in request.topics])

    def _list_offsets(self, code: int, request: Any) -> Any:
        (topic,) = request.topics
        (partition,) = topic.partitions
        log = self.partition_logs[topic.name, partition.partition_index]
        offset = log.start if partition.timestamp == -2 else log.end
        code = code or (OK if log.leader == self.node else NOT_LEADER)
        one = Answer(partition_index=partition.partition_index, error_code=code, timestamp=-1, offset=offset)
        return Answer(topics=[Answer(name=topic.name, partitions=[one])])

    def _fetch(self, code: int, request: Any) -> Any:
        self.on_fetch()
        self.requests.append((self.node, request))
        session, code = self._session(request) if not code else (None, code)
        if code or session is None:
            return Answer(error_code=code, session_id=0, responses=[])
        left, answers = request.max_bytes, list[tuple[str, Any]]()
        is_full = request.session_epoch == 0
        found = False
        for at, wanted in list(session.partitions.items()):
            answer = self._read(at, wanted, request.rack_id, left, first=not found)
            left -= len(answer.records)
            news = bool(answer.records or answer.error_code or answer.diverging_epoch) or (
                answer.preferred_read_replica >= 0 or session.told.get(at) != answer.high_watermark
            )
            if answer.records:
                found = True
                session.partitions[at] = session.partitions.pop(at)
            if is_full or news:
                session.told[at] = -1 if answer.error_code else answer.high_watermark
                answers.append((at[0], answer))
        at_once = any(
            one.records or one.error_code or one.diverging_epoch or one.preferred_read_replica >= 0
            for _, one in answers
        )
        return Answer(
            error_code=OK,
            session_id=next((id for id, one in self.sessions.items() if one is session), 0),
            responses=[Answer(topic=topic, partitions=[one]) for topic, one in answers],
            after_s=0.0 if at_once else min(LONGEST_WAIT_S, request.max_wait_ms / 1000),
        )

    def _session(self, request: Any) -> tuple[Session | None, int]:
        wanted = {(t.topic, p.partition): p for t in request.topics for p in t.partitions}
        if request.session_epoch in (0, -1):
            self.sessions.pop(request.session_id, None)
            session = Session(1, wanted)
            if self.opens and request.session_epoch == 0:
                self._last_session += 1
                self.sessions[self._last_session] = session
            return session, OK
        known = self.sessions.get(request.session_id)
        if known is None:
            return None, NO_SESSION
        if known.epoch != request.session_epoch:
            return None, WRONG_SESSION_EPOCH
        known.epoch += 1
        known.partitions |= wanted
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                known.partitions.pop((topic.topic, number), None)
        return known, OK

    def _read(self, at: TopicPartition, wanted: Any, rack: str, left: int, *, first: bool) -> Any:
        def answer(code: int = OK, records: bytes = b"", preferred: int = -1, diverging: Any = None) -> Any:
            return Answer(
                partition_index=at[1],
                error_code=code,
                high_watermark=log.end if log is not None and not code else -1,
                last_stable_offset=log.last_stable() if log is not None and not code else -1,
                log_start_offset=log.start if log is not None else -1,
                diverging_epoch=diverging,
                aborted_transactions=[
                    Answer(producer_id=producer, first_offset=first_offset)
                    for producer, first_offset, last in (log.aborted if log is not None else ())
                    if last >= offset
                ],
                preferred_read_replica=preferred,
                records=records,
            )

        log, offset = self.partition_logs.get(at), wanted.fetch_offset
        if log is None:
            return answer(UNKNOWN_TOPIC)
        if code := log.errors.get(self.node, OK):
            return answer(code)
        if self.node != log.leader and self.node not in log.replicas:
            return answer(NOT_LEADER)
        if not log.start <= offset <= log.end:
            return answer(OUT_OF_RANGE)
        if wanted.last_fetched_epoch >= 0:
            epoch, end = log.end_of_epoch(wanted.last_fetched_epoch)
            if epoch < wanted.last_fetched_epoch or end < offset:
                return answer(diverging=DivergingEpoch(epoch=epoch, end_offset=end))
        if rack and self.node == log.leader and log.preferred >= 0:
            return answer(preferred=log.preferred)
        batches = [data for base, end, _, data in log.batches if end > offset and base < log.last_stable()]
        most = max(0, min(wanted.partition_max_bytes, left))
        if first and batches:
            most = max(most, len(batches[0]))
        return answer(records=b"".join(batches)[:most])
