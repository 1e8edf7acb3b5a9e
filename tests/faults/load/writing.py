"""The load during faults: the events and changes of `rig.load`, with rubbish among them, until told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from rig.generator import TICK_S, Writer
from rig.load import DOMAIN, Load
from streaming.kafka.clients import Cluster
from tests.faults.checking.sources import Partitions
from tests.faults.load.transactions import Transactions

BEYOND = 1_000_000  # the ids of the load
ALL = b'[{"numeric":[">=",0,"<",%d]}]' % DOMAIN
PATIENT = {"message.timeout.ms": "900000"}  # a broker may be away for long, and nothing may be given up


class Writing:
    """`with Writing(...) as writing` writes from then on; `finish` waits until the broker has it all. A burst is
    `factor` > 1. Event n goes to partition n % partitions of all topics, in order, so that the topics themselves show
    whether one is missing; `spread` says from which event on there are how many. `changes` has the load of each topic
    of subscriptions; they take turns, and the rates are those of `load`. The next events and changes have the
    timestamps of the two lists, one each. Another producer writes events in `transactions` to the first topic. Where
    that is `compacted`, each event has a key of its own.
    """

    def __init__(
        self,
        load: Load,
        cluster: Cluster,
        events: Sequence[str],
        partitions: int,
        changes: Mapping[str, Load],
        compacted: bool = False,
    ) -> None:
        self._load = load
        self._events = Partitions(events, partitions)
        self.spread = [(0, len(self._events))]
        self._changes = changes
        self._writer = Writer(Cluster(cluster.bootstrap_servers, {**cluster.options, **PATIENT}))
        self._end = threading.Event()
        self._turn = threading.Lock()  # the writer's order is that of the calls
        self._failure: BaseException | None = None
        self.transactions = Transactions(load, cluster, events[0], lambda: len(self._events) // len(events), compacted)
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
        for topic, load in self._changes.items():
            self._writer.write_all(topic, load.first())

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
        """(key, value, whether it goes to a topic of events), among the others."""
        places, topics = self._events.places, [*self._changes]
        for number, (key, value, is_event) in enumerate(records):
            with self._turn:
                if is_event:
                    if self._compacted:
                        self._rubbish += 1
                        key = b"rubbish%d" % self._rubbish
                    topic, partition = places[number % len(places)]
                    self._writer.write(topic, key, value, partition)
                else:
                    self._writer.write(topics[number % len(topics)], key, value)

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
            self._writer.write_all(next(iter(self._changes)), records)

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

    def is_taken(self) -> bool:
        """Return whether the broker has all records but those of the last second. Raises what has ended the load."""
        if self._failure is not None:
            raise self._failure
        return self._writer.waiting() <= self._load.events_per_second * self.factor

    def added(self) -> None:
        """Write to the partition that was added to each topic, too."""
        partitions = len(self._events) // len(self._events.topics) + 1
        for topic in (*self._events.topics, *self._changes):
            while self._writer.partitions(topic) < partitions:
                time.sleep(TICK_S)
        with self._turn:
            self._events.add()
            self.spread.append((self._written, len(self._events)))

    def _run(self) -> None:
        try:
            self._write()
        except BaseException as error:
            self._failure = error

    def _write(self) -> None:
        load, events, changes = self._load, enumerate(self._load.events()), self._next_changes()
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
        places = self._events.places
        for number, event in islice(events, n):
            key = b"%d" % number if self._compacted else None
            topic, partition = places[number % len(places)]
            self._writer.write(topic, key, event, partition, self._timestamp(True))
            self._written = number + 1
        for topic, id, document in islice(changes, m):
            self._writer.write(topic, id, document, timestamp_ms=self._timestamp(False))
        self._writer.poll()

    def _next_changes(self) -> Iterator[tuple[str, bytes, bytes | None]]:
        for of_topics in zip(*(load.changes() for load in self._changes.values()), strict=True):
            for topic, change in zip(self._changes, of_topics, strict=True):
                yield topic, *change

    def _timestamp(self, is_event: bool) -> int:
        left = self.event_timestamps_ms if is_event else self.change_timestamps_ms
        return left.pop(0) if left else 0
