"""Time `tiles` on named workloads, a round whenever a line on the standard input asks for one.

    python -m bench.tiles.timing 1.0 batch alone tile=256   a share of the subscriptions, workloads, options of `build`
                                            prints the matches of each workload when all indexes are built
    batch                                   a line of the input; prints CPU µs per event of one round

The matches are compared with those of `scan`. A copy of the sources with another constant runs this in a process of its
own (`constants.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time

import numpy as np

from bench.errors import BenchError
from bench.matching.answers import compare
from bench.tiles.workloads import POINTS
from bench.workloads.synthetic import Workload
from matchers import ALGORITHMS, EventBatch, MatchBatch
from matchers.algorithms import tiles
from matchers.contract.tables import Int32

LEAST_S = 0.15  # CPU time of a round


def rounds(workload: Workload, batch: int, options: dict[str, int]) -> tuple[int, Callable[[], float]]:
    """The matches of all events, and a function that times a round: CPU µs per event. Raises BenchError if a match is
    wrong."""
    table, events = workload.table(), workload.batch()
    matcher = tiles.build(table, **options)
    parts = [events.part(i, min(i + batch, len(events))) for i in range(0, len(events), batch)]
    match: Callable[[EventBatch], MatchBatch | Int32] = matcher.match if batch > 1 else matcher.alone()
    found = MatchBatch.joined([_batch_of(match(part)) for part in parts])
    if not compare(found, ALGORITHMS["scan"](table).match(events)).same:
        raise BenchError("tiles finds other subscriptions than scan")

    def time_round() -> float:
        begin, n, spent_s = process_time(), 0, 0.0
        while spent_s < LEAST_S:
            for part in parts:
                match(part)
            n += len(events)
            spent_s = process_time() - begin
        return spent_s / n * 1e6

    return len(found.subscription), time_round


def _batch_of(answer: MatchBatch | Int32) -> MatchBatch:
    """The answer for a batch, or for a single event, whose subscriptions come in any order."""
    if isinstance(answer, MatchBatch):
        return answer
    return MatchBatch(np.array([0, len(answer)], np.int64), np.sort(answer))


def main() -> None:
    share, *words = sys.argv[1:]
    options = {name: int(value) for name, _, value in (word.partition("=") for word in words if "=" in word)}
    timed = {}
    for name in (word for word in words if "=" not in word):
        point = POINTS[name]
        found, timed[name] = rounds(point.workload.scaled(float(share)), point.batch, options)
        _say(f"{name} {found}")
    _say("")
    for line in sys.stdin:
        _say(str(timed[line.strip()]()))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
