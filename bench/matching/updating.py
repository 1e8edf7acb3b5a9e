"""Measure how long an algorithm that updates in place takes to insert and to delete a subscription."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import nan
from time import process_time
from typing import Any

import numpy as np

from bench.matching.answers import compare
from bench.matching.candidates import MeasuredAlgorithm
from bench.workloads.synthetic import Workload
from matchers import ALGORITHMS, EventBatch, MatchBatch, SubscriptionTable
from matchers.contract.tables import Int64
from matchers.papers.updates import UPDATABLE
from matchers.papers.updates.growing_table import GrowingTable

CALL_SUBSCRIPTIONS = 1_000  # subscriptions that are inserted or deleted in one call; REIN deletes as many (sec. V D)
SINGLE_CALLS = 1_000  # calls of each kind with one subscription, at most
COMPILING = 10  # subscriptions of an index that is updated before
CHECKED = 32  # events that are matched afterwards, at most


@dataclass(frozen=True)
class UpdateTimes:
    """Processor time of a subscription in µs, by 1,000 a call and by one; NaN for an algorithm that is only built."""

    insert: float = nan
    delete: float = nan
    insert_one: float = nan
    delete_one: float = nan
    checked: bool = True  # whether the updated index found the matches


def update_times(candidate: MeasuredAlgorithm, workload: Workload) -> UpdateTimes:
    """The index holds the workload before. It gets half as many subscriptions of the same kind, so that the time has a
    fair share of what growing costs, the first of them one by one; then it loses one call of all, and some one by one.
    What it then matches is compared with `scan`.
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
    tables = _inserted(workload, singles)
    insert_one_s = seconds_of(matcher.insert, single_tables(next(tables)))
    insert_s = sum(seconds_of(matcher.insert, [table]) for table in tables)
    r = np.random.default_rng(workload.seed)
    deleted = r.choice(n, min(CALL_SUBSCRIPTIONS, n), replace=False)
    delete_s = seconds_of(matcher.delete, [deleted])
    left = np.setdiff1d(np.arange(n + total), deleted)
    deleted_one_by_one = r.choice(left, singles, replace=False)
    delete_one_s = seconds_of(matcher.delete, deleted_one_by_one.tolist())
    events = workload.batch().part(0, CHECKED)
    wanted = _matches(workload, singles, np.setdiff1d(left, deleted_one_by_one), events)
    return UpdateTimes(
        insert_s / (total - singles) * 1e6 if total > singles else nan,
        delete_s / len(deleted) * 1e6,
        insert_one_s / singles * 1e6 if singles else nan,
        delete_one_s / singles * 1e6 if singles else nan,
        compare(matcher.match(events), wanted).right(candidate.approximate),
    )


def _inserted(workload: Workload, singles: int) -> Iterator[SubscriptionTable]:
    """Half as many subscriptions as the workload has: the first table for calls with one, each other for one call."""
    n = workload.subscriptions
    for begin, end in pairwise([0, *range(singles, n // 2, CALL_SUBSCRIPTIONS), n // 2]):
        yield replace(workload, subscriptions=end - begin, seed=workload.seed + n + begin).table()


def _matches(workload: Workload, singles: int, left: Int64, events: EventBatch) -> MatchBatch:
    """The matches that `scan` lists for the subscriptions left after all updates."""
    held = GrowingTable(workload.table())
    for table in _inserted(workload, singles):
        held.append(table)
    found = ALGORITHMS["scan"](held.rows_of(left)).match(events)
    return MatchBatch(found.offsets, left[found.subscription].astype(np.int32))


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
