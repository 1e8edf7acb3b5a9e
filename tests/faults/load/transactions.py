"""Write events in transactions, some of which are aborted, until told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import Any

from confluent_kafka import KafkaException, Producer

from rig.load import Load
from streaming.kafka.clients import Cluster

OF_TRANSACTION = b"t"  # begins the keys of these events; behind it comes the number
FILLER = b"filler"  # the key of events that supersede each other, where their topic is compacted
FILLER_EVENT = b'{"symbol":"none"}'
NAME = "faults-events"
SEED = 7  # of the events, which are not those of the load
MOST_EVENTS = 10  # of a transaction
ABORTED = 1 / 3  # of all
PAUSE_S = 0.2  # at most, within a transaction and between two
REQUEST_S = 10.0
TIMEOUT_MS = 10_000  # of a transaction: readers wait behind one that is open


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of ended transactions. Some are unknown: the broker fenced them during their commit."""

    committed: frozenset[int]  # numbers of events
    aborted: frozenset[int]


class Transactions:
    """`with Transactions(...)` writes to a topic from then on. `partitions` is how many it has now; event n has the key
    b"t<n>"."""

    def __init__(
        self, load: Load, cluster: Cluster, topic: str, partitions: Callable[[], int], compacted: bool
    ) -> None:
        self._events = replace(load, seed=SEED).events()
        self._config = cluster.client(
            transactional_id=NAME, transaction_timeout_ms=TIMEOUT_MS, compression_type="lz4", linger_ms=5
        )
        self._topic = topic
        self._partitions = partitions
        self._compacted = compacted
        self._random = Random(SEED)
        self._end = threading.Event()
        self._turn = threading.Lock()
        self._committed: set[int] = set()
        self._aborted: set[int] = set()
        self._next = 0
        self._failure: BaseException | None = None
        self.transactions = {"committed": 0, "aborted": 0, "unknown": 0}

    def __enter__(self) -> Transactions:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def finish(self) -> None:
        self.__exit__()
        if self._failure is not None:
            raise self._failure

    def outcomes(self) -> Outcomes:
        with self._turn:
            return Outcomes(frozenset(self._committed), frozenset(self._aborted))

    def _run(self) -> None:
        try:
            while not self._end.is_set():
                with suppress(KafkaException):  # fenced, or the broker is away: with a new producer
                    self._with_a_producer()
        except BaseException as error:
            self._failure = error

    def _with_a_producer(self) -> None:
        """Raises KafkaException, after which the producer is unusable."""
        producer = Producer(self._config)
        self._patiently(lambda: producer.init_transactions(REQUEST_S))
        while not self._end.wait(self._random.uniform(0.0, PAUSE_S)):
            first, self._next = self._next, self._next + self._random.randint(1, MOST_EVENTS)
            self._transaction(producer, range(first, self._next))

    def _transaction(self, producer: Producer, numbers: range) -> None:
        outcome = "unknown"
        try:
            producer.begin_transaction()
            try:
                self._produce(producer, numbers)
                time.sleep(self._random.uniform(0.0, PAUSE_S))
                if self._random.random() < ABORTED:
                    self._patiently(lambda: producer.abort_transaction(REQUEST_S))
                    outcome = "aborted"
                else:
                    self._patiently(lambda: producer.commit_transaction(REQUEST_S))
                    outcome = "committed"
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                self._patiently(lambda: producer.abort_transaction(REQUEST_S))
                outcome = "aborted"
        finally:
            self.transactions[outcome] += 1
            with self._turn:
                if outcome == "committed":
                    self._committed.update(numbers)
                if outcome == "aborted":
                    self._aborted.update(numbers)

    def _produce(self, producer: Producer, numbers: range) -> None:
        partitions = self._partitions()
        for number, event in zip(numbers, islice(self._events, len(numbers)), strict=True):
            producer.produce(self._topic, event, OF_TRANSACTION + b"%d" % number, number % partitions)
            if self._compacted:
                producer.produce(self._topic, FILLER_EVENT, FILLER, number % partitions)
        producer.flush(REQUEST_S)  # so that what is aborted lies in the log

    def _patiently(self, call: Callable[[], Any]) -> None:
        """Raises KafkaException if another try does not help."""
        while True:
            try:
                call()
                return
            except KafkaException as error:
                if not error.args[0].retriable() or self._end.is_set():
                    raise
