"""Measure how long an algorithm that updates in place takes to insert and to delete a subscription."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import nan
from time import process_time

import numpy as np

from bench.matching.candidates import Candidate
from bench.workloads.synthetic import Workload
from matchers import ALGORITHMS

UPDATED = 1_000  # subscriptions, as REIN deletes (sec. V D)
COMPILING = 10  # subscriptions that are inserted and deleted before


@dataclass(frozen=True)
class UpdateTimes:
    """Processor time of a subscription in µs; NaN for an algorithm that is only built."""

    insert: float = nan
    delete: float = nan


def update_times(candidate: Candidate, workload: Workload) -> UpdateTimes:
    """The index holds the workload before. It gets new subscriptions of the same kind, and loses as many of all."""
    build = ALGORITHMS[candidate.algorithm].updatable
    if build is None:
        return UpdateTimes()
    matcher = build(workload.table(), **candidate.options)
    first = matcher.insert(replace(workload, subscriptions=COMPILING, seed=workload.seed + 1).table())
    matcher.delete(np.arange(first, first + COMPILING))
    new = replace(workload, subscriptions=UPDATED, seed=workload.seed + 2).table()
    begin_s = process_time()
    n = matcher.insert(new)
    inserted_s = process_time()
    random = np.random.default_rng(workload.seed)
    deleted = random.choice(first, min(UPDATED, first // 4), replace=False)
    delete_s = process_time()
    matcher.delete(deleted)
    deleted_s = process_time()
    assert n == first + COMPILING
    return UpdateTimes(
        (inserted_s - begin_s) / UPDATED * 1e6, (deleted_s - delete_s) / len(deleted) * 1e6 if len(deleted) else nan
    )
