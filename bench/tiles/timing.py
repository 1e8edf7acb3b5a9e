"""Time `tiles` on named workloads, a round whenever a line on the standard input asks for one.

    python -m bench.tiles.timing 1.0 batch alone tile=256   a share of the subscriptions, workloads, options of `build`
                                            prints the matches of each workload when all indexes are built
    batch                                   a line of the input; prints CPU µs per event of one round

A copy of the sources with another constant runs this in a process of its own (`constants.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time

from bench.tiles.workloads import POINTS
from bench.workloads.synthetic import Workload
from matchers import EventBatch, Matcher
from matchers.algorithms import tiles

LEAST_S = 0.15  # CPU time of a round


def rounds(workload: Workload, batch: int, options: dict[str, int]) -> tuple[int, Callable[[], float]]:
    """The matches of all events, and a function that times a round: CPU µs per event."""
    matcher, events = tiles.build(workload.table(), **options), workload.batch()
    parts = [events.part(i, min(i + batch, len(events))) for i in range(0, len(events), batch)]
    match = _matching(matcher, batch)
    found = sum(match(part) for part in parts)

    def time_round() -> float:
        begin, n, spent_s = process_time(), 0, 0.0
        while spent_s < LEAST_S:
            for part in parts:
                match(part)
            n += len(events)
            spent_s = process_time() - begin
        return spent_s / n * 1e6

    return found, time_round


def _matching(matcher: Matcher, batch: int) -> Callable[[EventBatch], int]:
    if batch > 1:
        return lambda events: len(matcher.match(events).subscription)
    alone = matcher.alone()
    return lambda event: len(alone(event))


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
