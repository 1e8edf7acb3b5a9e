"""Measure how long an algorithm that updates in place takes to insert subscriptions one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import nan
from time import perf_counter

from bench.matching.candidates import Candidate
from bench.workloads.synthetic import Workload
from matchers import ALGORITHMS

INSERTED = 100


def us_per_insert(candidate: Candidate, workload: Workload) -> float:
    """NaN for an algorithm that is only built. It holds the workload before, and gets subscriptions of the same
    kind."""
    build = ALGORITHMS[candidate.algorithm].updatable
    if build is None:
        return nan
    room = {"capacity": INSERTED, "psi": max(1, workload.predicates[1])}
    matcher = build(workload.table(), **room, **candidate.options)
    table = replace(workload, subscriptions=INSERTED, seed=workload.seed + 1).table()
    ends = table.start.tolist()
    new = [
        (table.column[begin:end].tolist(), table.low[begin:end].tolist(), table.high[begin:end].tolist())
        for begin, end in pairwise(ends)
    ]
    matcher.insert(*new[0])  # compiles
    begin_s = perf_counter()
    for columns, low, high in new[1:]:
        matcher.insert(columns, low, high)
    return (perf_counter() - begin_s) / (len(new) - 1) * 1e6
