"""Measure how long an algorithm that updates in place takes to insert and to delete a subscription."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import nan
from time import process_time
from typing import Any

import numpy as np

from bench.matching.candidates import MeasuredAlgorithm
from bench.workloads.synthetic import Workload
from matchers.contract.tables import SubscriptionTable
from matchers.papers.updates import UPDATABLE

CALL_SUBSCRIPTIONS = 1_000  # subscriptions that are inserted or deleted in one call; REIN deletes as many (sec. V D)
SINGLE_CALLS = 1_000  # calls of each kind with one subscription, at most
COMPILING = 10  # subscriptions of an index that is updated before


@dataclass(frozen=True)
class UpdateTimes:
    """Processor time of a subscription in µs, by 1,000 a call and by one; NaN for an algorithm that is only built."""

    insert: float = nan
    delete: float = nan
    insert_one: float = nan
    delete_one: float = nan


def update_times(candidate: MeasuredAlgorithm, workload: Workload) -> UpdateTimes:
    """The index holds the workload before. It gets half as many subscriptions of the same kind, so that the time has a
    fair share of what growing costs, the first of them one by one; then it loses one call of all, and some one by one.
    """
    build = UPDATABLE.get(candidate.algorithm)
    if build is None:
        return UpdateTimes()
    few = replace(workload, subscriptions=COMPILING).table()
    compiled = build(few, **candidate.options)
    compiled.delete(compiled.insert(few))
    matcher = build(workload.table(), **candidate.options)
    n = workload.subscriptions
    singles, total = min(SINGLE_CALLS, n // 4), n // 2
    one_by_one = single_tables(replace(workload, subscriptions=singles, seed=workload.seed + n).table())
    insert_one_s = seconds_of(matcher.insert, one_by_one)
    insert_s = 0.0
    for first in range(singles, total, CALL_SUBSCRIPTIONS):
        size = min(CALL_SUBSCRIPTIONS, total - first)
        table = replace(workload, subscriptions=size, seed=workload.seed + n + first).table()
        insert_s += seconds_of(matcher.insert, [table])
    r = np.random.default_rng(workload.seed)
    deleted = r.choice(n, min(CALL_SUBSCRIPTIONS, n), replace=False)
    delete_s = seconds_of(matcher.delete, [deleted])
    left = np.setdiff1d(np.arange(n + total), deleted)
    delete_one_s = seconds_of(matcher.delete, r.choice(left, singles, replace=False).tolist())
    return UpdateTimes(
        insert_s / (total - singles) * 1e6 if total > singles else nan,
        delete_s / len(deleted) * 1e6,
        insert_one_s / singles * 1e6 if singles else nan,
        delete_one_s / singles * 1e6 if singles else nan,
    )


def single_tables(table: SubscriptionTable) -> list[SubscriptionTable]:
    """A table for each subscription."""
    return [
        SubscriptionTable.of_sorted(
            np.zeros(end - begin, np.int32),
            table.column[begin:end],
            table.low[begin:end],
            table.high[begin:end],
            n_subscriptions=1,
            n_columns=table.n_columns,
        )
        for begin, end in pairwise(table.start.tolist())
    ]


def seconds_of(update: Callable[[Any], object], arguments: Sequence[Any]) -> float:
    """Processor time of a call with each argument."""
    begin_s = process_time()
    for argument in arguments:
        update(argument)
    return process_time() - begin_s
