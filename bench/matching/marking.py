"""Measure HEM's marking alone, line 7 of its Algorithm 2."""

from __future__ import annotations

from math import nan
from time import process_time

from bench.matching.candidates import MeasuredAlgorithm
from bench.workloads.synthetic import Workload
from matchers.algorithms.hem import Hem
from matchers.algorithms.hem.kernel import MARK
from matchers.contract.tables import EventBatch

ROUNDS = 3


def marking_us(candidate: MeasuredAlgorithm, workload: Workload) -> float:
    """Processor time of an event in us; NaN for other algorithms than HEM.

    Line 7 runs for one event at a time; what it takes to get there, in a run of no line, is subtracted.

    Each event counts with the least of some rounds, so the pairs come from a cache if the index fits there.
    """
    index = candidate.build(workload.small().table())
    if not isinstance(index, Hem):
        return nan
    batch = workload.batch()
    events = [batch.part(i, i + 1) for i in range(len(batch))]
    index.run(events[0], MARK)  # compiles
    index = candidate.build(workload.table())
    assert isinstance(index, Hem)
    us = 0.0
    rounds = [[_us(index, event, steps) for event in events] for _ in range(ROUNDS) for steps in (0, MARK)]
    for nothing, marked in zip(zip(*rounds[::2], strict=True), zip(*rounds[1::2], strict=True), strict=True):
        us += min(marked) - min(nothing)
    return us / len(events)


def _us(index: Hem, event: EventBatch, steps: int) -> float:
    begin_s = process_time()
    index.run(event, steps)
    return (process_time() - begin_s) * 1e6
