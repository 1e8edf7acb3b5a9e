"""Compare the cost model of `tiles` with its counters on workloads that fit its assumption, and on two that do not.

    python -m bench.tiles.model_error            100,000 subscriptions, 1,024 events; another number as an argument

The model takes columns as independent of each other. `correlated` and `opposed` break that on purpose.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bench.markdown import table_lines
from bench.papers.tiles import PCM
from bench.workloads.distributions import Distribution
from bench.workloads.repeated import Repeated
from bench.workloads.synthetic import Workload
from matchers import EventBatch, SubscriptionTable
from matchers.algorithms import tiles
from matchers.algorithms.tiles import dense, sparse

SUBSCRIPTIONS, EVENTS = 100_000, 1_024
COUNTERS = ("tiles passed", "rows read", "candidates")
NEAR = 0.05  # how far the values of a correlated row may lie from each other
DIFFERENT = 100  # copies of each subscription among duplicates

Point = Callable[[int, int], tuple[SubscriptionTable, EventBatch]]


@dataclass(frozen=True)
class ModelRow:
    """Counts per event."""

    point: str
    way: str  # "tiles", "dense" or "sparse"
    counted: dict[str, float]  # by counter
    modelled: dict[str, float]  # likewise
    matches: float

    def error(self, counter: str) -> float:
        """The model's value / the counted one, less 1; 0 if both are 0."""
        counted, modelled = self.counted[counter], self.modelled[counter]
        return modelled / counted - 1 if counted else float(np.sign(modelled)) * np.inf if modelled else 0.0


def _synthetic(**settings: object) -> Point:
    def point(n: int, events: int) -> tuple[SubscriptionTable, EventBatch]:
        workload = replace(Workload(), subscriptions=n, events=events, **settings)  # type: ignore[arg-type]
        return workload.table(), workload.batch()

    return point


def _together(sign: int) -> Point:
    """Correlate the columns: the predicates of a subscription lie near one place, and so do the values of an event;
    with `sign` -1 every other value is mirrored."""

    def point(n: int, events: int) -> tuple[SubscriptionTable, EventBatch]:
        workload = replace(Workload(), subscriptions=n, events=events)
        table, batch = workload.table(), workload.batch()
        rng = np.random.default_rng([workload.seed, 2])
        low = rng.random(n)[table.subscription] + NEAR * (rng.random(len(table.column)) - 0.5)
        low = np.clip(low, 0.0, 1.0) * (1 - workload.width)
        value = np.repeat(rng.random(events), np.diff(batch.offsets))
        value = value + NEAR * (rng.random(len(value)) - 0.5)
        value = np.where((batch.column % 2 == 1) & (sign < 0), 1.0 - value, value)
        events_of = EventBatch(batch.offsets, batch.column, np.clip(value, 0.0, 1.0), workload.attributes)
        return SubscriptionTable(
            table.subscription, table.column, low, low + workload.width, n, workload.attributes
        ), events_of

    return point


def _repeated(n: int, events: int) -> tuple[SubscriptionTable, EventBatch]:
    different = replace(Workload(), subscriptions=max(n // DIFFERENT, 1), events=events)
    prepared = Repeated(n, different).prepared()
    return prepared.table, prepared.events


def _filters(n: int, events: int) -> tuple[SubscriptionTable, EventBatch]:
    workload = replace(PCM, subscriptions=n, events=events)
    return workload.table(), workload.batch()


ZIPF, SPOTS = Distribution("zipf", 1.0), Distribution("hotspots", 8.0)
POINTS: dict[str, Point] = {
    "uniform, width 0.3": _synthetic(),
    "width 0.05": _synthetic(width=0.05),
    "width 0.7": _synthetic(width=0.7),
    "values by zipf:1": _synthetic(values=ZIPF, event_values=ZIPF),
    "clustered: hotspots:8": _synthetic(values=SPOTS, event_values=SPOTS),
    "correlated": _together(1),
    "opposed": _together(-1),
    "one column, width 0.001": _synthetic(attributes=1, predicates=(1, 1), width=0.001),
    "1,000 columns, full events": _synthetic(attributes=1_000),
    "each 100 times": _repeated,
    "sparse: PCM's mixture": _filters,
}


def compare_model(name: str, n: int = SUBSCRIPTIONS, events: int = EVENTS) -> list[ModelRow]:
    """Build the index, and count and estimate its work: the way that it chooses, and tiles if that is `dense`."""
    table, batch = POINTS[name](n, events)
    chosen = tiles.build(table)
    rows = []
    for matcher in (chosen, replace(chosen, dense_from=dense.NEVER_DENSE)):
        profile = matcher.profile(batch)
        is_sparse = len(batch.column) <= len(batch) * sparse.most_values(matcher.by_columns)
        way = "tiles" if profile["tiles tested"] else "sparse" if is_sparse else "dense"
        modelled = {counter: profile[f"{counter}, by the model"] for counter in COUNTERS}
        rows.append(ModelRow(name, way, {c: profile[c] for c in COUNTERS}, modelled, profile["matches"]))
    return rows if rows[0].way == "dense" else rows[:1]


def cells(row: ModelRow) -> list[str]:
    """A row of the table: counted, by the model and the error of each counter that this way of matching has."""
    texts = [row.point, row.way]
    for counter in COUNTERS:
        counted, modelled = row.counted[counter], row.modelled[counter]
        texts += [f"{counted:,.1f}", f"{modelled:,.1f}", f"{100 * row.error(counter):+.0f} %"] if counted else [""] * 3
    return [*texts, f"{row.matches:,.1f}"]


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else SUBSCRIPTIONS
    headers = ["workload", "way", *(text for c in COUNTERS for text in (c, "model", "error")), "matches"]
    rows = (cells(row) for name in POINTS for row in compare_model(name, n))
    for line in table_lines(headers, rows, texts=(0, 1)):
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
