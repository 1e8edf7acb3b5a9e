"""Tiles match events that match much subscription by subscription, as the table says."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from matchers import EventBatch, SubscriptionTable
from matchers.algorithms import tiles
from matchers.algorithms.tiles import Tiles, dense
from matchers.algorithms.tiles.dense import NEVER_DENSE
from tests.support.generators.algorithms import UNCOMPILED
from tests.unit.matchers.agreement import agrees, random_batch, random_table, uniform_table

pytestmark = pytest.mark.kernels

MOST = 130 if UNCOMPILED else 1_300  # subscriptions, and events


def by_events(table: SubscriptionTable, **options: int) -> Tiles:
    return replace(tiles.build(table, **options), dense_from=3)


def points(n: int, d: int, seed: int = 1) -> EventBatch:
    r = np.random.default_rng(seed)
    return EventBatch.from_dense(np.where(r.random((n, d)) < 0.9, r.random((n, d)), np.nan))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("options", [{}, {"tile": 16, "fewest": 1}, {"tile": 70, "threads": 2}])
def test_random_tables_match_as_scan_does(seed: int, options: dict[str, int]) -> None:
    """Lists, contradictions, the same ones again; events with arrays, without values, with columns of no table."""
    r = np.random.default_rng(seed)
    table = random_table(r, int(r.integers(1, MOST)), int(r.integers(1, 20)))
    with patch.object(tiles.sparse, "FEW_OF_COLUMNS", 0.0):
        matcher = by_events(table, **options)
    for n in (3, 64, 70, MOST // 3):
        agrees(matcher, table, random_batch(r, n, table.n_columns + 1))
        agrees(matcher, table, points(n, table.n_columns, seed))


@pytest.mark.parametrize("n", [1, 63, 64, 65, 511, 512, 513, MOST])
def test_any_number_of_subscriptions_and_events(n: int) -> None:
    table = uniform_table(min(n, MOST), 6, 3, 0.7)
    matcher = by_events(table)
    for events in (3, 65, min(n, MOST)):
        agrees(matcher, table, points(events, 6))
    assert matcher.profile(points(3, 6))["tiles tested"] == 0
    assert len(matcher.match(points(64, 6)).subscription)


def test_values_in_the_first_or_last_cell_of_a_predicate_are_verified_and_no_others() -> None:
    table = uniform_table(200, 6, 3, 0.7)
    events = points(100, 6)
    profile = by_events(table).profile(events)
    within = tiles.build(table).profile(events)
    assert 0 < profile["verified"] < 0.2 * profile["candidates"]
    assert profile["matches"] <= profile["candidates"] <= within["candidates"]
    assert profile["candidates"] == pytest.approx(profile["candidates, by the model"], rel=0.1)


def test_batches_of_several_chunks_leave_nothing_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    table = uniform_table(150, 6, 3, 0.7)
    monkeypatch.setattr(tiles, "MOST_EVENTS", 70)
    agrees(by_events(table), table, points(200, 6))


def test_tiles_are_left_where_events_match_much_and_batches_are_long() -> None:
    n = dense.FEW_SUBSCRIPTIONS
    assert tiles.build(uniform_table(n, 6, 3, 0.7)).dense_from < 512
    assert tiles.build(uniform_table(n - 1, 6, 3, 0.7)).dense_from == NEVER_DENSE
    assert tiles.build(uniform_table(n, 10, 8, 0.1)).dense_from == dense.IF_COUNTED
    with patch.object(dense, "LARGEST", 1 << 10):
        assert tiles.build(uniform_table(n, 6, 3, 0.7)).dense_from == NEVER_DENSE


def together(n: int, d: int) -> SubscriptionTable:
    """Put all predicates of a subscription at one place, so an event on the diagonal hits all or none of them."""
    low = np.repeat(0.7 * np.random.default_rng(1).random(n), d)
    return SubscriptionTable(np.repeat(np.arange(n), d), np.tile(np.arange(d), n), low, low + 0.3, n, d)


def diagonal(n: int, d: int) -> EventBatch:
    return EventBatch.from_dense(np.repeat(np.random.default_rng(2).random((n, 1)), d, axis=1))


@pytest.mark.parametrize("threads", [1, 2])
def test_tiles_are_left_where_counted_candidates_cost_more_whatever_the_model_says(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "FEW_SUBSCRIPTIONS", MOST)
    table = together(MOST, 6)
    matcher = replace(tiles.build(table, threads=threads, tile=16), dense_from=dense.IF_COUNTED)
    for n in (3, 64, 300):
        agrees(matcher, table, diagonal(n, 6))
    left, stayed = matcher.profile(diagonal(300, 6)), matcher.profile(points(300, 6))
    assert left["tiles tested"] == left["rows read"] == 0 < stayed["tiles tested"]
    assert left["candidates"] == by_events(table).profile(diagonal(300, 6))["candidates"]
    assert replace(matcher, dense_from=NEVER_DENSE).profile(diagonal(300, 6))["tiles tested"] > 0
    monkeypatch.setattr(tiles, "MOST_EVENTS", 70)
    agrees(matcher, table, diagonal(200, 6))


def test_candidates_may_cost_as_much_as_the_other_way() -> None:
    arrays = tiles.build(uniform_table(100, 6, 3, 0.7)).arrays
    one, more, half = (dense.most_candidates(n, share, arrays) for n, share in ((64, 1.0), (513, 1.0), (64, 0.5)))
    assert 100 < half < one < more
    assert half == one // 2
    whole = dense.most_candidates(512, 1.0, arrays)
    assert more - whole > whole / 3
