"""List, create and count topics."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, OffsetSpec, TopicDescription

from streaming import secret_files
from streaming.errors import BrokerUnreachable, Forbidden, JobError, TopicMissing
from streaming.kafka import login
from streaming.kafka.errors import AuthErrorListener, is_passing, translate

TIMEOUT_S = 30.0
KEEP_TRYING_S = 30.0  # to create a topic
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 1.0  # between tries

# Of every client of ours, under librdkafka's names.
CLIENT = {
    "log_level": 0,
    # Its own way when no broker is left, to begin anew with the first addresses ("rebootstrap"), has left producers
    # waiting for ever for a broker that was away for a moment.
    "metadata.recovery.strategy": "none",
    "reconnect.backoff.max.ms": 1_000,
    # A client that has seen a partition without a leader, as while a single broker does not answer its controller,
    # finds the new leader with its next metadata: by default 5 minutes later.
    "topic.metadata.refresh.interval.ms": 5_000,
    # Admin clients and producers would have brokers create again each topic that they ask for.
    "allow.auto.create.topics": False,
}
# Options that users cannot change: others would lose or repeat records, or never come to an end.
FIXED = {
    "bootstrap.servers",
    "metadata.broker.list",
    "group.id",
    "enable.auto.commit",
    "auto.offset.reset",
    "isolation.level",
    "enable.partition.eof",
    "enable.idempotence",
}
# So does an admin client that has lost the controller.
ADMIN_CLIENT = {"topic.metadata.refresh.interval.ms": 2_000}
WAITS_S = (0.5, 1.0, 3.0, 6.0)  # for an answer; between them we hear why there is none
MAX_PER_REQUEST = 1_000

Rights = frozenset[str]  # Kafka's names of operations: READ, WRITE, ...
NEEDED = ("READ", "WRITE")


def answer_of(future: Future[Any], timeout_s: float) -> Any:
    """The result, or its error anew. An error that the future itself raises holds the caller's frames, which hold the
    future: in this cycle an admin client, and its threads, would live on until Python looks for cycles. Raises
    KafkaException and TimeoutError."""
    if isinstance(error := future.exception(timeout_s), KafkaException):
        raise KafkaException(*error.args)
    return future.result()


def rights_of(operations: Iterable[AclOperation]) -> Rights:
    return Rights(operation.name for operation in operations)


@dataclass(frozen=True)
class Topic:
    """A topic to be made; `config` under Kafka's own names."""

    name: str
    partitions: int = 1
    replication_factor: int = 1
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Answering(AbstractContextManager[None]):
    """Translates the errors of a request to the brokers at this address: that they do not answer in time and, if it is
    told `what` the request does, all others. Raises JobError.

    `contextmanager` would be shorter, but in Python 3.13 the frame of its generator and the error hold each other, and
    with them an admin client and its threads (`answer_of`)."""

    address: str
    what: str | None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, TimeoutError):
            raise BrokerUnreachable(f"the broker at {self.address} does not answer") from None
        if self.what is not None and isinstance(error, KafkaException):
            raise translate(error.args[0], f"cannot {self.what} at {self.address}") from error


def given(options: Mapping[str, str]) -> dict[str, str]:
    """The options of `kafka.client` that have an effect, with the contents of secret files."""
    return {name: value for name, value in secret_files.read("kafka.client", options).items() if name not in FIXED}


class Topics:
    def __init__(self, bootstrap_servers: str, options: Mapping[str, str]) -> None:
        self._address = bootstrap_servers
        self._options = options
        self._most_brokers = 0  # that were there at once
        self._auth_errors = AuthErrorListener()
        config = self._config(**ADMIN_CLIENT, error_cb=self._auth_errors)
        try:
            self._admin = AdminClient(config)
        except KafkaException as error:
            raise JobError(f"kafka.client cannot be used: {error.args[0].str()}") from None

    def _config(self, **options: Any) -> dict[str, Any]:
        """Raises JobError."""
        return {**CLIENT, **given(self._options), "bootstrap.servers": self._address, **options}

    def partitions(self) -> dict[str, int]:
        """The number of partitions of each visible topic. Raises BrokerUnreachable and Unauthenticated."""
        renewed = login.renew(self._admin, self._options)
        for wait_s in WAITS_S:
            try:
                metadata = self._admin.list_topics(timeout=wait_s)
            except KafkaException as error:
                why = error.args[0].str()
                self._admin.poll(0)
                if renewed and wait_s == WAITS_S[0]:
                    self._auth_errors.forget()  # it may be that of a login before the files changed
                self._auth_errors.check(self._address)
            else:
                self._most_brokers = max(self._most_brokers, len(metadata.brokers))
                return {name: len(topic.partitions) for name, topic in metadata.topics.items()}
        protocol = self._options.get("security.protocol", "plaintext")
        raise BrokerUnreachable(
            f"cannot reach a broker at {self._address}: {why}. Check that the broker runs, and that its listener "
            f"matches security.protocol = {protocol!r} in kafka.client"
        )

    def required(self, names: Iterable[str], advice: str = "") -> dict[str, int]:
        """The number of partitions of these topics. Raises TopicMissing, Forbidden, and the errors of `partitions`."""
        there = self.partitions()
        if missing := [name for name in names if name not in there]:
            self._check_rights(missing)
            raise TopicMissing(f"no topic {', '.join(missing)} at {self._address}{advice and '; '}{advice}")
        return {name: there[name] for name in names}

    def _check_rights(self, names: Iterable[str]) -> None:
        """Raise the broker's reason: a list of all topics leaves out hidden ones, a request by name gets the reason."""
        for name, future in self._admin.describe_topics(
            TopicCollection(list(names)), request_timeout=TIMEOUT_S
        ).items():
            try:
                with self._answering():
                    answer_of(future, 2 * TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise translate(error.args[0], f"the topic {name} cannot be used") from None

    def check_group(self, name: str) -> None:
        """Raises Forbidden and BrokerUnreachable. librdkafka itself would wait for an answer about a group that the
        user may not see."""
        try:
            with self._answering():
                answer_of(self._admin.describe_consumer_groups([name], request_timeout=TIMEOUT_S)[name], 2 * TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                raise translate(error.args[0], f"the group {name} cannot be used") from None

    def check_readable_and_writable(self, name: str) -> None:
        """Raises Forbidden. A list of topics does not show it: either permission puts a topic on the list."""
        allowed = self.rights([name]).get(name, NEEDED)
        for right in NEEDED:
            if right not in allowed:
                rejected = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
                raise translate(
                    rejected, f"the topic {name} cannot be used (the permission {right.lower()!r} is missing)"
                )

    def rights(self, names: Collection[str]) -> dict[str, Rights]:
        """The user's operations on these topics. A topic that the user may not see has none; missing topics, and all
        of a broker that does not list them, are left out. Raises JobError."""
        rights: dict[str, Rights] = {}
        with self._answering("list the permissions"):
            described = self._admin.describe_topics(
                TopicCollection(list(names)), include_authorized_operations=True, request_timeout=TIMEOUT_S
            )
            for name, future in described.items() if names else ():
                try:
                    operations = answer_of(future, 2 * TIMEOUT_S).authorized_operations
                except KafkaException as error:
                    if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                        rights[name] = Rights()
                    elif error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
                else:
                    if operations is not None:
                        rights[name] = rights_of(operations)
        return rights

    def create(self, topics: Iterable[Topic]) -> dict[str, str]:
        """Create the missing topics, and wait until the broker shows them; returns the reason for each that it will not
        create.

        A creation that fails with a passing error is repeated for KEEP_TRYING_S. Raises BrokerUnreachable."""
        topics = list(topics)
        rejected: dict[str, str] = {}
        wanted = {topic.name: topic for topic in topics}
        deadline = time.monotonic() + KEEP_TRYING_S
        pause_s = SHORTEST_PAUSE_S
        while wanted:
            failed = self._created(wanted.values())
            passing = {name for name, error in failed.items() if self._may_create_later(wanted[name], error)}
            rejected |= {name: error.str() for name, error in failed.items() if name not in passing}
            wanted = {name: wanted[name] for name in failed if name in passing}
            if wanted and time.monotonic() > deadline:
                name = min(wanted)
                raise BrokerUnreachable(f"the topic {name} cannot be created: {failed[name].str()}")
            if wanted:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        self._await({topic.name for topic in topics} - rejected.keys(), deadline)
        return rejected

    def _await(self, names: Collection[str], deadline: float) -> None:
        """Wait until the broker shows these topics: the controller says that they are made a moment before. Where the
        user may not see them, there is nothing to wait for."""
        pause_s = SHORTEST_PAUSE_S
        with suppress(Forbidden):
            while len(self.counts(names)) < len(names) and time.monotonic() < deadline:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _created(self, topics: Iterable[Topic]) -> dict[str, KafkaError]:
        """The errors of topics that the broker did not create, after one try."""
        failed: dict[str, KafkaError] = {}
        wanted = [NewTopic(t.name, t.partitions, t.replication_factor, config=dict(t.config)) for t in topics]
        for begin in range(0, len(wanted), MAX_PER_REQUEST):
            some = wanted[begin : begin + MAX_PER_REQUEST]
            for name, future in self._admin.create_topics(some, operation_timeout=TIMEOUT_S).items():
                try:
                    with self._answering():
                        answer_of(future, 2 * TIMEOUT_S)
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        failed[name] = error.args[0]
        return failed

    def _may_create_later(self, topic: Topic, error: KafkaError) -> bool:
        """Whether an error of a creation passes. Kafka has one code for a factor beyond the number of brokers, and for
        brokers that are fenced, as all are for a moment after a standstill. So the most brokers that were there at once
        tell."""
        if error.code() != KafkaError.INVALID_REPLICATION_FACTOR:
            return is_passing(error)
        if not self._most_brokers:
            self.partitions()
        return topic.replication_factor <= self._most_brokers

    def rejected_config(self, topic: Topic) -> str:
        """The broker's reason to reject the settings of a topic, which is not created; "" if it takes them, or rejects
        the topic for another reason. Raises BrokerUnreachable."""
        asked = NewTopic(topic.name, topic.partitions, topic.replication_factor, config=dict(topic.config))
        try:
            with self._answering():
                futures = self._admin.create_topics([asked], validate_only=True, request_timeout=TIMEOUT_S)
                answer_of(futures[topic.name], 2 * TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.INVALID_CONFIG:
                return str(error.args[0].str())
        return ""

    def delete(self, topics: Iterable[str]) -> None:
        with self._answering("delete topics"):
            for future in self._admin.delete_topics(list(topics), operation_timeout=TIMEOUT_S).values():
                answer_of(future, 2 * TIMEOUT_S)

    def ends(self, names: Iterable[str], timeout_s: float) -> dict[tuple[str, int], int]:
        """The offsets at which reading would end now, by topic and partition: before the first open transaction.
        Raises JobError."""
        with self._answering("read end offsets"):
            there = {name: self._admin.list_topics(name, timeout_s).topics[name].partitions for name in names}
        latest = {TopicPartition(name, p): OffsetSpec.latest() for name, ps in there.items() for p in ps}
        return self._offsets("read end offsets", latest, timeout_s, IsolationLevel.READ_COMMITTED)

    def firsts(self, partitions: Iterable[tuple[str, int]], timeout_s: float) -> dict[tuple[str, int], int]:
        """The first offset there is, by topic and partition. Raises JobError."""
        earliest = {TopicPartition(*at): OffsetSpec.earliest() for at in partitions}
        return self._offsets("read first offsets", earliest, timeout_s, IsolationLevel.READ_UNCOMMITTED)

    def _offsets(
        self, what: str, wanted: dict[TopicPartition, OffsetSpec], timeout_s: float, isolation: IsolationLevel
    ) -> dict[tuple[str, int], int]:
        """A request that fails with a passing error is repeated for timeout_s: a partition of a new topic has no leader
        for a moment."""
        deadline = time.monotonic() + timeout_s
        pause_s = SHORTEST_PAUSE_S
        while True:
            try:
                with self._answering(what):
                    futures = self._admin.list_offsets(wanted, isolation_level=isolation, request_timeout=timeout_s)
                    return {(at.topic, at.partition): answer_of(f, 2 * timeout_s).offset for at, f in futures.items()}
            except BrokerUnreachable:
                if time.monotonic() + pause_s > deadline:
                    raise
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def counts(self, names: Iterable[str]) -> dict[str, int]:
        """The number of partitions of these topics, without a list of all; missing ones are left out. Raises
        JobError."""
        return {name: len(topic.partitions) for name, topic in self._described(names, TIMEOUT_S)}

    def ids(self, names: Iterable[str], timeout_s: float) -> dict[str, str]:
        """The ids that distinguish topics of the same name; missing topics are left out. Raises JobError."""
        return {name: str(topic.topic_id) for name, topic in self._described(names, timeout_s)}

    def id(self, name: str, timeout_s: float = TIMEOUT_S) -> str:
        """The id that distinguishes a topic of the job from others of its name. Raises TopicMissing or another
        JobError."""
        try:
            return self.ids([name], timeout_s)[name]
        except KeyError:
            raise TopicMissing(
                f"no topic {name} at {self._address}; `run_stream.py topics create` creates the topics of the job"
            ) from None

    def _described(self, names: Iterable[str], timeout_s: float) -> Iterator[tuple[str, TopicDescription]]:
        with self._answering("list the topics"):
            described = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=timeout_s)
            for name, future in described.items():
                try:
                    yield name, answer_of(future, 2 * timeout_s)
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise

    def _answering(self, what: str | None = None) -> _Answering:
        login.renew(self._admin, self._options)
        return _Answering(self._address, what)

    def offsets(self, topic: str) -> list[tuple[int, int, int]]:
        """(partition, first offset, next offset) of a topic. Raises TopicMissing or another JobError."""
        return self.bounds([topic])[topic]

    def bounds(self, names: Collection[str]) -> dict[str, list[tuple[int, int, int]]]:
        """The `offsets` of several topics, by one consumer."""
        consumer = Consumer(self._config(**{"group.id": "unused", "enable.auto.commit": False}))
        try:
            counts = self.counts(names)
            if missing := [name for name in names if name not in counts]:
                raise TopicMissing(f"no topic {', '.join(missing)} at {self._address}")
            with self._answering("read first and end offsets"):
                return {
                    name: [
                        (partition, *consumer.get_watermark_offsets(TopicPartition(name, partition), TIMEOUT_S))
                        for partition in range(counts[name])
                    ]
                    for name in names
                }
        finally:
            consumer.close()
