"""A broker in memory: topics, transactions and producer epochs, as far as the sink uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from streaming.documents.records import Record
from streaming.errors import BrokerUnreachable
from streaming.kafka import sink
from streaming.kafka.topics import Topic

EMPTY, OPEN, DECIDED, COMMITTED, ABORTED = "empty", "open", "decided", "committed", "aborted"


@dataclass(eq=False)
class Transaction:
    """Its records and offsets count once it is committed. Decided: it will be, whatever happens to its producer."""

    producer: Any = None
    state: str = OPEN
    began: float | None = None  # when the first partition was added
    group: str = ""
    offsets: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)


@dataclass
class Id:
    """What the coordinator knows of a `transactional.id`."""

    epoch: int = -1
    timeout_s: float = 60.0
    transaction: Transaction = field(default_factory=lambda: Transaction(state=COMMITTED))
    # Of slots (tests/support/doubles/brokers.py):
    producer_id: int = 0
    last_epoch: int = -1  # before the producer asked for the next one; -1: another took over since
    added: set[str] = field(default_factory=set)  # topics and groups of the transaction, where requests add them


class Broker:
    """Also the clock of its clients: it goes on when they wait.

    `on_commit` is called with the producer when the offsets of its transaction count. With `late` the
    next commit is decided, but takes effect later.
    """

    forgets = False

    def __init__(self) -> None:
        self.logs: dict[str, list[tuple[Transaction, Record]]] = {}
        self.deleted: list[tuple[Transaction, Record]] = []
        self.ids: dict[str, Id] = {}
        self.offsets: dict[str, dict[tuple[str, int], tuple[int, str]]] = {}
        self.now = 0.0
        self.late = False
        self.on_commit: Callable[[Any], None] = lambda producer: None

    def install(self, patch: pytest.MonkeyPatch, wrapped: Callable[[Any], Any]) -> None:
        """`wrapped` makes what the sink gets of each producer."""
        patch.setattr(sink, "Producer", lambda config: wrapped(Producer(self, config)))
        patch.setattr(sink, "Consumer", partial(GroupConsumer, self))
        patch.setattr(sink, "CommittedOffsets", partial(CommittedOffsets, self))
        patch.setattr(sink, "time", self)

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def sleep(self, s: float) -> None:
        """What was decided happens, and open transactions that are too old end with their producer's epoch."""
        self.now += s
        for known in self.ids.values():
            one = known.transaction
            if one.state == DECIDED:
                self.commit(one)
            if one.state == OPEN and one.began is not None and self.now - one.began > known.timeout_s:
                one.state = ABORTED
                known.epoch += 1

    def expire(self) -> None:
        """Longer than any transaction may take."""
        self.sleep(1.0 + max((known.timeout_s for known in self.ids.values()), default=0.0))

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        return {at: offset for at, (offset, _) in self.offsets.get(group, {}).items()}

    def commit(self, one: Transaction) -> None:
        one.state = COMMITTED
        if one.offsets:
            self.offsets.setdefault(one.group, {}).update(one.offsets)
            self.on_commit(one.producer)

    def read(self) -> list[Record]:
        """What is committed, in the order of each topic; what was deleted with a topic too."""
        logs = [self.deleted, *self.logs.values()]
        return [record for log in logs for transaction, record in log if transaction.state == COMMITTED]

    def partitions(self) -> dict[str, int]:
        return dict.fromkeys(self.logs, 1)

    def create(self, topics: Iterable[Topic]) -> dict[str, str]:
        for topic in topics:
            self.logs.setdefault(topic.name, [])
        return {}

    def delete(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self.deleted += self.logs.pop(topic, [])


class Producer:
    """Like that of confluent_kafka: `produce` returns at once, and what became of it shows later."""

    def __init__(self, broker: Broker, config: Mapping[str, Any]) -> None:
        self._broker = broker
        self._id = broker.ids.setdefault(config["transactional.id"], Id())
        self._id.timeout_s = config["transaction.timeout.ms"] / 1000
        self._epoch = -1
        self._fatal: KafkaError | None = None
        self._transaction = Transaction(state=COMMITTED)
        self._waiting: list[Record] = []
        self._lost = False  # a record
        self._unknown: set[str] = set()  # topics that the broker did not have, until it is asked again

    def init_transactions(self, timeout: float) -> None:
        before = self._id.transaction
        if before.state == DECIDED:
            self._broker.commit(before)
        elif before.state == OPEN:
            before.state = ABORTED
        self._id.epoch += 1
        self._epoch = self._id.epoch

    def begin_transaction(self) -> None:
        self._usable()
        if self._transaction.state == OPEN:
            _fail(KafkaError._STATE, "a transaction is open")
        self._transaction, self._lost, self._waiting = Transaction(self), False, []

    def produce(self, topic: str, value: Any, key: Any, partition: int, headers: Any, on_delivery: Any) -> None:
        try:
            self._send()  # those before it
        except KafkaException:
            _fail(KafkaError._FATAL, "Unable to produce message")  # it does not tell why
        if topic in self._unknown:
            _fail(KafkaError._UNKNOWN_TOPIC, "Unable to produce message: Local: Unknown topic")
        self._waiting.append(Record(topic, key, value, headers))

    def list_topics(self, timeout: float) -> None:
        self._unknown -= self._broker.logs.keys()

    def poll(self, timeout: float) -> int:
        return 0

    def flush(self, timeout: float) -> int:
        self._send()
        return 0

    def send_offsets_to_transaction(self, offsets: Sequence[TopicPartition], group: str, timeout: float) -> None:
        self._send()
        self._add()
        self._transaction.group = group
        self._transaction.offsets |= {(tp.topic, tp.partition): (tp.offset, tp.metadata or "") for tp in offsets}

    def commit_transaction(self, timeout: float) -> None:
        self._send()
        if self._lost:
            _fail(KafkaError._INCONSISTENT, "1 message(s) failed delivery", txn_requires_abort=True)
        if self._transaction.state == DECIDED:
            self._broker.sleep(timeout)
        if self._transaction.state == COMMITTED:
            return
        if self._transaction.began is not None:
            self._current()
        if self._broker.late:
            self._broker.late, self._transaction.state = False, DECIDED
            _fail(KafkaError._TIMED_OUT, "no answer yet", retriable=True)
        self._broker.commit(self._transaction)

    def abort_transaction(self, timeout: float) -> None:
        self._usable()
        self._waiting = []
        if self._transaction.began is None:
            self._transaction.state = ABORTED
            _fail(KafkaError.INVALID_TXN_STATE, "there is no transaction", fatal=True)
        self._current()
        self._transaction.state = ABORTED

    def _usable(self) -> None:
        if self._fatal is not None:
            raise KafkaException(self._fatal)

    def _current(self) -> None:
        """What the broker says to whoever has not the newest epoch."""
        self._usable()
        if self._epoch != self._id.epoch:
            self._fatal = KafkaError(KafkaError._FENCED, "fenced by a newer instance", fatal=True)
            raise KafkaException(self._fatal)

    def _add(self) -> None:
        self._current()
        if self._transaction.began is None:
            self._transaction.began = self._broker.now
            self._id.transaction = self._transaction

    def _send(self) -> None:
        self._usable()
        while self._waiting:
            record = self._waiting.pop(0)
            if record.topic in self._broker.logs:
                self._add()
                self._broker.logs[record.topic].append((self._transaction, record))
            else:
                self._lost = True
                self._unknown.add(record.topic)


class GroupConsumer:
    """Only what names its group."""

    def __init__(self, broker: Broker, config: Mapping[str, Any]) -> None:
        self._group = config["group.id"]

    def consumer_group_metadata(self) -> str:
        return str(self._group)

    def close(self) -> None:
        pass


class CommittedOffsets:
    """It waits for transactions that have not ended, as long as it may."""

    def __init__(self, broker: Broker, bootstrap_servers: str, options: Mapping[str, str], group: str) -> None:
        self._broker, self._group = broker, group

    def read(
        self, partitions: Iterable[tuple[str, int]], *, stable: bool = True
    ) -> dict[tuple[str, int], tuple[int, str]]:
        asked = set(partitions)
        deadline = self._broker.now + 60.0
        while stable and self._unstable(asked):
            if self._broker.now > deadline:
                raise BrokerUnreachable("UNSTABLE_OFFSET_COMMIT")
            self._broker.sleep(1.0)
        there = self._broker.offsets.get(self._group, {})
        return {at: there[at] for at in sorted(asked) if at in there}

    def close(self) -> None:
        pass

    def _unstable(self, asked: set[tuple[str, int]]) -> bool:
        pending = (known.transaction for known in self._broker.ids.values())
        return any(one.state in (OPEN, DECIDED) and asked & one.offsets.keys() for one in pending)


def _fail(code: int, reason: str, **about: bool) -> NoReturn:
    raise KafkaException(KafkaError(code, reason, **about))
