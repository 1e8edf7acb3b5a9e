"""The load while things break: the events and changes of `bench.living`, until told to stop, and rubbish among them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

from bench.living.generator import TICK_S, Writer
from bench.living.load import Load
from streaming.clients import Cluster

PATIENT = {"message.timeout.ms": "900000"}  # a broker may be away for long, and nothing may be given up


class Writing:
    """`with Writing(...) as writing` writes from then on; `finish` waits until the broker has it all. A burst is
    `factor` > 1. Event n goes to partition n % partitions, in order, so that the topic itself shows whether one is
    missing."""

    def __init__(
        self, load: Load, cluster: Cluster, events_topic: str, partitions: int, subscriptions_topic: str
    ) -> None:
        self._load = load
        self._events_topic, self._partitions = events_topic, partitions
        self._subscriptions_topic = subscriptions_topic
        self._writer = Writer(Cluster(cluster.bootstrap_servers, {**cluster.options, **PATIENT}))
        self._end = threading.Event()
        self._turn = threading.Lock()  # the writer's order is that of the calls
        self._failure: BaseException | None = None
        self.factor = 1.0
        self.events = self.changes = 0
        self.longest_pause_s = 0.0

    def first(self) -> None:
        """The subscriptions that are there before the job is."""
        for one in self._load.first():
            self._writer.write(self._subscriptions_topic, *one)
            self._writer.poll()
        self._writer.finish()

    def __enter__(self) -> Writing:
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
        self._writer.finish()

    def rubbish(self, records: Iterable[tuple[bytes | None, bytes | None, bool]]) -> None:
        """(key, value, whether it goes to the events topic), among the others."""
        for number, (key, value, is_event) in enumerate(records):
            with self._turn:
                if is_event:
                    self._writer.write(self._events_topic, key, value, number % self._partitions)
                else:
                    self._writer.write(self._subscriptions_topic, key, value)

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
                self._take(events, int(due) - self.events, changes, int(due_changes) - self.changes)
            self.events, self.changes = int(due), int(due_changes)
            time.sleep(max(0.0, TICK_S - (time.monotonic() - now)))

    def _take(self, events: Any, n: int, changes: Any, m: int) -> None:
        for number, event in islice(events, n):
            self._writer.write(self._events_topic, None, event, number % self._partitions)
        for id, document in islice(changes, m):
            self._writer.write(self._subscriptions_topic, id, document)
        self._writer.poll()
