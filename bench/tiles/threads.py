"""Time `tiles` on several threads.

    python -m bench.tiles.threads                1,000,000 subscriptions; another number as an argument

Threads double up to the cores of the machine, in batches of 64, 256, 1,024 and 8,192 events. Wall time, the least of
interleaved rounds; each answer is compared with that of one thread.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from bench.errors import BenchError
from bench.markdown import table_lines
from bench.workloads.synthetic import Workload
from matchers.algorithms import tiles
from matchers.contract.tables import Int32

BATCHES = (64, 256, 1_024, 8_192)  # events at once
ROUNDS = 30
EVENTS = 2_048  # of a round, at least


@dataclass(frozen=True)
class ThreadsRow:
    threads: int
    us: dict[int, float]  # wall time per event, by the size of a batch


def time_threads(workload: Workload, most: int, rounds: int = ROUNDS) -> list[ThreadsRow]:
    """Rows for 1, 2, 4, … threads. Raises BenchError if an answer is wrong."""
    events = workload.batch()
    one = tiles.build(workload.table(), threads=1)
    built = {n: replace(one, threads=n) for n in (1 << i for i in range(most.bit_length())) if n <= most}
    expected = one.match(events)
    us = {n: dict.fromkeys(BATCHES, np.inf) for n in built}
    for batch in BATCHES:
        parts = [events.part(i, min(i + batch, len(events))) for i in range(0, min(EVENTS, len(events)), batch)]
        for turn in range(rounds + 1):  # the first is not counted, and its answers are compared
            for n, index in built.items():
                begin_s = perf_counter()
                found = [index.match(part) for part in parts]
                spent = (perf_counter() - begin_s) / sum(map(len, parts)) * 1e6
                us[n][batch] = min(us[n][batch], spent) if turn else np.inf
                if not turn:
                    _compare(n, np.concatenate([part.subscription for part in found]), expected.subscription)
    return [ThreadsRow(n, us[n]) for n in built]


def _compare(threads: int, found: Int32, expected: Int32) -> None:
    if not np.array_equal(found, expected[: len(found)]):
        raise BenchError(f"{threads} threads find other subscriptions than one")


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    headers = ["threads", *(f"batches of {batch:,}, µs" for batch in BATCHES), *("times as fast" for _ in BATCHES)]
    rows = time_threads(Workload(subscriptions=n, events=max(BATCHES)), os.cpu_count() or 1)
    cells = []
    for row in rows:
        times = (f"{us:,.2f}" for us in row.us.values())
        ratios = (f"{rows[0].us[batch] / us:.2f}" for batch, us in row.us.items())
        cells.append((str(row.threads), *times, *ratios))
    sys.stdout.writelines(table_lines(headers, cells, texts=()))


if __name__ == "__main__":
    main()
