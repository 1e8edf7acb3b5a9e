"""Batches that are matched in lanes: many events of every size of line, against `naive`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from matchers import ALGORITHMS, EventBatch, Interfaces, SubscriptionTable

pytestmark = pytest.mark.kernels


def random_table(rng: np.random.Generator, n: int, columns: int, most: int) -> SubscriptionTable:
    """Few whole numbers, so that bounds and values coincide; every third predicate has two intervals."""
    rows: list[tuple[int, int, float, float]] = []
    for s in range(n):
        for c in rng.choice(columns, rng.integers(0, most + 1), replace=False).tolist():
            if rng.random() < 1 / 20:
                rows.append((s, c, np.inf, -np.inf))
                continue
            low = float(rng.choice([-np.inf, 1, 2, 3, 4, 5]))
            high = float(rng.choice([max(low, 1.0), 6, 9, np.inf]))
            rows.append((s, c, low, high))
            if high < 9 and rng.random() < 1 / 3:
                rows.append((s, c, 8.0, float(rng.choice([8, 9, np.inf]))))
    subscription, column, lows, highs = zip(*rows, strict=True)
    return SubscriptionTable.from_intervals(subscription, column, lows, highs, n_subscriptions=n, n_columns=columns)


def random_events(rng: np.random.Generator, n: int, columns: int, absent: float) -> EventBatch:
    values = rng.integers(0, 10, (n, columns)).astype(np.float64)
    values[rng.random((n, columns)) < 0.1] = np.inf
    values[rng.random((n, columns)) < 0.1] = -np.inf
    values[rng.random((n, columns)) < absent] = np.nan
    return EventBatch.from_dense(values)


def listed(result: Any) -> list[list[int]]:
    return [result.of(e).tolist() for e in range(len(result))]


@pytest.mark.parametrize("name", ["counting", "ocm", "opindex", "sff"])
@pytest.mark.parametrize("n_events", [5, 8, 9, 33, 64, 150])
@pytest.mark.parametrize("absent", [0.0, 0.5, 0.95])
def test_a_batch_has_the_matches_of_its_events(name: str, n_events: int, absent: float) -> None:
    rng = np.random.default_rng([n_events, int(absent * 100)])
    table, events = random_table(rng, 70, 6, 3), random_events(rng, n_events, 8, absent)
    expected = ALGORITHMS["naive"](table).match(events)
    matcher = ALGORITHMS[name](table)
    assert listed(matcher.match(events)) == listed(expected)
    interfaces = Interfaces.from_ids(rng.integers(0, 5, 70), 5)
    assert listed(matcher.forward(events, interfaces)) == listed(interfaces.behind(expected))


@pytest.mark.parametrize("name", ["counting", "ocm", "opindex", "sff"])
def test_so_has_a_batch_with_an_array(name: str) -> None:
    rng = np.random.default_rng(1)
    table = random_table(rng, 70, 6, 3)
    event, column = (at.ravel().tolist() for at in np.mgrid[0:40, 0:6])
    value = rng.integers(0, 10, len(event)).astype(np.float64).tolist()
    arrays = {"event": [*event, 7, 7], "column": [*column, 2, 2], "value": [*value, 1.0, 8.0]}
    events = EventBatch.from_values(**arrays, n_events=40, n_columns=6)
    assert listed(ALGORITHMS[name](table).match(events)) == listed(ALGORITHMS["naive"](table).match(events))
