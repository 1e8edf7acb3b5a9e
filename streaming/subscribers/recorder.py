"""Keep the metrics of subscribers up to date, in a thread beside the batches."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from matchers.contract.tables import Int64
from matchers.index.snapshot import Snapshot
from streaming.documents.subscriber_metrics import LookedUp, SubscriberMetrics
from streaming.errors import BrokerUnreachable, JobError, Unsettled
from streaming.log import error_fields, logger
from streaming.monitoring.reporting import Observer
from streaming.monitoring.view import SubscribersView, SubscriberView
from streaming.publishing.connection.client import Client
from streaming.publishing.producer import TransactionalProducer
from streaming.subscriber_counts import SubscriberCounts
from streaming.subscribers.metrics_topic import AT_ONCE, MetricsTopic
from streaming.subscribers.totals import Totals

log = logger("sluice.subscribers")

EVERY_S = 5.0  # what changed is summed and written
WAITING_REPORTS = 100  # of tasks; with more, the batch adds them itself
SWEEP_EVERY_S, SWEEP_SHARE = 60.0, 0.01  # at the earliest, and at most this share of the time
RETRY_S = 15.0  # after an error of the topic
END_S = 10.0  # for the last records
BUSIEST = 10


@dataclass(frozen=True)
class RecorderLimits:
    """The limits of the recorder's writing, the subscribers that it shows by name, and whether tasks count by
    subscription."""

    records_per_second: int
    shown: Sequence[str] = ()
    every_s: float = EVERY_S
    counts_subscriptions: bool = False


class SubscriberRecorder(Observer):
    """Sums the reports of tasks, and writes the sums to the topic every few seconds, once it has read the topic. After
    an error of the topic it warns once, and tries again.

    A producer of an older job is fenced by ours. If ours is fenced, by a later job or because it took too long, a new
    one is opened only if tasks have committed since: then no later job has taken over the query.
    """

    def __init__(
        self,
        topic: MetricsTopic,
        snapshot: Callable[[], Snapshot],
        limits: RecorderLimits,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._topic, self._snapshot, self._limits, self._clock = topic, snapshot, limits, clock
        self._lock = threading.Lock()  # of the sums
        self._totals = Totals(topic.query)
        self._written: dict[str, SubscriberMetrics] = {}  # of those shown: a restart must not count backwards
        self._reports: deque[bytes] = deque()
        self._reported_at = 0.0  # monotonic s
        self._is_restored = False
        self._swept: tuple[Snapshot | None, tuple[int, int]] = (None, (0, 0))  # and the size then
        self._sweep_at = 0.0  # monotonic s
        self._reopen_at = 0.0  # monotonic s: a report after it shows that the query is still ours
        self._retry_at = 0.0  # monotonic s
        self._trouble = ""  # that was logged
        self._mistake: Exception | None = None
        self._producer: TransactionalProducer | None = None
        self._faded_at = time.monotonic()
        self._view = SubscribersView()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sluice-subscribers", daemon=True)

    def __enter__(self) -> SubscriberRecorder:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Write what is left, if the broker takes it in time. Raises as `counted`, unless the job ends by an error."""
        self._ended.set()
        self._thread.join(2 * END_S)
        if self._mistake is not None and kind is None:
            raise self._mistake

    def counted(self, subscribers: bytes) -> None:
        """Take what a task reports. Raises what the thread ended with: a mistake of ours."""
        if self._mistake is not None:
            raise self._mistake
        self._reports.append(subscribers)
        self._reported_at = time.monotonic()
        if len(self._reports) > WAITING_REPORTS:
            with self._lock:
                self._add()

    def view(self) -> SubscribersView:
        """The metrics as of a few seconds ago."""
        return self._view

    def look_up(self, subscribers: Collection[str], subscriptions: Collection[str]) -> LookedUp:
        """The metrics of these subscribers and subscriptions, which exist."""
        with self._lock:
            of_subscribers = {one.subscriber: one for one in self._totals.named([*subscribers])}
            of_subscriptions = {one.subscription: one for one in self._totals.subscriptions_named([*subscriptions])}
            is_whole = self._is_restored
        return LookedUp(of_subscribers, of_subscriptions if self._limits.counts_subscriptions else None, is_whole)

    def _run(self) -> None:
        with self._topic.client() as client:
            is_last = False
            while not is_last:
                is_last = self._ended.wait(self._limits.every_s)
                try:
                    self._work(client, is_last)
                except Exception as error:
                    self._mistake = error
                    return

    def _work(self, client: Client, is_last: bool) -> None:
        now = time.monotonic()
        with self._lock:
            self._totals.fade(now - self._faded_at)
            self._faded_at = now
            self._add()
            self._view = self._seen()
            is_idle = is_last and not any(self._totals.size)
        if is_idle or (now < self._retry_at and not is_last):
            return
        try:
            self._restore(client)
            if not is_last:
                self._sweep()
            if self._producer is not None or self._reported_at > self._reopen_at:
                self._write(client, is_last)
        except JobError as error:
            if isinstance(error, Unsettled):
                self._producer, self._reopen_at = None, now + RETRY_S
            elif isinstance(error, BrokerUnreachable):  # the outcome of its transaction may be unknown
                self._producer = None
            if str(error) != self._trouble:
                self._trouble = str(error)
                log.warning("subscriber_metrics_failed", topic=self._topic.name, **error_fields(error))
            self._retry_at = now + RETRY_S

    def _add(self) -> None:
        now_ms = int(1000 * self._clock())
        while self._reports:
            self._totals.add(SubscriberCounts.from_bytes(self._reports.popleft()), now_ms)

    def _restore(self, client: Client) -> None:
        """Read the topic, once; first of all the older job's producer is fenced."""
        if self._is_restored:
            return
        self._producer = self._topic.opened(client)
        earlier = self._topic.totals()
        self._written = {one.subscriber: one for one in earlier.named(self._limits.shown)}
        with self._lock:
            self._totals.take_in(earlier)
            self._is_restored = True
            self._view = self._seen()
        subscribers, subscriptions = self._totals.size
        log.info("subscriber_metrics_restored", subscriber_count=subscribers, subscription_count=subscriptions)

    def _sweep(self) -> None:
        """Forget who is gone, if anybody may be. The reports that were added are older than the snapshot."""
        began = time.monotonic()
        if began < self._sweep_at:
            return
        with self._lock:
            self._add()
            snapshot = self._snapshot()
            if snapshot is self._swept[0] and self._totals.size == self._swept[1]:
                return
            self._totals.sweep(snapshot)
            self._swept = snapshot, self._totals.size
        now = time.monotonic()
        self._sweep_at = now + max(SWEEP_EVERY_S, (now - began) / SWEEP_SHARE)

    def _write(self, client: Client, is_last: bool) -> None:
        """Write what changed, as much as the limit allows; at the end all, as far as END_S suffice."""
        left, until = int(self._limits.records_per_second * self._limits.every_s), time.monotonic() + END_S
        while left > 0 or (is_last and time.monotonic() < until):
            with self._lock:
                chosen = self._totals.choose(AT_ONCE if is_last else min(AT_ONCE, left))
                records = self._topic.records(self._totals, chosen, int(1000 * self._clock()))
                shown = self._shown_of(chosen.subscribers)
            if not records:
                return
            try:
                self._producer = self._producer or self._topic.opened(client)
                self._producer.publish(records)
            except Exception:
                with self._lock:
                    self._totals.give_back(chosen)
                raise
            left -= len(records)
            self._trouble = ""
            self._written |= {one.subscriber: one for one in shown}

    def _shown_of(self, rows: Int64) -> list[SubscriberMetrics]:
        names = set(self._limits.shown)
        return [one for one in self._totals.metrics_of(rows) if one.subscriber in names] if names else []

    def _seen(self) -> SubscribersView:
        there = self._totals.named(self._limits.shown) if self._is_restored else []
        shown = [self._written[one.subscriber] for one in there if one.subscriber in self._written]
        return SubscribersView(
            number=self._totals.size[0],
            is_whole=self._is_restored,
            busiest=tuple(SubscriberView(one, rate) for one, rate in self._totals.busiest(BUSIEST)),
            shown=tuple(shown),
        )
