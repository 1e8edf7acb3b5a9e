"""How long a matcher that can takes to insert subscriptions one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import nan
from time import perf_counter

from bench.candidates import Candidate, options_of
from bench.workloads import Workload

INSERTED = 100


def us_per_insert(candidate: Candidate, workload: Workload) -> float:
    """NaN for a matcher that is only built. It holds the workload before, and gets subscriptions of the same kind."""
    room = {"capacity": INSERTED, "psi": max(1, workload.predicates[1])}
    known = {name: value for name, value in room.items() if name in options_of(candidate.algorithm)}
    matcher = replace(candidate, options={**known, **candidate.options}).build(workload.table())
    insert = getattr(matcher, "insert", None)
    if insert is None:
        return nan
    table = replace(workload, subscriptions=INSERTED, seed=workload.seed + 1).table()
    ends = table.start.tolist()
    new = [
        (table.column[begin:end].tolist(), table.low[begin:end].tolist(), table.high[begin:end].tolist())
        for begin, end in pairwise(ends)
    ]
    insert(*new[0])  # compiles
    begin_s = perf_counter()
    for columns, low, high in new[1:]:
        insert(columns, low, high)
    return (perf_counter() - begin_s) / (len(new) - 1) * 1e6
