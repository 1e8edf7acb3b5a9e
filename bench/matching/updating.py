"""Measure how long an algorithm that updates in place takes to insert and to delete a subscription."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import nan
from time import process_time

import numpy as np

from bench.matching.candidates import MeasuredAlgorithm
from bench.workloads.synthetic import Workload
from matchers.papers.updates import UPDATABLE

CALL_SUBSCRIPTIONS = 1_000  # subscriptions that are inserted or deleted in one call; REIN deletes as many (sec. V D)
COMPILING = 10  # subscriptions of an index that is updated before


@dataclass(frozen=True)
class UpdateTimes:
    """Processor time of a subscription in µs; NaN for an algorithm that is only built."""

    insert: float = nan
    delete: float = nan


def update_times(candidate: MeasuredAlgorithm, workload: Workload) -> UpdateTimes:
    """The index holds the workload before. It gets half as many subscriptions of the same kind, so that the time has a
    fair share of what growing costs; then it loses one call of all.
    """
    build = UPDATABLE.get(candidate.algorithm)
    if build is None:
        return UpdateTimes()
    few = replace(workload, subscriptions=COMPILING).table()
    compiled = build(few, **candidate.options)
    compiled.delete(compiled.insert(few))
    matcher = build(workload.table(), **candidate.options)
    n = workload.subscriptions
    insert_s = 0.0
    for first in range(n, n + n // 2, CALL_SUBSCRIPTIONS):
        size = min(CALL_SUBSCRIPTIONS, n + n // 2 - first)
        table = replace(workload, subscriptions=size, seed=workload.seed + first).table()
        begin_s = process_time()
        matcher.insert(table)
        insert_s += process_time() - begin_s
    deleted = np.random.default_rng(workload.seed).choice(n, min(CALL_SUBSCRIPTIONS, n), replace=False)
    begin_s = process_time()
    matcher.delete(deleted)
    delete_s = process_time() - begin_s
    return UpdateTimes(insert_s / (n // 2) * 1e6 if n > 1 else nan, delete_s / len(deleted) * 1e6)
