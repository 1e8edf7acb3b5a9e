"""Run epochs within Spark's callback: Spark plans a batch of its source, and its rows are read by the epochs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from streaming.driver import sources
from streaming.driver.batches import ASK_EVERY_S, SparkBatches
from streaming.driver.pipeline import Pipeline
from streaming.driver.runs.epoch_run import EpochPlan
from streaming.kafka.ends import TopicEnds
from streaming.rows import EVENTS, SUBSCRIPTIONS, Source, SourcePartition, is_events, of_events

SPARK_PLANS_EVERY_S = 60.0  # it takes some tenths of a second, in which nothing is read
PARTITIONS_EVERY_S = 1.0  # how often it looks for added ones
SECONDS = 4.0  # of an open epoch; between two there is a gap of some 50 ms
TURN_S = 0.001  # for whoever wants to stop between two epochs


class EpochBatches(SparkBatches):
    """Spark's callback: runs epochs for a minute, then lets Spark plan its next batch.

    While nothing was read behind that plan, Spark would find nothing to plan, so it goes on. Epochs are open, unless
    `bounded` gives the most events and changes of each.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        ends: TopicEnds,
        planned: Callable[[int], Mapping[SourcePartition, int]],
        bounded: Mapping[Source, int] | None,
    ) -> None:
        super().__init__(pipeline)
        self._ends, self._planned, self._bounded = ends, planned, bounded
        self._number = 0  # of epochs
        self._looked_s = 0.0  # monotonic: for added partitions

    def __call__(self, batch: DataFrame, number: int) -> None:
        # Spark remembers all jobs of an execution until it ends, which may be weeks away.
        batch.sparkSession.sparkContext.setLocalProperty("spark.sql.execution.id", None)  # type: ignore[arg-type]  # unset
        planned = self._planned(number)
        until = time.monotonic() + SPARK_PLANS_EVERY_S
        while True:
            self._epoch()
            if self._finished:
                return
            positions = self._pipeline.state.positions
            if time.monotonic() > until and any(positions.get(at, 0) > end for at, end in planned.items()):
                return
            time.sleep(TURN_S)

    def _epoch(self) -> None:
        with self._turn, self._keeping():  # topics may be added at present
            self._look_for_partitions()
            plan = EpochPlan(SECONDS) if self._bounded is None else self._up_to_the_end(self._bounded)
        if plan is None:
            time.sleep(ASK_EVERY_S)
        else:
            self._take(plan, self._number)
            self._number += 1
            self._pipeline.state.looked_at = {**self._pipeline.state.looked_at, **(plan.ends or {})}
        with self._turn:
            if not self._finished:
                self._rest()

    def _up_to_the_end(self, most: Mapping[Source, int]) -> EpochPlan | None:
        """A bounded epoch of what is there now; None if that is nothing."""
        state = self._pipeline.state
        positions = state.positions
        there = self._pipeline.names.by_source(self._ends() or {})
        # An aborted transaction may have more offsets than an epoch, so what has no records counts as read.
        reached = {at: max(positions.get(at, 0), state.looked_at.get(at, 0)) for at in there}
        behind = {at: end for at, end in there.items() if end > reached[at]}
        if not behind:
            return None
        n_events = len(of_events(positions))
        partitions = {EVENTS: n_events, SUBSCRIPTIONS: len(positions) - n_events}
        most = {**most, EVENTS: sources.events_per_batch(most[EVENTS], state)}
        share = {kind: max(1, n // max(1, partitions[kind])) for kind, n in most.items()}
        kind_of = {at: EVENTS if is_events(at[0]) else SUBSCRIPTIONS for at in behind}
        ends = {at: min(end, reached[at] + share[kind_of[at]]) for at, end in behind.items()}
        return EpochPlan(0.0, ends)

    def _look_for_partitions(self) -> None:
        """Added partitions are read from their first record on."""
        now = time.monotonic()
        if now < self._looked_s + PARTITIONS_EVERY_S:
            return
        self._looked_s, state = now, self._pipeline.state
        there = self._pipeline.names.by_source(self._ends() or {})
        if added := dict.fromkeys(there.keys() - state.positions.keys(), 0):
            state.positions = {**state.positions, **added}
