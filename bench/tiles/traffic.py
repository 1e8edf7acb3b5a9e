"""Count the bytes that `tiles` reads and writes per event, from its counters and the sizes of its arrays.

    python -m bench.tiles.traffic           1,000,000 subscriptions and a batch of 8,192; other numbers as arguments

A part is read from the nearest caches or from memory. Rows are read from memory once per batch at most. These are
counts, not measurements: hardware counters would include what the caches lose in between.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from bench.markdown import table_lines
from bench.workloads.synthetic import Workload
from matchers import EventBatch
from matchers.algorithms import tiles
from matchers.algorithms.tiles import Tiles

LINE = 64  # bytes
CELL, RANGE, BOUND, ID = 2, 6, 8, 4  # bytes of a cell, of an interval's cells, of a double and of a subscription
LAID_OUT = 14  # bytes of an event in a column


def traffic(matcher: Tiles, events: EventBatch) -> dict[str, tuple[float, float]]:
    """Return, by part of the index, bytes per event in the nearest caches, and at most how many come from memory."""
    index, n, d = matcher.arrays, len(events), len(matcher.arrays.begin)
    counted = matcher.profile(events)
    parents, all_tiles = len(index.parent) - 1, len(index.local)
    of_families = float(index.parent_test[-1])
    per_tile = (float(index.test[-1]) - float(index.test[0])) / max(all_tiles, 1)
    tests = CELL * (of_families + per_tile * counted["tiles tested"])
    rows = LINE * counted["rows read"]
    lines = 1 + -(-RANGE * len(index.low) // max(len(index.start) - 1, 1) // LINE) + 1  # of a slot: start, its cells
    candidates = LINE * lines * counted["verified"]
    matches = counted["matches"] * (2 * LINE + 3 * ID)
    of_tests = 8.0 * len(index.test_column) + 4.0 * (parents + all_tiles)
    return {
        "layout": (float(LAID_OUT * d + (BOUND + ID) * len(events.column) / max(n, 1)), LAID_OUT * d),
        "tests": (tests, min(tests, of_tests / max(n, 1))),
        "rows": (rows, min(rows, index.words.nbytes / max(n, 1))),
        "candidates": (candidates, candidates),
        "matches": (matches, matches),
    }


def main() -> None:
    n, batch = map(int, sys.argv[1:]) if len(sys.argv) == 3 else (1_000_000, 8_192)
    workload = replace(Workload(), subscriptions=n, events=batch)
    parts = traffic(tiles.build(workload.table()), workload.batch())
    together = {"together": tuple(np.sum(list(parts.values()), axis=0))}
    rows = [(name, f"{near:,.0f}", f"{far:,.0f}") for name, (near, far) in (parts | together).items()]
    sys.stdout.writelines(table_lines(("part", "bytes per event", "of them from memory, at most"), rows))


if __name__ == "__main__":
    main()
