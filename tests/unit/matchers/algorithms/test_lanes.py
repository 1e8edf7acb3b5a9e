"""Batches whose events are matched together, in lanes or in sets, against `naive`: every size of line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from matchers import ALGORITHMS, EventBatch, Interfaces, SubscriptionTable
from matchers.algorithms import tama
from matchers.algorithms.lanes import Words, list_chunks
from matchers.algorithms.tama.batch import match_batch
from matchers.algorithms.tama.kernel import Visited
from matchers.papers.updates.tama import UpdatableTama

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


def together(built: tama.Tama, events: EventBatch, group: int) -> list[list[int]]:
    """The matches of `tama` in groups of events and blocks of 64 subscriptions."""
    start, ids, edge_start, rows = built.contents
    visited = Visited(start[:-1], start[1:], ids, edge_start[:-1], edge_start[1:], rows)

    def mark(base: int, bits: Words) -> None:
        arrays, n = events.arrays, built.n_subscriptions
        match_batch(base, arrays, built.cells, visited, built.intervals, built.needed, n, bits, group, 64)

    return listed(list_chunks(mark, len(events), built.n_subscriptions, group=group))


@pytest.mark.parametrize("n_events", [1, 9, 33, 150])
@pytest.mark.parametrize("group", [1, 8, 64])
@pytest.mark.parametrize("levels", [0, 2, 13])
def test_tama_matches_groups_of_events_in_blocks_of_subscriptions(n_events: int, group: int, levels: int) -> None:
    rng = np.random.default_rng([n_events, group, levels])
    table, events = random_table(rng, 150, 6, 5), random_events(rng, n_events, 8, 0.2)
    assert together(tama.build(table, levels), events, group) == listed(ALGORITHMS["naive"](table).match(events))


def test_tama_counts_more_columns_than_a_byte_does() -> None:
    columns = np.arange(300)
    bounds = {"low": [1.0] * 301, "high": [2.0] * 301}
    table = SubscriptionTable.from_intervals([0] * 300 + [1], [*columns, 0], **bounds, n_subscriptions=2, n_columns=300)
    values = np.full((2, 300), 1.5)
    values[1, -1] = 3.0
    assert together(tama.build(table), EventBatch.from_dense(values), 2) == [[0, 1], [1]]


@pytest.mark.parametrize(("width", "pays"), [(0.02, False), (0.7, True)])
def test_tama_matches_events_together_where_they_hit_many_intervals(
    width: float, pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def counted(base: int, *rest: Any) -> None:
        calls.append(base)
        match_batch(base, *rest)

    monkeypatch.setattr(tama, "match_batch", counted)
    monkeypatch.setattr(tama, "SMALLEST", 0)
    rng = np.random.default_rng(5)
    low = rng.random(6_000)
    table = SubscriptionTable.from_intervals(
        np.repeat(np.arange(2_000), 3),
        np.tile(np.arange(3), 2_000),
        low,
        low + width,
        n_subscriptions=2_000,
        n_columns=3,
    )
    events = EventBatch.from_dense(rng.random((140, 3)))
    built, expected = tama.build(table), listed(ALGORITHMS["scan"](table).match(events))
    assert listed(built.match(events)) == expected
    assert calls == [0] * pays
    assert together(built, events, 128) == expected
    event, column = (at.ravel().tolist() for at in np.mgrid[0:140, 0:3])
    arrays = EventBatch.from_values([*event, 7], [*column, 2], rng.random(421), n_events=140, n_columns=3)
    calls.clear()
    assert listed(built.match(arrays)) == listed(ALGORITHMS["scan"](table).match(arrays))
    assert calls == []


def test_a_changed_index_of_tama_matches_events_together_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    table, events = random_table(rng, 150, 6, 3), random_events(rng, 60, 8, 0.2)
    index = UpdatableTama(table)
    index.insert(random_table(rng, 40, 6, 3))
    index.delete(range(0, 190, 7))
    one_by_one = listed(index.match(events))
    monkeypatch.setattr(tama, "SMALLEST", 0)
    monkeypatch.setattr(tama, "pays", lambda *_: True)
    monkeypatch.setattr(tama, "tama", None)  # must not be called
    assert listed(index.match(events)) == one_by_one
    assert any(one_by_one)
