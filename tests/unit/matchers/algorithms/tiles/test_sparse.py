"""Tiles match events that have few of many columns as the table says, and by these columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest

from matchers import EventBatch, SubscriptionTable
from matchers.algorithms import tiles
from matchers.algorithms.tiles import Tiles, sparse
from matchers.algorithms.tiles.kernels.arrays import CANDIDATES_AT_ONCE
from tests.support.generators.algorithms import UNCOMPILED
from tests.unit.matchers.agreement import agrees

pytestmark = pytest.mark.kernels

D = 40  # columns
MOST = 300 if UNCOMPILED else 1_200  # events


@cache
def index(n: int = 400, **options: int) -> tuple[SubscriptionTable, Tiles]:
    """Subscriptions of none to five columns, mostly three and more; some of several intervals, of none, the same."""
    r = np.random.default_rng(1)
    rows = [
        (s, int(c), low, low + r.choice([0.0, 1.0, 6.0]))
        for s in range(n)
        for c in r.choice(D, r.choice([0, 1, 2, 3, 4, 5], p=[0.01, 0.02, 0.1, 0.3, 0.3, 0.27]), replace=False)
        for low in sorted(r.choice(10, 1 + int(r.random() < 0.1), replace=False).tolist())
    ]
    rows += [(n, 3, 1.0, 0.0)]
    rows += [(n + 1 + i, c, 0.0, 9.0) for i in range(5) for c in (7, 8, 9)]
    subscription, column, low, high = zip(*rows, strict=True)
    kept, seen = [], dict[tuple[int, int], float]()
    for i in range(len(rows)):  # intervals of a column are disjoint
        if low[i] > seen.get((subscription[i], column[i]), -np.inf):
            kept.append(i)
            seen[subscription[i], column[i]] = high[i]
    chosen = [[values[i] for i in kept] for values in (subscription, column, low, high)]
    table = SubscriptionTable.from_intervals(*chosen, n_subscriptions=n + 6, n_columns=D)
    return table, tiles.build(table, **options)


def events_like(table: SubscriptionTable, n: int, values: int = 6, seed: int = 1) -> EventBatch:
    """Each has the columns of some subscription, and others, some of them several times or known to no table."""
    r = np.random.default_rng(seed)
    event, column = [], []
    for e in range(n):
        s = int(r.integers(table.n_subscriptions))
        own = table.column[table.start[s] : table.start[s + 1]].tolist()
        own += r.integers(0, D + 3, max(values - len(own), 0)).tolist()
        event += [e] * len(own)
        column += own
    value = r.integers(0, 12, len(column)).astype(float)
    return EventBatch.from_values(event, column, value, n_events=n, n_columns=D + 3)


def columns_of(matcher: Tiles, u: int) -> list[int]:
    a = matcher.arrays
    return sorted(set(a.range[3 * a.start[u] : 3 * a.start[u + 1] : 3].tolist()))


def filed(matcher: Tiles) -> Iterator[tuple[int, list[int]]]:
    index = matcher.by_columns
    for c in range(D + 1):
        for g in range(index.pair_start[c], index.pair_start[c + 1]):
            for i in range(index.begin[g], index.begin[g + 1]):
                yield int(index.slot[i]), [c, int(index.second[g]), int(index.third[i]), int(index.fourth[i])]


def test_each_slot_is_filed_once_under_the_rarest_of_its_columns() -> None:
    _, matcher = index()
    slots = len(matcher.arrays.start) - 1
    count = np.bincount([c for u in range(slots) for c in columns_of(matcher, u)], minlength=D)
    seen = []
    for u, under in filed(matcher):
        seen.append(u)
        own = columns_of(matcher, u)
        rest = [count[c] for c in own if c not in under]
        assert len(set(under) - {D}) == min(len(own), 4)
        assert set(under) - {D} <= set(own)
        assert all(count[c] <= least for least in rest for c in under if c < D)
    assert sorted(seen) == list(range(slots))


@pytest.mark.parametrize("n", [1, 2, 3, 64, 65, MOST])
@pytest.mark.parametrize("options", [{}, {"threads": 2}, {"tile": 8, "fewest": 1}])
def test_sparse_events_match_as_scan_does_without_tiles(n: int, options: dict[str, int]) -> None:
    table, matcher = index(**options)
    for seed in range(3):
        events = events_like(table, n, seed=seed)
        agrees(matcher, table, events)
        assert matcher.profile(events)["tiles tested"] == 0
    assert len(matcher.match(events_like(table, 64)).subscription) > 64


def test_events_alone_match_as_scan_does() -> None:
    table, matcher = index()
    alone = matcher.alone()
    for values in (0, 3, 6, D // 2):
        events = events_like(table, 40, values)
        expected = matcher.match(events)
        for e in range(40):
            assert alone(events.part(e, e + 1)).tolist() == expected.of(e).tolist()


def test_an_event_without_values_matches_subscriptions_without_columns() -> None:
    table, matcher = index()
    for n in (1, 3, 600):
        agrees(matcher, table, EventBatch.from_values([], [], [], n_events=n, n_columns=D))


def test_events_of_many_columns_are_matched_by_tiles() -> None:
    table, matcher = index()
    events = events_like(table, 70, values=D // 2)
    agrees(matcher, table, events)
    assert matcher.profile(events)["tiles tested"] > 0


def test_tables_of_few_columns_are_not_filed() -> None:
    table = SubscriptionTable.from_intervals([0, 0], [0, 1], [0.0, 0.0], [1.0, 1.0], n_subscriptions=1, n_columns=10)
    assert len(tiles.build(table).by_columns.slot) == 0


def crowded(n: int) -> tuple[SubscriptionTable, Tiles, EventBatch]:
    """Events that have the columns of all subscriptions, few of which they match."""
    r = np.random.default_rng(2)
    low = r.integers(0, 50, 3 * n).astype(float)
    subscription, column = np.repeat(np.arange(n), 3), np.tile([4, 11, 30], n)
    table = SubscriptionTable.from_intervals(subscription, column, low, low + 9, n_subscriptions=n, n_columns=D)
    value = r.integers(0, 60, 3 * 100).astype(float)
    events = EventBatch.from_values(
        np.repeat(np.arange(100), 3), np.tile([4, 11, 30], 100), value, n_events=100, n_columns=D
    )
    return table, tiles.build(table), events


def test_where_columns_leave_too_many_candidates_tiles_match() -> None:
    table, matcher, events = crowded(300)
    assert len(matcher.by_columns.slot)
    agrees(matcher, table, events)
    assert matcher.profile(events)["tiles tested"] > 0
    alone = matcher.alone()
    for e in range(20):
        assert alone(events.part(e, e + 1)).tolist() == matcher.match(events).of(e).tolist()


def test_candidates_are_verified_some_at_a_time_and_results_find_room() -> None:
    _, matcher, events = crowded(300)
    counters = np.zeros(len(tiles.COUNTERS), np.int64)
    expected = matcher.match(events)
    for matches in (sparse.MATCHES, 1):
        with patch.object(sparse, "MATCHES", matches):
            found = sparse.match(events, (0, 100), D, matcher._filed, 300, counters)
        assert found is not None
        assert found.subscription.tolist() == expected.subscription.tolist()
        assert found.offsets.tolist() == expected.offsets.tolist()
    assert counters[tiles.COUNTERS.index("candidates")] >= 100 * 300 > 10 * CANDIDATES_AT_ONCE
    assert sparse.match(events, (0, 100), D, matcher._filed, 200, counters) is None


def test_batches_of_several_chunks_leave_nothing_to_the_next() -> None:
    table, matcher = index()
    with patch.object(sparse, "LAID_OUT", 1):
        agrees(matcher, table, events_like(table, MOST))
        agrees(matcher, table, events_like(table, 600, seed=4))


def test_the_model_agrees_with_the_counters() -> None:
    table, matcher = index()
    profile = matcher.profile(events_like(table, 200))
    assert profile["candidates"] == pytest.approx(profile["candidates, by the model"])
    assert profile["candidates"] > 1
