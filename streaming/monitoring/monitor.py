"""Collect the job's status and hand out immutable views of it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from matchers.index.snapshot import Part, Snapshot
from streaming.clock import steady_s
from streaming.documents.subscriber_metrics import LookedUp, LookUp
from streaming.errors import JobError
from streaming.index import packing
from streaming.latencies import Latencies
from streaming.log import error_fields, logger
from streaming.monitoring.figures import Figures
from streaming.monitoring.memory import resident_bytes
from streaming.monitoring.reporting import Observer, Report
from streaming.monitoring.troubles import Troubles
from streaming.monitoring.verdicts import BROKER_S, look_at, stuck, without_progress_s
from streaming.monitoring.view import (
    BUILDING,
    RESTORING,
    RUNNING,
    About,
    BrokerEnds,
    InHand,
    JobView,
    Lag,
    Preparation,
    SparkProgress,
    StateView,
    SubscribersView,
)
from streaming.rows import SourcePartition, is_events
from streaming.source_topics import SourceTopics
from streaming.state.state import State

log = logger("sluice.monitoring")

EVERY_S = 5.0  # between two requests to the broker, and to Spark

Ends = Mapping[tuple[str, int], int]  # (topic, partition) -> offset
Committed = Callable[[Collection[tuple[str, int]]], Ends]


class Monitor(Observer):
    """Observes the batches and the broker, and hands out views of the job.

    Each value is replaced whole by the one thread that writes it, so nobody waits for a lock. While the monitor is
    open, a thread of its own watches whether the current batch makes progress, which no thread can do that waits for
    Spark; with `ask` it also fetches the ends of the topics. While tasks are at work, it fetches the offsets that they
    have `committed`: the lag counts from these, and if they move, the batch makes progress. Both raise JobError.
    """

    def __init__(
        self,
        about: About,
        topics: SourceTopics,
        ask: Callable[[], Ends] | None = None,
        clock: Callable[[], float] = steady_s,
        committed: Committed | None = None,
    ) -> None:
        self._about = about
        self._topics = topics
        self._ask = ask
        self._committed = committed
        self._clock = clock
        self._phase = RESTORING
        self._beat_at = self._progressed_at = clock()
        self._read_at = 0.0
        self._figures = Figures()
        self._in_hand: InHand | None = None
        self._reported: InHand | None = None  # as making no progress
        self._of_tasks: Ends = {}  # that tasks had committed at the last request
        self._reached: tuple[int, int] | None = None  # a batch, and the sum of the offsets committed in it
        self._went_on: tuple[InHand | None, float] = (None, 0.0)  # by committed offsets, and when that was seen
        self._state: State | None = None
        self._preparation = Preparation(BUILDING, clock(), clock(), clock())
        self._lacked_index = False  # when it was last looked at
        self._broker = BrokerEnds()
        self._progress = SparkProgress()
        self._resident: Mapping[str, int] = {}
        self._sizes: Mapping[Part, int] = {}
        self._start_s: float | None = None
        self._troubles = Troubles()
        self._subscribers: Callable[[], SubscribersView] | None = None
        self._look_up: LookUp = lambda subscribers, subscriptions: None
        self._ended = threading.Event()
        self._looking = threading.Thread(target=self._look_again_and_again, name="sluice-monitor", daemon=True)

    def __enter__(self) -> Monitor:
        logging.getLogger("sluice").addHandler(self._troubles)
        self._looking.start()
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("sluice").removeHandler(self._troubles)
        self._ended.set()
        self._looking.join()

    def enter(self, phase: str, state: State | None = None) -> None:
        self._state = state or self._state
        self._beat_at = self._progressed_at = self._clock()
        if phase == RUNNING:
            self._start_s = self._beat_at - self._about.started_at
        self._phase = phase

    def show_subscribers(self, view: Callable[[], SubscribersView], look_up: LookUp) -> None:
        """Show these metrics of subscribers too."""
        self._subscribers, self._look_up = view, look_up

    def look_up(self, subscribers: Collection[str], subscriptions: Collection[str]) -> LookedUp | None:
        """The metrics of these subscribers and subscriptions; None if they are not counted."""
        return self._look_up(subscribers, subscriptions)

    @property
    def snapshot(self) -> Snapshot | None:
        """The subscriptions in force; None while they are restored."""
        return self._state.snapshot if self._state is not None else None

    def preparing(self, step: str, done: int = 0, of: int = 0) -> None:
        """Set what is done for the index of the settings. It is shown while the state lacks that index."""
        before, now = self._preparation, self._clock()
        began = before.began if before.step == step else now
        self._preparation = Preparation(step, before.since, began, now, done, of)

    def beat(self, progress: Callable[[], SparkProgress]) -> None:
        """Called by the main thread for as long as the query runs; gets the progress from Spark now and then."""
        self._beat_at = self._clock()
        if self._beat_at - self._read_at >= EVERY_S:
            self._read_at = self._beat_at
            self._progress = progress()

    def doing(self, batch: int, stage: str) -> None:
        self._in_hand = InHand(batch, stage, self._clock())

    def idle(self) -> None:
        self._in_hand = None

    def progressed(self) -> None:
        self._progressed_at = self._clock()

    def batch(self, report: Report) -> None:
        self._figures = self._figures.with_batch(report, self._clock())

    def deleted(self, events: int) -> None:
        counts = {**self._figures.counts, "deleted_unread": self._figures.counts["deleted_unread"] + events}
        self._figures = replace(self._figures, counts=counts)

    def ask(self) -> None:
        """Ask the broker once."""
        assert self._ask is not None
        now = self._clock()
        before = self._broker
        try:
            ends = self._ask()
        except JobError as error:
            self._broker = replace(before, error=str(error))
            if before.error is None:
                log.warning("end_offsets_unavailable", **error_fields(error))
            return
        behind = any(lag.records for lag in self._lag(ends))
        since = (now if before.silent_s(now) > BROKER_S else before.behind_since or now) if behind else None
        self._broker = BrokerEnds(ends, self._clock(), None, since)

    def look_at_tasks(self) -> None:
        """Ask once what the tasks of the current batch have committed."""
        in_hand = self._in_hand
        if self._committed is None or in_hand is None or in_hand.stage != "match" or not self._broker.ends:
            return
        events = [at for at in self._broker.ends if is_events(self._topics.sources[at[0]])]
        try:
            self._of_tasks = self._committed(events)
        except JobError as error:
            log.debug("committed_offsets_unavailable", **error_fields(error))
            return
        total = sum(self._of_tasks.values())
        before, self._reached = self._reached, (in_hand.batch, total)
        if before is not None and before[0] == in_hand.batch and total > before[1]:
            self._went_on = in_hand, self._clock()

    def look(self) -> None:
        """Log once that a batch makes no progress, and once that it continues; and that the index is in use."""
        view = self.view()
        lacked_index, self._lacked_index = self._lacked_index, view.preparation is not None
        if lacked_index and not self._lacked_index and view.state is not None:
            duration_s = round(view.now - self._preparation.since, 1)
            log.info("index_ready", index=view.state.index, duration_s=duration_s)
        before, self._reported = self._reported, stuck(view)
        if before is not None and view.in_hand != before:
            stalled_s = round(view.now - before.since, 1)
            log.info("batch_resumed", batch_id=before.batch, stage=before.stage, stalled_s=stalled_s)
        if self._reported is not None and self._reported != before:
            log.warning(
                "batch_stalled",
                batch_id=self._reported.batch,
                stage=self._reported.stage,
                stalled_s=round(without_progress_s(view), 1),
                hint=look_at(view, self._reported.stage),
            )

    def view(self) -> JobView:
        broker, in_hand, (of, went_on_at) = self._broker, self._in_hand, self._went_on
        if in_hand is not None and in_hand is of:
            in_hand = replace(in_hand, since=went_on_at)
        return JobView(
            about=self._about,
            now=self._clock(),
            phase=self._phase,
            beat_at=self._beat_at,
            progressed_at=max(self._progressed_at, went_on_at),
            figures=self._figures,
            in_hand=in_hand,
            state=self._state_view(),
            preparation=self._preparation if self._state is not None and self._state.lacks_index else None,
            lag=tuple(self._lag(broker.ends)),
            broker=broker,
            progress=self._progress,
            resident_bytes=self._resident,
            start_s=self._start_s,
            troubles=self._troubles.last,
            subscribers=self._subscribers() if self._subscribers is not None else None,
        )

    def _look_again_and_again(self) -> None:
        while True:
            try:
                self.look()
                if self._broker.error is None:
                    self.look_at_tasks()
                if self._ask is not None:
                    self._resident = resident_bytes(os.getpid())
                    self._measure()
                    self.ask()
            except Exception:  # a mistake here must not leave everybody with old figures, unnoticed
                log.exception("monitoring_failed")
            if self._ended.wait(EVERY_S):
                return

    def _measure(self) -> None:
        """The size of each part, computed once."""
        parts = self._state.snapshot.parts if self._state else ()
        self._sizes = {part: self._sizes.get(part) or packing.size(part) for part in parts}

    def _state_view(self) -> StateView | None:
        state = self._state
        if state is None:
            return None
        snapshot, compactor = state.snapshot, state.compactor
        compactions, compacting = (compactor.joins, compactor.frozen > 0) if compactor else (Latencies(), False)
        size = sum(self._sizes.values())
        saved = (compactor.saved_at, compactor.unsaved_since) if compactor else (None, None)
        return StateView(
            state.version, len(snapshot), len(snapshot.parts), size, compactions, compacting, snapshot.about, *saved
        )

    def _lag(self, ends: Ends) -> list[Lag]:
        """The lag by partition. Spark, and tasks that read themselves, read past offsets that hold no row, such as the
        ends of transactions, which are not in the state. Within a batch the state and the offsets that tasks have
        committed show how far it has come."""
        if self._state is None:
            return []
        positions: Mapping[SourcePartition, int] = self._state.positions
        looked_at, read = self._state.looked_at, self._progress.ends
        partitions: dict[str, list[int]] = {}
        for topic, partition in sorted(ends):
            partitions.setdefault(topic, []).append(partition)
        lags = []
        for source, topic in self._topics.names.items():
            for partition in partitions.get(topic, ()):
                at = source, partition
                in_topic = topic, partition
                of_batch = max(read.get(in_topic, 0), self._of_tasks.get(in_topic, 0))
                position = max(positions.get(at, 0), looked_at.get(at, 0), of_batch)
                lags.append(Lag(topic, partition, position, ends[in_topic]))
        return lags
