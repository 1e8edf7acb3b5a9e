"""The data of a broker in memory: topics, transactions, committed offsets and producer epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from streaming.documents.records import Record
from streaming.kafka.topics import Topic
from streaming.publishing.ownership import is_starting

NODES = (0, 1)  # brokers
EMPTY, OPEN, DECIDED, COMMITTED, ABORTED = "empty", "open", "decided", "committed", "aborted"


@dataclass(eq=False)
class Transaction:
    """A transaction, whose records and offsets count once it is committed. `decided`: it will be, whatever happens to
    its producer."""

    producer: Any = None
    state: str = OPEN
    began: float | None = None  # when the first partition was added
    group: str = ""
    offsets: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)


@dataclass
class Id:
    """The coordinator's data on a `transactional.id`."""

    epoch: int = -1
    timeout_s: float = 60.0
    transaction: Transaction = field(default_factory=lambda: Transaction(state=COMMITTED))
    producer_id: int = 0
    last_epoch: int = -1  # before the producer asked for the next one; -1: another took over since
    added: set[str] = field(default_factory=set)  # topics and groups of the transaction, where requests add them


class Broker:
    """Also the clock of its clients: it goes on when they wait.

    `on_commit` is called with who began a transaction when its offsets count. With `late` the next commit is decided,
    but takes effect later.
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

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def sleep(self, s: float) -> None:
        """Complete what was decided; open transactions that are too old end with their producer's epoch."""
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
        """Return the committed offsets that count."""
        return {at: offset for at, (offset, note) in self.offsets.get(group, {}).items() if not is_starting(note)}

    def commit(self, one: Transaction) -> None:
        one.state = COMMITTED
        if one.offsets:
            self.offsets.setdefault(one.group, {}).update(one.offsets)
            self.on_commit(one.producer)

    def read(self) -> list[Record]:
        """Return the committed records in the order of each topic, those of deleted topics too."""
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
