"""The load during faults: the events and changes of `rig.load`, with rubbish among them, until told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from rig.generator import TICK_S, Writer
from rig.load import DOMAIN, Load
from streaming.kafka.clients import Cluster
from tests.faults.load.transactions import Transactions

BEYOND = 1_000_000  # the ids of the load
ALL = b'[{"numeric":[">=",0,"<",%d]}]' % DOMAIN
PATIENT = {"message.timeout.ms": "900000"}  # a broker may be away for long, and nothing may be given up


class Writing:
    """`with Writing(...) as writing` writes from then on; `finish` waits until the broker has it all. A burst is
    `factor` > 1. Event n goes to partition n % partitions, in order, so that the topic itself shows whether one is
    missing; `spread` says from which event on there are how many. The next events and changes have the timestamps of
    the two lists, one each. Another producer writes events in `transactions`. Where the events topic is `compacted`,
    each event has a key of its own.
    """

    def __init__(
        self,
        load: Load,
        cluster: Cluster,
        events_topic: str,
        partitions: int,
        subscriptions_topic: str,
        compacted: bool = False,
    ) -> None:
        self._load = load
        self._events_topic = events_topic
        self.spread = [(0, partitions)]
        self._subscriptions_topic = subscriptions_topic
        self._writer = Writer(Cluster(cluster.bootstrap_servers, {**cluster.options, **PATIENT}))
        self._end = threading.Event()
        self._turn = threading.Lock()  # the writer's order is that of the calls
        self._failure: BaseException | None = None
        self.transactions = Transactions(load, cluster, events_topic, lambda: self.spread[-1][1], compacted)
        self._compacted = compacted
        self._rubbish = 0
        self.factor = 1.0
        self.event_timestamps_ms: list[int] = []
        self.change_timestamps_ms: list[int] = []
        self._paused = False  # the changes are
        self._written = 0  # events
        self.events = self.changes = 0
        self.longest_pause_s = 0.0

    def first(self) -> None:
        """The subscriptions that are there before the job is."""
        self._writer.write_all(self._subscriptions_topic, self._load.first())

    def __enter__(self) -> Writing:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.transactions.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.transactions.__exit__()
        self._end.set()
        self._thread.join()

    def finish(self) -> None:
        """The last record of each partition is none of a transaction: committed offsets stay before its end."""
        self.transactions.finish()
        last = self._written + 2 * self.spread[-1][1]
        while self._written < last and self._thread.is_alive():
            time.sleep(TICK_S)
        self.__exit__()
        if self._failure is not None:
            raise self._failure
        self._writer.finish()

    def rubbish(self, records: Iterable[tuple[bytes | None, bytes | None, bool]]) -> None:
        """(key, value, whether it goes to the events topic), among the others."""
        for number, (key, value, is_event) in enumerate(records):
            with self._turn:
                if is_event:
                    if self._compacted:
                        self._rubbish += 1
                        key = b"rubbish%d" % self._rubbish
                    self._writer.write(self._events_topic, key, value, number % self.spread[-1][1])
                else:
                    self._writer.write(self._subscriptions_topic, key, value)

    def subscribe(self, subscribers: Iterable[int]) -> None:
        """Each to all events of a symbol."""
        self._change(
            (
                number,
                b'{"id":"s%d","subscriber":"r%d","pattern":{"symbol":["S%d"],"price":%b,"volume":%b}}'
                % (BEYOND + number, number, number % self._load.symbols, ALL, ALL),
            )
            for number in subscribers
        )

    def unsubscribe(self, subscribers: Iterable[int]) -> None:
        """Unsubscribe all subscriptions of these subscribers."""
        self._change((number, None) for number in subscribers)

    def _change(self, changes: Iterable[tuple[int, bytes | None]]) -> None:
        with self._turn:
            records = ((b"s%d" % (BEYOND + number), document) for number, document in changes)
            self._writer.write_all(self._subscriptions_topic, records)

    @contextmanager
    def changes_held(self) -> Iterator[None]:
        """No change is written meanwhile."""
        with self._turn:
            self._paused = True
        try:
            yield
        finally:
            with self._turn:
                self._paused = False

    def added(self) -> None:
        """Write to the partition that was added to both topics, too."""
        partitions = self.spread[-1][1] + 1
        for topic in (self._events_topic, self._subscriptions_topic):
            while self._writer.partitions(topic) < partitions:
                time.sleep(TICK_S)
        with self._turn:
            self.spread.append((self._written, partitions))

    def _run(self) -> None:
        try:
            self._write()
        except BaseException as error:
            self._failure = error

    def _write(self) -> None:
        load, events, changes = self._load, enumerate(self._load.events()), self._load.changes()
        before = time.monotonic()
        due = due_changes = 0.0
        while not self._end.is_set():
            now = time.monotonic()
            passed, before = now - before, now
            self.longest_pause_s = max(self.longest_pause_s, passed)
            due += passed * load.events_per_second * self.factor
            due_changes += passed * load.changes_per_second * self.factor
            with self._turn:
                if self._paused:
                    due_changes = float(self.changes)
                self._take(events, int(due) - self.events, changes, int(due_changes) - self.changes)
                self.events, self.changes = int(due), int(due_changes)
            time.sleep(max(0.0, TICK_S - (time.monotonic() - now)))

    def _take(self, events: Any, n: int, changes: Any, m: int) -> None:
        for number, event in islice(events, n):
            key = b"%d" % number if self._compacted else None
            self._writer.write(self._events_topic, key, event, number % self.spread[-1][1], self._timestamp(True))
            self._written = number + 1
        for id, document in islice(changes, m):
            self._writer.write(self._subscriptions_topic, id, document, timestamp_ms=self._timestamp(False))
        self._writer.poll()

    def _timestamp(self, is_event: bool) -> int:
        left = self.event_timestamps_ms if is_event else self.change_timestamps_ms
        return left.pop(0) if left else 0
