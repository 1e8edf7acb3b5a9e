"""Process one batch of the state machine.

deliveries(N) = match(state(N), events(N)), and state(N + 1) = apply(state(N), changes(N)).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, Protocol

from streaming.driver.attempts import MissingTopicsCache, commit
from streaming.driver.batch_order import Last, in_order, last_changes
from streaming.driver.composition import Composition, Outputs, TopicNames, in_force_from
from streaming.driver.isolation import WorkersLost
from streaming.driver.limits.load_shedding import LoadShedder
from streaming.driver.limits.quotas import DeliveryQuota, SubscriptionQuota
from streaming.driver.limits.time_limit import TimeLimit
from streaming.driver.slots import Slots
from streaming.driver.starting import first_start
from streaming.errors import SparkFailed
from streaming.kafka.deleted import DeletedEvents
from streaming.log import logger
from streaming.monitoring.reporting import CommittedTransaction, Observer, Report
from streaming.publishing.contract import Offsets, TopicPartition
from streaming.publishing.ownership import Owner
from streaming.rows import (
    AcceptedChange,
    ReadProgress,
    RejectedChange,
    Row,
    SourcePartition,
    is_events,
    of_events,
)
from streaming.state.first_load import Chosen, Slice
from streaming.state.state import State, registered
from streaming.worker.settings import TaskSettings

log = logger("sluice.batch")

KEEP_EVERY_S = 3_600.0  # that is how often all offsets are committed again
LARGE_ROW_BYTES = 8 << 10  # on average: then a batch is looked at before it is matched


class BatchPieces(Protocol):
    """Gives a batch to tasks."""

    def is_open(self, batch: Any) -> bool:
        """Whether the batch ends by time, so that it may have read nothing."""

    def awaited(self, batch: Any) -> Set[SourcePartition] | None:
        """The partitions of events that may hold older ones than the batch has shown, unless the report knows them;
        None if the batch shows nothing of that."""

    def pieces(self, batch: Any) -> Iterator[Sequence[Row]]:
        """The workers' rows, piece by piece. Consume each before the next."""


@dataclass
class Pipeline:
    """Process batches. It is called with one batch after the other, each again until it has returned once
    (`foreachBatch`). `run` knows what a batch is.

    A batch that was committed before a crash comes again after it: the workers drop its rows, which lie below
    `state.positions`, and nothing is left to do.
    """

    state: State
    settings: TaskSettings
    owner: Owner
    slots: Slots
    outputs: Outputs
    names: TopicNames
    run: Callable[[Pipeline, int, Report], BatchPieces]  # of one batch, by its number
    subscription_quota: SubscriptionQuota = field(default_factory=lambda: SubscriptionQuota(0))
    delivery_quota: DeliveryQuota = field(default_factory=lambda: DeliveryQuota(0))
    load_shedder: LoadShedder = field(default_factory=lambda: LoadShedder(0, ()))
    tasks: int = 1  # of a shard and batch, at most: more than there are cores would only cost
    cores: Callable[[], int] | None = None  # how many there are now, where executors come and go
    # Whether the next batch may be too large to be matched at once: the last one may have ended the previous process.
    careful: bool = True
    time_limit: TimeLimit | None = None  # of the tasks of a batch
    describe: Callable[[str], object] = lambda text: None  # the next job of Spark, for its UI
    observer: Observer = field(default_factory=Observer)
    deleted: DeletedEvents = field(default_factory=DeletedEvents)
    missing_topics: MissingTopicsCache = field(default_factory=MissingTopicsCache, init=False)
    last: Report | None = field(default=None, init=False)  # of the last batch that had rows
    # Counts of batches without rows, such as of lost workers: the next batch that has rows reports them.
    _without_rows: Counter[str] = field(default_factory=Counter, init=False)
    _kept_s: float = field(default_factory=time.monotonic, init=False)  # when all offsets were committed

    def __post_init__(self) -> None:
        self.deleted.begin(self.names.by_topic(of_events(self.state.positions)))

    def __call__(self, batch: Any, number: int) -> None:
        report = Report(number, self.load_shedder.false_positives)
        report.counts.update(self._without_rows)
        if self.cores is not None and (cores := self.cores()) != self.tasks:
            self.slots.open(cores, self.state.broadcast)
            self.tasks = cores
        reached, run = self._reached(), self.run(self, number, report)
        try:
            for rows in run.pieces(batch):
                report.saw(rows)
                self.look_for_gaps(rows)
                if (published := self.take(rows, number)) is not None:
                    report.add(published)
                before, reached = reached, self._reached()
                if reached > before or not run.is_open(batch):  # or tasks that read nothing would seem healthy
                    self.observer.progressed()
        except WorkersLost as reason:
            raise SparkFailed(f"Spark workers fail even on an empty batch: {reason}") from reason
        finally:
            self.observer.idle()
        self.load_shedder.seen(report.waited_ms)
        if (awaited := run.awaited(batch)) is not None:
            self.state.waited_ms = report.waited_ms if awaited <= report.known else inf
        if report.rows:
            report.counts["deleted_unread"] += self.deleted.count()
            self.last = report
            self.careful = report.bytes > LARGE_ROW_BYTES * report.rows
            snapshot = self.state.snapshot
            report.state = {
                "version": self.state.version,
                "subscriptions": len(snapshot),
                "segments": len(snapshot.parts),
            }
            log.info("batch_finished", **report.fields())
            self.observer.batch(report)
            self._without_rows.clear()
        else:
            self._without_rows = report.counts
        self._keep()

    def _reached(self) -> int:
        """Grows with each offset that is committed, or that an open epoch has found to hold nothing."""
        return sum(self.state.positions.values()) + sum(self.state.looked_at.values())

    def adopt(
        self, slices: Sequence[Slice], chosen: Sequence[Chosen], positions: Mapping[SourcePartition, int]
    ) -> None:
        """Begin where the first start has read to, and publish the statuses of all that it has read."""
        self.state.positions.update(positions)
        self.deleted.begin(self.names.by_topic(of_events(self.state.positions)))
        first_start.publish_statuses(self.owner, self.names, self.outputs, slices, chosen, positions)

    def take(self, rows: Sequence[Row], number: int) -> CommittedTransaction | None:
        """Apply the changes of a batch and publish their statuses, and the dead letters that no task can publish."""
        positions: dict[SourcePartition, int] = {
            (r.source, r.partition): r.offset + 1 for r in rows if isinstance(r, ReadProgress)
        }
        if not positions:
            return None
        # Slots have committed the offsets of what they published.
        left = {at: to for at, to in positions.items() if to > self.state.positions.get(at, 0)}
        rows = in_order(rows)
        decided = self.subscription_quota.checked(rows, self.state.snapshot)
        rejected = [
            d.record for r, d in zip(rows, decided, strict=True) if isinstance(d, RejectedChange) and d is not r
        ]
        self.state.reject([(record.partition, record.offset) for record in rejected])
        published = self._publish(number, decided, left) if left else None
        self.state.apply(decided, left)
        return published and published._replace(applied=time.time())

    def rest(self) -> None:
        """Do the work between two batches, while there is none."""
        self.state.step()
        if deleted := self.deleted.count():
            self.observer.deleted(deleted)
        self._keep()

    def _keep(self) -> None:
        """Commit all offsets again, now and then: quiet partitions have none of their own to commit. Call between two
        batches."""
        if time.monotonic() > self._kept_s + KEEP_EVERY_S:
            self.owner.keep()
            self._kept_s = time.monotonic()

    def look_for_gaps(self, rows: Sequence[Row]) -> None:
        """Look for gaps among the offsets of the events in these rows."""
        records: Counter[TopicPartition] = Counter()
        last: dict[TopicPartition, int] = {}
        for row in rows:
            if isinstance(row, ReadProgress) and is_events(row.source):
                at = self.names.sources.names[row.source], row.partition
                records[at] += row.records
                last[at] = max(row.offset, last.get(at, 0))
        self.deleted.read(records, last)

    def reached(self, offsets: Offsets) -> None:
        """Take note of offsets that slots have committed."""
        reached = of_events(self.names.by_source(offsets))
        self.state.positions = {**self.state.positions, **reached}  # another thread may read the old ones

    def _publish(
        self, number: int, rows: Sequence[Row], positions: Mapping[SourcePartition, int]
    ) -> CommittedTransaction:
        began = time.time()
        self.observer.doing(number, "publish")
        subscribers = {r.subscriber for r in rows if isinstance(r, AcceptedChange) and r.subscriber is not None}
        self.outputs.missing(set(map(self.names.delivery_topic, subscribers)))
        failed = [r.id for r in rows if isinstance(r, RejectedChange) and r.id]
        in_force = registered(self.state.snapshot, failed)
        last = {id: Last(subscription.place, unsubscribed=False) for id, subscription in in_force.items()}
        since = in_force_from({**self.state.positions, **positions}, self.names)
        composition = Composition(self.names, since, {**last, **last_changes(rows)})
        aborted, sent, committed = commit(self.owner, self.names, partial(composition.records, rows), positions)
        return CommittedTransaction(
            rows=rows,
            dead_letters=composition.dead_letters,
            aborted=aborted,
            began=began,
            sent=sent,
            committed=committed,
            applied=committed,
        )
