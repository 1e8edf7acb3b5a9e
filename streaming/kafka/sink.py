"""Write a batch exactly once: its records and the source offsets in one Kafka transaction."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from streaming.documents.records import MAX_RECORD_BYTES, Record
from streaming.errors import BrokerUnreachable, ClaimFailed, Fenced, JobError
from streaming.kafka.committed import CommittedOffsets
from streaming.kafka.errors import is_passing, translate
from streaming.kafka.topics import CLIENT

if TYPE_CHECKING:
    from streaming.publishing.connection.client import Client

TIMEOUT_S = 60.0
CLAIMS = 3  # attempts
TAKEOVER_S = 5.0  # in which a process that has fenced another claims the offsets
UNTAKEN_S = 10.0  # after which records that were not taken may have lost their topic

# Of a record: another of the same topic may be taken, or not, but this one never.
REFUSALS = (
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.INVALID_RECORD,
    KafkaError.POLICY_VIOLATION,
)

# Errors that the producer raises for a topic without asking the broker.
UNKNOWN = (KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART)

# Errors of an abort after which another producer does it: when no partition could be added to a transaction, the broker
# knows of none to abort; and a record to a deleted topic can hold up the abort too.
GIVEN_UP = (KafkaError.INVALID_TXN_STATE, KafkaError._TIMED_OUT)

Offsets = Mapping[tuple[str, int], int]  # (topic, partition) -> offset of the first record not yet read
Notes = Mapping[tuple[str, int], str]  # metadata of such offsets


class Aborted(JobError):
    """The transaction was aborted and nothing of it is visible; a topic may have been deleted.

    Another try may succeed.
    """

    retry = True


class TransactionalSink:
    """The only writer of a query. Opening it prevents every older sink of that name from committing again.

    `publish` is called once per batch. If the process dies within, readers with isolation.level=read_committed see
    all of the batch or nothing, and `committed` tells which.

    The broker fences a producer if another of its name was opened, but also if it was suspended beyond the timeout of
    a transaction. The offsets' metadata names the process that committed them. A newly opened sink commits the current
    offsets again under its own name, so that an older process that resumes knows that it was replaced. Without an
    `owner`, a unique name, the sink stops in both cases.

    `partitions` are those whose offsets it will claim. With `again`, that owner has claimed them in an earlier process:
    if another has committed since, that process was replaced, and this one too, and nothing is opened. Raises JobError.

    `slots` is the number of slots that have ever published for the query. It is noted beside the owner, so that the
    next process fences them all.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        options: Mapping[str, str],
        name: str,
        *,
        owner: str = "",
        partitions: Sequence[tuple[str, int]] = (),
        again: bool = False,
    ) -> None:
        common = {**CLIENT, "bootstrap.servers": bootstrap_servers, **options}
        self._name = name
        self.owner = owner
        self.slots = 0
        self._config = {
            # `flush` sends at once what is there. Before it, a request for each few records would cost the broker
            # three times as much as all of them together.
            "linger.ms": 100,
            "batch.size": 1 << 20,
            "message.max.bytes": MAX_RECORD_BYTES,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 1 << 18,
            "compression.type": "lz4",
            "delivery.report.only.error": True,
            "topic.metadata.propagation.max.ms": 5_000,  # we make topics and wait for them: an unknown one was deleted
            # One event may have a million deliveries. When we die, the next one of our name does not wait for this.
            "transaction.timeout.ms": 300_000,
            **common,
            "transactional.id": name,
        }
        self._consumer = Consumer({**common, "group.id": name, "enable.auto.commit": False})
        self._offsets = CommittedOffsets(bootstrap_servers, options, name)
        self._last: dict[tuple[str, int], tuple[int, str]] = {}  # what we committed last, with its notes
        self._partitions: Sequence[tuple[str, int]] = ()  # where another may have committed
        self._refused = False  # in the transaction in hand: a record, by the broker
        self._asked = False  # in the transaction in hand: which topics there are
        self._began = 0.0  # the transaction in hand, epoch s
        try:
            # Tasks of that process may have left transactions open: who replaced it has committed all offsets before.
            noted = self._offsets.read(partitions, stable=False) if partitions else {}
            self._before = {_owner(note) for _, note in noted.values()}
            if again and not self._before <= {owner}:
                raise self._fenced()
            self._producer = self._opened()
        except BaseException:
            self.close()
            raise

    def committed(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The committed offsets, which it claims; partitions without one are left out. Raises Fenced if another job has
        taken over, or ClaimFailed."""
        self._partitions = partitions
        offsets = {at: offset for at, (offset, _) in self._committed_offsets(partitions).items()}
        if not self.owner:
            self._last = self._own(offsets)
        elif offsets:
            try:
                self.publish([], offsets)
            except Fenced as fenced:
                if {owner for _, owner in self._committed_offsets(partitions).values()} != self._before:
                    raise
                raise ClaimFailed(
                    f"while this job took over, an older one with query.name = {self._name!r} or the broker ended its "
                    "transaction; start it again"
                ) from fenced
        return offsets

    def notes(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], str]:
        """The metadata of the committed offsets; partitions without any are left out."""
        return {at: note for at, (_, note) in self._offsets.read(partitions).items() if note}

    @property
    def client(self) -> Client:
        """The connections by which it reads offsets, for who opens slots too. They are closed with it."""
        return self._offsets.client

    @property
    def note(self) -> str:
        """The metadata of all offsets that are committed for the query."""
        return f"{self.owner} {self.slots}" if self.slots else self.owner

    def slots_used(self, partitions: Sequence[tuple[str, int]]) -> int:
        """The number of slots that earlier processes noted. It does not wait for their transactions, which only end
        when these slots are opened; the number was committed before the first of them."""
        noted = self._offsets.read(partitions, stable=False).values()
        numbers = [note.partition(" ")[2] for _, note in noted]  # behind the owner
        return max((int(number) for number in numbers if number.isdigit()), default=0)

    def moved(self, offsets: Offsets) -> None:
        """Take note of offsets that slots have committed."""
        self._last |= self._own(offsets)

    def claim(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Commit our last offsets of these partitions again. Raises Fenced if another job has taken over."""
        offsets = {at: self._last[at][0] for at in partitions if at in self._last}
        for attempt in range(CLAIMS):
            try:
                self.publish([], offsets)
                return
            except Aborted:
                if attempt + 1 == CLAIMS:
                    raise

    def publish(
        self, records: Iterable[Record], offsets: Offsets, notes: Notes = MappingProxyType({})
    ) -> tuple[float, float]:
        """Commit the records together with the offsets; returns when sending and when committing ended (epoch s).

        Raises Aborted, Fenced, or another JobError; then nothing of it is visible.
        """
        positions = [TopicPartition(*at, offset, notes.get(at, self.note)) for at, offset in offsets.items()]
        self._refused = self._asked = False
        topics = set()
        sending = True
        self._began = time.time()
        try:
            self._producer.begin_transaction()
            with self._unveiled():
                for record in records:
                    topics.add(record.topic)
                    self._produce(record)
                self._flush(topics, offsets)
            sending = False
            sent = time.time()
            if positions:
                group = self._consumer.consumer_group_metadata()
                self._producer.send_offsets_to_transaction(positions, group, TIMEOUT_S)
            self._commit()
        except KafkaException as error:
            if _fences(error):
                if self._reopened(offsets, error):
                    return time.time(), time.time()
                raise Aborted("the broker gave it up, since it took longer than transaction.timeout.ms") from error
            if error.args[0].fatal() or not (sending or error.args[0].txn_requires_abort()):
                raise self._translated(error) from error
            self._abort(offsets)
            if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED and not self._refused:
                raise translate(error.args[0], "a topic cannot be written to") from error
            raise Aborted(error.args[0].str()) from error
        self._last |= self._own(offsets)
        return sent, time.time()

    def close(self) -> None:
        self._consumer.close()
        self._offsets.close()

    def _flush(self, topics: set[str], offsets: Offsets) -> None:
        """Send all records. A deleted topic can hold up all records of a transaction, and the producer does not say
        why."""
        if not self._producer.flush(UNTAKEN_S):
            return
        with suppress(KafkaException):  # of a broker that does not answer
            if gone := topics - self._consumer.list_topics(timeout=UNTAKEN_S).topics.keys():
                self._abort(offsets)
                raise Aborted(f"topic {min(gone)} does not exist any more")
        if left := self._producer.flush(TIMEOUT_S - UNTAKEN_S):
            raise BrokerUnreachable(f"{left:,} records were not taken within {TIMEOUT_S:.0f} s")

    def _opened(self) -> Producer:
        producer = Producer(self._config)
        try:
            producer.init_transactions(TIMEOUT_S)
        except KafkaException as error:
            raise self._translated(error) from error
        return producer

    def _produce(self, record: Record) -> None:
        while True:
            try:
                self._producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    record.partition,
                    headers=record.headers,  # type: ignore[arg-type]  # the stub asks for a list that may hold texts too
                    on_delivery=self._delivered,
                )
                return
            except BufferError:  # librdkafka's queue is full: let it send
                self._producer.poll(0.1)
            except KafkaException as error:
                if error.args[0].code() in UNKNOWN and not self._asked:
                    self._ask_for_topics()
                    continue
                if error.args[0].code() == KafkaError._FATAL:  # this call does not say why, all others do
                    self._producer.begin_transaction()
                self._look_at(error.args[0])
                raise

    def _ask_for_topics(self) -> None:
        """Refresh the producer's metadata: after a topic was deleted it refuses records itself until it hears of the
        new one, which has been created for this transaction."""
        self._asked = True
        with suppress(KafkaException):  # of a broker that does not answer: then the transaction is given up
            self._producer.list_topics(timeout=UNTAKEN_S)

    @contextmanager
    def _unveiled(self) -> Iterator[None]:
        """The fatal error of the client. confluent_kafka raises it before it calls `_delivered`, which Python then
        takes for a broken call. If it is lost on the way, the next call says it."""
        try:
            yield
        except SystemError as error:
            if error.__cause__ is not None:
                raise error.__cause__ from None
            self._producer.begin_transaction()
            raise

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._look_at(error)

    def _look_at(self, error: KafkaError) -> None:
        """Of a record."""
        self._refused |= error.code() in REFUSALS

    def _commit(self) -> None:
        """Commit, and repeat the request for as long as the broker calls its error retriable."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                self._producer.commit_transaction(TIMEOUT_S)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise

    def _abort(self, offsets: Offsets) -> None:
        try:
            self._producer.abort_transaction(TIMEOUT_S)
        except KafkaException as error:
            if not _fences(error) and error.args[0].code() not in GIVEN_UP:
                raise self._translated(error) from error
            self._reopened(offsets, error)

    def _reopened(self, tried: Offsets, error: KafkaException) -> bool:
        """Continue with a new producer, since the old one is unusable; returns whether the transaction was committed
        after all. Raises Fenced if another job has taken over.

        Who was fenced before the transaction could time out was fenced by another job, which may not have claimed the
        offsets yet. To open a producer at once would fence that one in turn.
        """
        if _fences(error) and not self.owner:
            raise self._fenced()
        before, after = self._last, {**self._last, **self._own(tried)}
        ended = time.monotonic() + (TAKEOVER_S if _fences(error) and not self._timed_out() else 0)
        opened = False
        while True:
            committed = self._committed_offsets({*self._partitions, *after})
            if self.slots:  # a slot of ours may have committed since, and its task died before it could say so
                moved = {at: now for at, now in committed.items() if at not in tried and now[1] == self.owner}
                before, after = before | moved, after | moved
            if committed not in (before, after):
                raise self._fenced()
            if opened:
                break
            if time.monotonic() < ended:
                time.sleep(0.1)
            else:  # another may take over just before this, so look once more
                self._producer, opened = self._opened(), True
        self._last = committed
        return committed == after != before

    def _timed_out(self) -> bool:
        return time.time() - self._began >= int(str(self._config["transaction.timeout.ms"])) / 1_000

    def _committed_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, str]]:
        """The owner of each committed offset, if its metadata names one."""
        committed = self._offsets.read(partitions)
        return {at: (offset, _owner(note) if self.owner else "") for at, (offset, note) in committed.items()}

    def _own(self, offsets: Offsets) -> dict[tuple[str, int], tuple[int, str]]:
        return {at: (offset, self.owner) for at, offset in offsets.items()}

    def _translated(self, error: KafkaException) -> JobError:
        cause: KafkaError = error.args[0]
        if _fences(error):
            return self._fenced()
        if is_passing(cause):
            return BrokerUnreachable(f"the broker does not answer: {cause.str()}")
        return JobError(f"Kafka refused the transaction of {self._name!r}: {cause.str()}")

    def _fenced(self) -> Fenced:
        return Fenced(
            f"another job with query.name = {self._name!r} has taken over, so this one stops; nothing was lost. "
            "Two jobs that are to run side by side need two names."
        )


def _owner(note: str) -> str:
    return note.partition(" ")[0]


def _fences(error: KafkaException) -> bool:
    return error.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
