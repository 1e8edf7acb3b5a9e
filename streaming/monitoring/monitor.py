"""Where the job says what it does, and from where everybody else may ask."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from matchers.snapshot import Part
from streaming import packing
from streaming.errors import JobError
from streaming.matching import Position
from streaming.metrics import Latencies
from streaming.monitoring.figures import Figures
from streaming.monitoring.memory import resident_bytes
from streaming.monitoring.troubles import Troubles
from streaming.monitoring.view import RESTORING, RUNNING, About, Broker, Holding, Lag, Progress, View
from streaming.reporting import Report
from streaming.state import State

log = logging.getLogger("sluice.monitoring")

EVERY_S = 5.0  # the broker is asked, and Spark

Ends = Mapping[tuple[str, int], int]  # (topic, partition) -> offset


class Monitor:
    """An `Observer` of the batches.

    Each value is replaced whole by the one thread that writes it, so nobody waits for a lock. With `ask`, a thread of
    its own asks the broker where the topics end as long as the monitor is open; it raises JobError.
    """

    def __init__(
        self,
        about: About,
        topics: Mapping[int, str],  # by source
        ask: Callable[[], Ends] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._about = about
        self._topics = topics
        self._ask = ask
        self._clock = clock
        self._phase = RESTORING
        self._beat_at = self._progressed_at = clock()
        self._read_at = 0.0
        self._figures = Figures()
        self._state: State | None = None
        self._broker = Broker()
        self._progress = Progress()
        self._resident: Mapping[str, int] = {}
        self._sizes: Mapping[Part, int] = {}
        self._start_s: float | None = None
        self._troubles = Troubles()
        self._ended = threading.Event()
        self._asking = threading.Thread(target=self._ask_again_and_again, name="sluice-monitor", daemon=True)

    def __enter__(self) -> Monitor:
        logging.getLogger("sluice").addHandler(self._troubles)
        if self._ask is not None:
            self._asking.start()
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("sluice").removeHandler(self._troubles)
        self._ended.set()
        if self._asking.is_alive():
            self._asking.join()

    def enter(self, phase: str, state: State | None = None) -> None:
        self._state = state or self._state
        self._beat_at = self._progressed_at = self._clock()
        if phase == RUNNING:
            self._start_s = self._beat_at - self._about.started_at
        self._phase = phase

    def beat(self, progress: Callable[[], Progress]) -> None:
        """Called by the main thread for as long as the query runs; asks Spark now and then."""
        self._beat_at = self._clock()
        if self._beat_at - self._read_at >= EVERY_S:
            self._read_at = self._beat_at
            self._progress = progress()

    def progressed(self) -> None:
        self._progressed_at = self._clock()

    def batch(self, report: Report) -> None:
        self._figures = self._figures.with_batch(report, self._clock())

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
                log.warning("the broker does not say where the topics end", extra={"fields": {"reason": str(error)}})
            return
        behind = any(lag.records for lag in self._lag(ends))
        since = (before.behind_since or now) if behind else None
        self._broker = Broker(ends, self._clock(), None, since)

    def view(self) -> View:
        broker = self._broker
        return View(
            *(self._about, self._clock(), self._phase, self._beat_at, self._progressed_at, self._figures),
            *(self._holding(), tuple(self._lag(broker.ends)), broker, self._progress, self._resident),
            *(self._start_s, self._troubles.last),
        )

    def _ask_again_and_again(self) -> None:
        while True:
            try:
                self._resident = resident_bytes(os.getpid())
                self._measure()
                self.ask()
            except Exception:  # a mistake here must not leave everybody with old figures, unnoticed
                log.exception("the job could not be looked at")
            if self._ended.wait(EVERY_S):
                return

    def _measure(self) -> None:
        """Each part once."""
        parts = self._state.snapshot.parts if self._state else ()
        self._sizes = {part: self._sizes.get(part) or packing.size(part) for part in parts}

    def _holding(self) -> Holding | None:
        state = self._state
        if state is None:
            return None
        snapshot, upkeep = state.snapshot, state.upkeep
        joins, joining = (upkeep.joins, upkeep.held > 0) if upkeep else (Latencies(), False)
        size = sum(self._sizes.values())
        return Holding(state.version, len(snapshot), len(snapshot.parts), size, joins, joining)

    def _lag(self, ends: Ends) -> list[Lag]:
        """Spark reads past offsets that hold no row, such as the ends of transactions, and the state does not know
        those; while a batch is worked on, only the state knows how far it has come."""
        if self._state is None:
            return []
        positions: Mapping[Position, int] = self._state.positions
        read = self._progress.ends
        found = []
        for source, topic in self._topics.items():
            for of, partition in sorted(at for at in ends if at[0] == topic):
                position = max(positions.get((source, partition), 0), read.get((of, partition), 0))
                found.append(Lag(topic, partition, position, ends[of, partition]))
        return found
