"""Read a subscriber's deliveries and commit the position of a group."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from streaming.admin.deliveries import Delivery
from streaming.documents.messages import place_of
from streaming.errors import JobError
from streaming.kafka.clients import first_offset
from streaming.kafka.errors import is_without_group, translate
from streaming.kafka.topics import TIMEOUT_S

if TYPE_CHECKING:
    from streaming.kafka.clients import Cluster
    from streaming.kafka.topics import Topics
    from streaming.publishing.delivery import DeliveryRule

POLL_S = 0.1
PARTITIONS_EVERY_S = 5.0  # how often a reader without a group looks for added ones
_REVOKED = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.FENCED_MEMBER_EPOCH,
    KafkaError.FENCED_INSTANCE_ID,
)


class GroupChanged(JobError):
    """The group assigned these partitions to other members, which receive the uncommitted deliveries again."""

    retry = True


class Deliveries:
    """An iterator over the deliveries of a subscriber, in order within each partition. It skips deliveries of aborted
    and open transactions.

        with client.deliveries("alice", group="billing") as deliveries:
            for delivery in deliveries:
                charge(delivery.json())
                deliveries.commit()

    After a crash, the next reader of the group receives the uncommitted deliveries again. A record that another program
    wrote to the topic is a delivery without a version and without subscriptions. Only one thread at a time may read;
    any thread may set the event `stop`.
    """

    def __init__(
        self, consumer: Consumer, topic: str, only_key: bytes | None, group: str | None, follow: bool, stop: Event
    ) -> None:
        """Read the topic's records of the key `only_key`, or all records if it is None."""
        self._consumer, self._topic, self._only_key, self._group = consumer, topic, only_key, group
        self._follow, self._stop = follow, stop
        self._assigned: set[int] | None = None  # partitions; None: not yet or no longer known
        self._at_end: set[int] = set()
        self._reached: dict[int, int] = {}  # partition -> offset of the next delivery, if that is not committed
        self._looked_s = time.monotonic()  # for added partitions
        self._heard_s: dict[int, float] = {}  # partition -> monotonic s of its last message
        self._checked_s = time.monotonic()
        self._failed: JobError | None = None  # of a rebalance: where it would go on is unknown
        self._is_open = True
        self._use = Lock()  # of the consumer, which must not be closed while another thread polls it

    @classmethod
    def opened(
        cls,
        cluster: Cluster,
        topics: Topics,
        rule: DeliveryRule,
        subscriber: str,
        *,
        group: str | None,
        follow: bool,
        from_now: bool,
        stop: Event,
    ) -> Deliveries:
        """Raises JobError. Without a group, the first offset is settled when this returns."""
        topic = rule.topic(subscriber)
        partitions = topics.required(
            [topic],
            "`run_stream.py topics create` creates it"
            if rule.shared
            else f"the job creates it with the first subscription of {subscriber}; `subscriptions list` shows all "
            "subscribers, and deliveries.prefix and deliveries.layout must be the same as the job's",
        )[topic]
        only_key = subscriber.encode() if rule.shared else None
        if group is not None:
            there = range(partitions if from_now else 0)
            return cls.of_group(cluster, topics, topic, group, follow, stop, only_key=only_key, from_now=there)
        ends = topics.ends([topic], TIMEOUT_S) if from_now else {}
        deliveries = cls(cluster.reader(), topic, only_key, None, follow, stop)
        deliveries._assign({p: ends.get((topic, p), OFFSET_BEGINNING) for p in range(partitions)})
        return deliveries

    @classmethod
    def of_group(
        cls,
        cluster: Cluster,
        topics: Topics,
        topic: str,
        group: str,
        follow: bool,
        stop: Event,
        *,
        only_key: bytes | None = None,
        from_now: Collection[int] = (),
        **options: Any,
    ) -> Deliveries:
        """The records of a topic as a group reads them. In the partitions `from_now` a group that has committed nothing
        begins at the current end, in others at the first record; the options are those of librdkafka. Raises JobError.
        """
        topics.check_group(group)
        deliveries = cls(cluster.reader(group_id=group, **options), topic, only_key, group, follow, stop)
        deliveries._join(from_now, partial(topics.ends, [topic], TIMEOUT_S))
        return deliveries

    def __enter__(self) -> Deliveries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Deliveries:
        return self

    def __next__(self) -> Delivery:
        """Raises StopIteration at the present end, unless it is to follow, or once it is closed or `stop` is set."""
        while self._is_open and not self._stop.is_set():
            if not self._follow:
                self._check_leaders()
            if (delivery := self._polled(POLL_S)) is not None:
                return delivery
            if self.at_end and not self._follow:
                break
        raise StopIteration

    @property
    def at_end(self) -> bool:
        """Whether the last `poll` reached the current end of all partitions assigned to this reader."""
        return self._assigned is not None and self._at_end >= self._assigned

    def poll(self, timeout_s: float) -> Delivery | None:
        """Return the next delivery. Returns None after `timeout_s` and, without `follow`, at the current end. Raises
        JobError."""
        if not self._is_open:
            raise ValueError("the deliveries are closed")
        return self._polled(timeout_s)

    def _polled(self, timeout_s: float) -> Delivery | None:
        """As `poll`, and None once another thread has closed the deliveries."""
        deadline = time.monotonic() + timeout_s
        left_s = timeout_s
        while True:
            with self._use:
                if not self._is_open:
                    return None
                if self._failed is not None:
                    raise self._failed
                self._look_for_partitions()
                try:
                    message = self._consumer.poll(min(max(0.0, left_s), POLL_S))
                except (KafkaException, JobError) as error:
                    self._failed = _failed(error, self._topic)
                    raise self._failed from error
            if message is not None and (delivery := self._taken(message)) is not None:
                return delivery
            left_s = deadline - time.monotonic()
            if left_s <= 0 or (self.at_end and not self._follow):
                return None

    def _check_leaders(self) -> None:
        """Check now and then that brokers answer, and leaders of partitions that were silent before their end.

        Raises JobError.
        """
        now = time.monotonic()
        if now < self._checked_s + TIMEOUT_S:
            return
        self._checked_s = now
        unread = sorted((self._assigned or set()) - self._at_end)
        silent = [number for number in unread if now >= self._heard_s.get(number, 0.0) + TIMEOUT_S]
        checks: list[Callable[[], object]] = [
            partial(self._consumer.list_topics, self._topic, TIMEOUT_S),
            *(partial(first_offset, self._consumer, TopicPartition(self._topic, number)) for number in silent),
        ]
        for check in checks:
            with self._use:
                if not self._is_open or self._stop.is_set():
                    return
                try:
                    check()
                except KafkaException as error:
                    raise translate(error.args[0], f"{self._topic} cannot be read") from error

    def commit(self) -> None:
        """Commit all deliveries returned so far; the next reader of the group begins after them.

        Raises `GroupChanged` if their partitions were assigned to another member, other JobErrors, and ValueError if
        the deliveries are closed.
        """
        if self._group is None:
            raise ValueError("only deliveries that were opened with a group can be committed")
        offsets = [TopicPartition(self._topic, p, offset) for p, offset in self._reached.items()]
        if not offsets:
            return
        try:
            with self._use:
                if not self._is_open:
                    raise ValueError("the deliveries are closed")
                _checked(self._consumer.commit(offsets=offsets, asynchronous=False))
        except KafkaException as failed:
            reason = failed.args[0]
            if reason.code() in _REVOKED:
                raise GroupChanged(
                    f"the group {self._group} has given {self._topic} to other members: {reason.str()}; uncommitted "
                    "deliveries come again"
                ) from failed
            raise translate(reason, f"the group {self._group} cannot commit") from failed
        self._reached.clear()

    def close(self) -> None:
        """Leave the group without committing. A thread that reads meanwhile comes to its end first, so a signal handler
        sets `stop` instead."""
        was_open, self._is_open = self._is_open, False
        with self._use:
            if was_open:
                self._consumer.close()

    def _join(self, from_now: Collection[int], ends: Callable[[], Mapping[tuple[str, int], int]]) -> None:
        def given(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            if begin := [p for p in partitions if p.partition in from_now]:
                new = [p for p in _checked(consumer.committed(begin, TIMEOUT_S)) if p.offset < 0]
                at = ends() if new else {}
                # Committed at once: otherwise a reader that ends early would leave a later start to the next one.
                if starts := [TopicPartition(p.topic, p.partition, at[p.topic, p.partition]) for p in new]:
                    _checked(consumer.commit(offsets=starts, asynchronous=False))
            self._assigned = (self._assigned or set()) | {p.partition for p in partitions}

        def taken(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            gone = {p.partition for p in partitions}
            self._assigned = (self._assigned or set()) - gone or None  # it gets others, or none, in a moment
            self._at_end -= gone
            for partition in gone:
                self._reached.pop(partition, None)

        self._consumer.subscribe([self._topic], on_assign=given, on_revoke=taken)

    def _assign(self, starts: dict[int, int]) -> None:
        self._assigned = set(starts)
        self._consumer.assign([TopicPartition(self._topic, p, offset) for p, offset in starts.items()])

    def _look_for_partitions(self) -> None:
        """Read added partitions from their first record on. In a group librdkafka does so."""
        if self._group is not None or not self._follow or time.monotonic() < self._looked_s + PARTITIONS_EVERY_S:
            return
        self._looked_s = time.monotonic()
        with suppress(KafkaException):  # while no broker answers
            there = self._consumer.list_topics(self._topic, POLL_S).topics[self._topic].partitions
            if added := there.keys() - (self._assigned or set()):
                self._consumer.incremental_assign([TopicPartition(self._topic, p, OFFSET_BEGINNING) for p in added])
                self._assigned = {*(self._assigned or ()), *added}

    def _taken(self, message: Message) -> Delivery | None:
        """The delivery of a message, if it is one of this subscriber."""
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                partition, _ = place_of(message)
                self._heard_s[partition] = time.monotonic()
                self._at_end.add(partition)
            elif not is_without_group(error) and error.code() != KafkaError._MAX_POLL_EXCEEDED:  # it joins again
                raise translate(error, f"{self._topic} cannot be read")
            return None
        partition, offset = place_of(message)
        self._heard_s[partition] = time.monotonic()
        self._at_end.discard(partition)
        self._reached[partition] = offset + 1
        if self._only_key is not None and message.key() != self._only_key:
            return None
        return Delivery.of(message)


def _checked(partitions: Sequence[TopicPartition] | None) -> Sequence[TopicPartition]:
    """Return the partitions of an answer. Raises the KafkaException of one."""
    if error := next((p.error for p in partitions or () if p.error is not None), None):
        raise KafkaException(error)
    return partitions or ()


def _failed(error: KafkaException | JobError, topic: str) -> JobError:
    """Return the error of a rebalance, after which these deliveries cannot be read any more."""
    cause = translate(error.args[0], f"{topic} cannot be read") if isinstance(error, KafkaException) else error
    failed = type(cause)(f"{cause}; open the deliveries again")
    failed.retry = False
    return failed
