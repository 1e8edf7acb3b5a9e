"""Every algorithm agrees with the definition on long lists of values and on subscriptions that are the same."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchers import ALGORITHMS, EventBatch, SubscriptionTable
from matchers.algorithms.tiles import dense, sparse
from matchers.kernels.rows import FEW
from tests.property.test_matching import SMALL, listed

pytestmark = pytest.mark.kernels

NASTY = [float("nan"), -np.inf, -1.0, -0.0, 0.0, 5e-324, 2.0**53 - 1, 2.0**53, 2.0**53 + 2, np.inf]
LENGTHS = [0, 1, FEW - 1, FEW, FEW + 1, FEW + 2, 3 * FEW, 70]  # of lists; 70 is beyond what tiles compare one by one


@st.composite
def tables_of_lists(draw: st.DrawFn) -> tuple[SubscriptionTable, EventBatch]:
    """Some subscriptions repeat others, some contradict themselves, some have no intervals; events hit and miss."""
    r = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    rows: list[tuple[int, int, float, float]] = []
    nasty = np.array(NASTY[1:])
    for s in range(n):
        if s and r.random() < 0.4:
            twin = int(r.integers(s))
            rows += [(s, *row[1:]) for row in rows if row[0] == twin]
            continue
        for c in r.choice(d, int(r.integers(0, d + 1)), replace=False).tolist():
            length = int(r.choice(LENGTHS))
            low = r.permutation(300)[:length].astype(float)
            low = np.where(r.random(length) < 0.1, r.choice(nasty, length), low)
            high = low + np.where(r.random(length) < 0.7, 0.0, r.choice([0.25, 0.5, 1.0], length))
            rows += [(s, c, a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
            if r.random() < 0.1:
                rows.append((s, c, 1.0, 0.0))  # empty: alone it contradicts itself
    columns = np.array([row[1] for row in rows], int)
    table = SubscriptionTable.from_intervals(
        [row[0] for row in rows],
        columns,
        [row[2] for row in rows],
        [row[3] for row in rows],
        n_subscriptions=n,
        n_columns=d,
    )
    n_events = draw(st.sampled_from([1, 3, 70]))
    count = int(n_events * (d + 1) * r.choice([0.5, 1.0, 2.0]))
    hits = np.array([row[2] for row in rows] or [0.0])
    kind = r.random(count)
    value = np.where(kind < 0.5, r.choice(hits, count), np.where(kind < 0.8, r.integers(0, 300, count) + 0.125, 0.0))
    value = np.where(kind > 0.8, r.choice(np.array(NASTY), count), value)
    event, column = r.integers(0, n_events, count), r.integers(0, d + 1, count)
    if r.random() < 0.5:  # no arrays
        _, first = np.unique(event * (d + 1) + column, return_index=True)
        event, column, value = event[first], column[first], value[first]
    return table, EventBatch.from_values(event, column, value, n_events=n_events, n_columns=d + 1)


def answers(name: str, table: SubscriptionTable, events: EventBatch, options: dict[str, Any]) -> list[list[int]]:
    """Return the answers to a batch after checking that events alone have the same."""
    matcher = ALGORITHMS[name](table, **options)
    found = listed(matcher.match(events))
    alone = matcher.alone()
    for e in range(min(len(events), 3)):
        assert alone(events.part(e, e + 1)).tolist() == found[e], name
    return found


@given(both=tables_of_lists())
def test_every_algorithm_finds_values_in_long_lists(both: tuple[SubscriptionTable, EventBatch]) -> None:
    table, events = both
    expected = listed(ALGORITHMS["naive"](table).match(events))
    for name, (algorithm, options) in SMALL.items():
        assert answers(algorithm, table, events, options) == expected, name


@given(both=tables_of_lists())
@pytest.mark.parametrize("way", ["by columns", "by events"])
def test_tiles_find_values_in_long_lists_in_each_of_their_ways(
    way: str, both: tuple[SubscriptionTable, EventBatch]
) -> None:
    table, events = both
    expected = listed(ALGORITHMS["naive"](table).match(events))
    ways = {
        "by columns": patch.multiple(sparse, FEW_OF_COLUMNS=np.inf, SPARSE_OF_COLUMNS=1e6),
        "by events": patch.object(dense, "worth_from", lambda *_: 0),
    }
    with ways[way]:
        assert answers("tiles", table, events, {"fewest": 1}) == expected
