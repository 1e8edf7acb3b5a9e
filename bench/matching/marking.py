"""Measure the marking of HEM and of REIN alone: line 7 of HEM's Algorithm 2, and all marks of REIN."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import nan
from time import process_time

import numpy as np

from bench.matching.answers import compare
from bench.matching.candidates import MeasuredAlgorithm
from bench.workloads.synthetic import Workload
from matchers import ALGORITHMS
from matchers.algorithms.hem import Hem
from matchers.algorithms.hem.kernel import MARK
from matchers.contract.matcher import Matcher
from matchers.contract.tables import EventBatch, Int64
from matchers.papers.rein import Rein
from matchers.papers.rein.kernel import mark_group, read_group, room_for

ROUNDS = 3
CHECKED = 32  # events that are matched afterwards, at most


def marking_us(candidate: MeasuredAlgorithm, workload: Workload) -> tuple[float, bool]:
    """Return the processor time per event in µs, NaN for other algorithms, and whether the index matches like `scan`.

    Marking runs for one event at a time; a run without it is subtracted. Each event counts with the least of some
    rounds, so the pairs come from a cache if the index fits there.
    """
    small = candidate.build(workload.small().table())
    if not isinstance(small, Hem | Rein):
        return nan, True
    batch = workload.batch()
    events = [batch.part(i, i + 1) for i in range(len(batch))]
    for task in _tasks(small, events[0]):
        task()  # compiles
    table = workload.table()
    index = candidate.build(table)
    us = 0.0
    for event in events:
        without, marked = _tasks(index, event)
        rounds = [(_us(without), _us(marked)) for _ in range(ROUNDS)]
        us += min(us for _, us in rounds) - min(us for us, _ in rounds)
    some = batch.part(0, CHECKED)
    right = compare(index.match(some), ALGORITHMS["scan"](table).match(some)).right(candidate.approximate)
    return us / len(events), right


def _tasks(index: Matcher, event: EventBatch) -> tuple[Callable[[], object], Callable[[], object]]:
    """The work on an event before marking, and with marking."""
    if isinstance(index, Hem):
        return partial(index.run, event, 0), partial(index.run, event, MARK)
    assert isinstance(index, Rein)
    lists, n_columns, n = index.lists, len(index.lists.begin), len(index.rows.several)
    group = room_for(n_columns, n)
    read_group(0, 1, event.arrays, group)

    def mark(columns: Int64) -> None:
        mark_group(1, n, group, lists, columns, lists, -1)

    return partial(mark, np.empty(0, np.int64)), partial(mark, np.arange(n_columns))


def _us(task: Callable[[], object]) -> float:
    begin_s = process_time()
    task()
    return (process_time() - begin_s) * 1e6
