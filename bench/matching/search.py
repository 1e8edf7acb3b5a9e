"""`auto` and `tiles` against the best of all exact algorithms, on configurations drawn at random."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bench.matching.choices import compare
from bench.workloads.configurations.configuration import LIST, MIXED, RANGE, Configuration
from bench.workloads.configurations.drawing import configuration
from bench.workloads.configurations.workload import RandomWorkload

WORST = 10


def drawn(seed: int, numbers: Iterable[int], most_subscriptions: int) -> Iterator[Configuration]:
    """The configurations of these numbers that have at most so many subscriptions."""
    for number in numbers:
        found = configuration(seed, number)
        if found.subscriptions <= most_subscriptions:
            yield found


def rows(found: Configuration, algorithms: list[str], batches: Sequence[int]) -> Iterator[dict[str, Any]]:
    """The settings of a configuration and what was measured, for each batch. Raises BenchError."""
    for point in compare(found.name, RandomWorkload(found), algorithms, batches):
        yield {**found.as_data(), **point.as_data(), "tiles_ratio": point.tiles_us / point.best_us}


def worst(measured: Iterable[Mapping[str, Any]], ratio: str) -> list[Mapping[str, Any]]:
    """The rows with the greatest ratios, descending."""
    return sorted(measured, key=lambda row: -float(row[ratio]))[:WORST]


def described(row: Mapping[str, Any]) -> str:
    """The settings of a row's configuration, in words."""
    n, different = int(row["subscriptions"]), int(row["different"])
    several = f"{row['list_length']} values" if row["operator"] in (LIST, MIXED) else ""
    up_to = "up to " if str(row["mixed_widths"]) == "True" else ""
    width = f"{up_to}{float(row['width']):g} wide" if row["operator"] in (RANGE, MIXED) else ""
    parts = (
        f"{n:,} subscriptions" + (f" ({different:,} different)" if different < n else ""),
        f"{row['predicates']} of {row['attributes']} attributes ({row['popularity']})",
        " ".join(filter(None, (str(row["operator"]), width, several))),
        f"values {row['values']}" + (f" of {row['codes']} codes" if row["codes"] else ""),
        "correlated" if str(row["correlated"]) == "True" else "",
        f"events {row['event_kind']}, of {row['event_size']} attributes",
    )
    return "; ".join(filter(None, parts))
