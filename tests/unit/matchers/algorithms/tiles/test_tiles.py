"""The layout of tiles, and matches equal to those of the table."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from matchers import ALGORITHMS, EventBatch, MatchingError, SubscriptionTable
from matchers.algorithms import tiles
from matchers.algorithms.tiles import FAMILY, TILE, Tiles, clustering
from matchers.algorithms.tiles.kernels.matching import FEW_LEFT
from matchers.algorithms.tiles.kernels.runs_kernel import MatchRuns, arrange, count_matches
from matchers.algorithms.tiles.runs import room_for
from matchers.contract.tables import offsets_of
from matchers.kernels.vectors import WORDS
from tests.support.generators.algorithms import UNCOMPILED
from tests.unit.matchers.agreement import agrees, random_batch, random_table, uniform_table

pytestmark = pytest.mark.kernels

INF = np.inf
GREATEST = float(np.finfo(float).max)
MOST = 250 if UNCOMPILED else 1_500  # subscriptions: uncompiled loops take their time


def table_of(n: int, d: int, rows: list[tuple[int, int, float, float]]) -> SubscriptionTable:
    subscription, column, low, high = ([row[i] for row in rows] for i in range(4))
    return SubscriptionTable.from_intervals(subscription, column, low, high, n_subscriptions=n, n_columns=d)


def single_valued(table: SubscriptionTable, n: int, seed: int = 1) -> EventBatch:
    """Each is a point within some subscription, or just beside it, with other columns at random."""
    r = np.random.default_rng(seed)
    values = np.where(r.random((n, table.n_columns)) < 0.7, r.random((n, table.n_columns)), np.nan)
    for e in range(n):
        s = int(r.integers(table.n_subscriptions))
        for i in range(table.start[s], table.start[s + 1]):
            bounds = np.array([table.low[i], table.high[i]])
            beside = np.nextafter(bounds, [-INF, INF]) if np.isfinite(bounds).all() and r.random() < 0.3 else bounds
            values[e, table.column[i]] = r.choice([*bounds, *beside, np.clip(bounds, -9, 9).mean()])
    return EventBatch.from_dense(values)


def several_valued(table: SubscriptionTable, n: int, seed: int = 1) -> EventBatch:
    """Return events each of which joins two others."""
    one = single_valued(table, 2 * n, seed)
    event = np.repeat(np.arange(2 * n), np.diff(one.offsets)) // 2
    return EventBatch.from_values(event, one.column, one.value, n_events=n, n_columns=table.n_columns)


def narrow_lists() -> SubscriptionTable:
    """Two narrow intervals in each of two or three columns, of few places, so that tiles are tested and rows local."""
    r = np.random.default_rng(1)
    rows = [
        (s, int(c), at, at + 0.02)
        for s in range(400)
        for c in r.choice(4, 2 + s % 2, replace=False)
        for low in [r.integers(0, 40) / 50]
        for at in (low, low + r.integers(1, 5) / 50)
    ]
    return table_of(400, 4, [*rows, (7, 0, 1.0, 0.0)])


def twice(table: SubscriptionTable) -> SubscriptionTable:
    """Each subscription a second time, with a number from n on."""
    n, columns = table.n_subscriptions, table.n_columns
    column, low, high = (np.tile(array, 2) for array in (table.column, table.low, table.high))
    both = np.concatenate((table.subscription, table.subscription + n))
    return SubscriptionTable.from_intervals(both, column, low, high, n_subscriptions=2 * n, n_columns=columns)


SHAPES: dict[str, Any] = {
    "narrow lists": lambda: (narrow_lists(), {"tile": 8, "fewest": 1}),
    "narrow lists, some without a row": lambda: (narrow_lists(), {"tile": 32, "fewest": 24}),
    "random": lambda: (random_table(np.random.default_rng(11), 250, 6), {"tile": 16, "fewest": 1}),
    "whole tiles": lambda: (random_table(np.random.default_rng(4), 250, 6), {}),
    "few rows": lambda: (random_table(np.random.default_rng(5), 250, 12), {"tile": 20, "fewest": 8}),
    "no rows": lambda: (random_table(np.random.default_rng(6), 150, 6), {"tile": 8, "fewest": 9}),
    "many tests": lambda: (uniform_table(200, 10, 9, 0.5), {"tile": 16, "fewest": 4}),
    "wide, so many are left": lambda: (uniform_table(200, 6, 3, 0.7), {"tile": 70, "fewest": 4}),
    "wide, each twice": lambda: (twice(uniform_table(150, 6, 3, 0.7)), {"tile": 70, "fewest": 4}),
    "narrow": lambda: (uniform_table(300, 4, 3, 0.02), {"tile": 8, "fewest": 1}),
    "more ends than cells": lambda: (uniform_table(600, 2, 2, 0.3), {"tile": 64, "fewest": 4}),
    "sparse": lambda: (uniform_table(250, 150, 3, 0.1), {"tile": 16, "fewest": 2}),
}


@cache
def shape(name: str) -> tuple[SubscriptionTable, Tiles]:
    table, options = SHAPES[name]()
    with patch.object(
        clustering, "BROAD", 0.01
    ):  # small tables have few subscriptions that are as narrow as large ones
        return table, tiles.build(table, **options)


def cell(matcher: Tiles, c: int, value: float) -> int:
    a = matcher.arrays
    return 1 + int((a.edge[a.edge_start[c] : a.edge_start[c + 1] - 1] <= value).sum())


def bits(matcher: Tiles, at: int) -> np.ndarray:
    return np.unpackbits(matcher.arrays.words[at : at + WORDS].view(np.uint8), bitorder="little").astype(bool)


def slots(matcher: Tiles, t: int) -> range:
    return range(int(matcher.arrays.slot[t]), int(matcher.arrays.slot[t + 1]))


def ranges_of(matcher: Tiles, u: int) -> dict[int, list[tuple[int, int]]]:
    """The cells that a slot asks for in each of its columns."""
    found: dict[int, list[tuple[int, int]]] = {}
    for i in range(matcher.arrays.start[u], matcher.arrays.start[u + 1]):
        c, first, last = matcher.arrays.range[3 * i : 3 * i + 3].tolist()
        found.setdefault(c, []).append((first, last))
    return found


def place(matcher: Tiles, t: int, r: int, cell: int) -> int:
    """Return the row of r that a cell has."""
    a = matcher.arrays
    if r < a.local[t]:
        return (cell - int(a.row_low[r])) >> int(a.row_shift[r])
    return int(a.offset[a.edge_start[a.row_column[r]] + cell - 1]) // WORDS if cell else 0


def rows_of(matcher: Tiles) -> Iterator[tuple[int, int]]:
    for t in range(len(matcher.arrays.local)):
        for r in range(matcher.arrays.row[t], matcher.arrays.row[t + 1]):
            yield t, r


def hulls_of(matcher: Tiles, first: int, last: int) -> list[tuple[int, int, int]]:
    a = matcher.arrays
    lows, widths = a.test_low[first:last].tolist(), a.test_width[first:last].tolist()
    return [(c, b, b + w) for c, b, w in zip(a.test_column[first:last].tolist(), lows, widths, strict=True)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "options", [{}, {"tile": 16, "fewest": 1}, {"tile": 70, "threads": 2}, {"tile": 1, "fewest": 1}]
)
def test_random_tables_match_as_scan_does(seed: int, options: dict[str, Any]) -> None:
    r = np.random.default_rng(seed)
    table = random_table(r, int(r.integers(0, MOST)), int(r.integers(1, 40)))
    matcher = ALGORITHMS["tiles"](table, **options)
    for n_events in (0, 1, 2, 3, 70, MOST // 7):
        agrees(matcher, table, random_batch(r, n_events, table.n_columns + 1))


@pytest.mark.parametrize("name", SHAPES)
def test_tables_of_each_shape_match_as_scan_does(name: str) -> None:
    table, matcher = shape(name)
    for events in (single_valued(table, 66), several_valued(table, 20), single_valued(table, 2)):
        agrees(matcher, table, events)
        assert len(matcher.match(events).subscription)


@pytest.mark.parametrize("name", SHAPES)
def test_slots_hold_the_intervals_of_the_subscriptions_that_share_them(name: str) -> None:
    table, matcher = shape(name)
    a = matcher.arrays
    seen = []
    for u in range(len(a.start) - 1):
        own = slice(a.start[u], a.start[u + 1])
        for s in a.id[a.id_start[u] : a.id_start[u + 1]].tolist():
            seen.append(s)
            theirs = slice(table.start[s], table.start[s + 1])
            assert a.range[::3][own].tolist() == table.column[theirs].tolist()
            assert a.low[own].tolist() == table.low[theirs].tolist()
            assert a.high[own].tolist() == table.high[theirs].tolist()
        for c, low, high, first, last in zip(
            a.range[::3][own], a.low[own], a.high[own], a.range[1::3][own], a.range[2::3][own], strict=True
        ):
            assert (cell(matcher, c, low), cell(matcher, c, high)) == (first, last)
    never = table.subscription[table.low > table.high]
    assert sorted(seen) == sorted(set(range(table.n_subscriptions)) - set(never.tolist()))


@pytest.mark.parametrize("name", SHAPES)
def test_tests_and_parents_admit_all_that_their_subscriptions_ask_for(name: str) -> None:
    _, matcher = shape(name)
    a = matcher.arrays
    columns = len(a.begin)
    assert a.parent[0] == 0
    assert a.parent[-1] == len(a.local)
    assert a.pivot_start[-1] == len(a.parent) - 1
    tested = 0
    for p in range(len(a.parent) - 1):
        pivot = int(np.searchsorted(a.pivot_start, p, side="right")) - 2
        assert -1 <= pivot < columns
        assert 1 <= a.parent[p + 1] - a.parent[p] <= FAMILY
        of_parent = hulls_of(matcher, a.parent_test[p], a.parent_test[p + 1])
        for t in range(a.parent[p], a.parent[p + 1]):
            of_tile = hulls_of(matcher, a.test[t], a.test[t + 1])
            tested += len(of_tile)
            assert len({c for c, _, _ in of_tile}) == len(of_tile)
            for u in slots(matcher, t):
                asked = ranges_of(matcher, u)
                assert pivot < 0 or pivot in asked
                for c, low, high in of_parent + of_tile:
                    assert all(low <= first and last <= high for first, last in asked[c])
            for c, low, high in of_tile:  # and no more than that
                asked_there = [r for u in slots(matcher, t) for r in ranges_of(matcher, u)[c]]
                assert (low, high) == (min(r[0] for r in asked_there), max(r[1] for r in asked_there))
        shared = set.intersection(
            *(
                {c for c, _, _ in hulls_of(matcher, a.test[t], a.test[t + 1])}
                for t in range(a.parent[p], a.parent[p + 1])
            )
        )
        assert {c for c, _, _ in of_parent} == shared
    assert tested or a.pivot_start[1] == len(a.parent) - 1


@pytest.mark.parametrize("name", SHAPES)
def test_a_bit_of_a_row_says_that_no_value_of_the_cell_can_match(name: str) -> None:
    _, matcher = shape(name)
    a = matcher.arrays
    seen = 0
    for t, r in rows_of(matcher):
        c = int(a.row_column[r])
        for j, u in enumerate(slots(matcher, t)):
            asked = ranges_of(matcher, u).get(c)
            reached = {
                k
                for first, last in asked or []
                for k in range(place(matcher, t, r, first), place(matcher, t, r, last) + 1)
            }
            for k in range(a.row_length[r]):
                excluded = bits(matcher, a.row_at[r] + k * WORDS)[j]
                assert excluded == (asked is not None and k not in reached)
                seen += 1
    assert seen or name == "no rows"


@pytest.mark.parametrize("name", SHAPES)
def test_no_place_beyond_the_last_subscription_is_a_candidate(name: str) -> None:
    _, matcher = shape(name)
    a = matcher.arrays
    for t in range(len(a.local)):
        if a.row[t] < a.row[t + 1]:
            r, m = a.row[t], len(slots(matcher, t))
            for k in range(a.row_length[r]):
                assert bits(matcher, a.row_at[r] + k * WORDS)[m:].all()


@pytest.mark.parametrize("name", SHAPES)
def test_rows_are_of_the_tile_and_first_the_local_ones(name: str) -> None:
    _, matcher = shape(name)
    a = matcher.arrays
    for t in range(len(a.local)):
        assert a.row[t] <= a.local[t] <= a.row[t + 1]
        hulls = {c: (low, high) for c, low, high in hulls_of(matcher, a.test[t], a.test[t + 1])}
        columns = a.row_column[a.row[t] : a.row[t + 1]].tolist()
        assert len(set(columns)) == len(columns)
        for r, c in enumerate(columns, a.row[t]):
            assert (r < a.local[t]) == (c in hulls)
            if c in hulls:
                assert a.row_low[r] == hulls[c][0]
                assert a.row_length[r] == place(matcher, t, r, hulls[c][1]) + 1
            else:
                places = [place(matcher, t, r, k) for k in range(a.edge_start[c + 1] - a.edge_start[c] + 1)]
                assert places == sorted(places)
                assert places[:2] == [0, 1]
                assert places[-1] < a.row_length[r]


def test_a_bit_of_an_inner_row_says_that_not_all_values_of_the_cell_hit() -> None:
    seen = {True: 0, False: 0}
    for name in SHAPES:
        _, matcher = shape(name)
        a = matcher.arrays
        for t in np.flatnonzero(a.inner).tolist():
            columns = a.row_column[a.row[t] : a.row[t + 1]].tolist()
            for j, u in enumerate(slots(matcher, t)):
                asked = ranges_of(matcher, u)
                own = range(a.start[u], a.start[u + 1])
                for r, c in enumerate(columns, a.row[t]):
                    within: set[int] = set()
                    for i in own:
                        if a.range[3 * i] == c:
                            first, last = (place(matcher, t, r, k) for k in a.range[3 * i + 1 : 3 * i + 3].tolist())
                            within |= set(range(first + (a.low[i] > -INF), last + 1 - (a.high[i] < INF)))
                    rowless = r == a.row[t] and not asked.keys() <= set(columns)
                    for k in range(a.row_length[r]):
                        doubtful = bits(matcher, a.row_at[r] + a.inner[t] + k * WORDS)[j]
                        assert doubtful == (rowless or (c in asked and k not in within))
                        seen[bool(doubtful)] += 1
    assert all(seen.values())


def brute_force(matcher: Tiles, events: EventBatch) -> dict[str, float]:
    """Count what `profile` counts, for events with one value per column."""
    a = matcher.arrays
    n, d = len(events), len(a.begin)
    cells = np.zeros((n, d), int)
    for e in range(n):
        for i in range(events.offsets[e], events.offsets[e + 1]):
            if events.column[i] < d:
                cells[e, events.column[i]] = cell(matcher, events.column[i], events.value[i])
    together = n > tiles.ALONE or matcher.matched > tiles.MUCH
    tested = passed = rows = candidates = verified = 0

    def passing(first: int, last: int, which: list[int]) -> list[int]:
        all_of = hulls_of(matcher, first, last)
        return [e for e in which if all(low <= cells[e, c] <= high for c, low, high in all_of)]

    for p in range(len(a.parent) - 1):
        pivot = int(np.searchsorted(a.pivot_start, p, side="right")) - 2
        here = [e for e in range(n) if together or pivot < 0 or cells[e, pivot]]
        here = passing(a.parent_test[p], a.parent_test[p + 1], here)
        n_tiles = a.parent[p + 1] - a.parent[p]
        tested += n_tiles * (-(-n // 64) * 64 * bool(here) if together else len(here))
        for t in range(a.parent[p], a.parent[p + 1]):
            own = range(a.row[t], a.row[t + 1])
            for e in passing(a.test[t], a.test[t + 1], here):
                passed += 1
                rows += len(own)
                left, sure = np.arange(TILE) < len(slots(matcher, t)), np.ones(TILE, bool)
                for r in own:
                    at = a.row_at[r] + place(matcher, t, r, cells[e, int(a.row_column[r])]) * WORDS
                    left &= ~bits(matcher, at)
                    sure &= ~bits(matcher, at + a.inner[t])
                candidates += int(left.sum())
                verified += int((left & ~sure).sum() if a.inner[t] and left.sum() > FEW_LEFT else left.sum())
    counted = zip(tiles.COUNTERS, (tested, passed, rows, candidates, verified), strict=True)
    return {name: float(count) / n for name, count in counted}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("n", [1, 2, 40, 70])
def test_a_profile_tells_what_matching_takes(name: str, n: int) -> None:
    table, matcher = shape(name)
    events = single_valued(table, n)
    profile = matcher.profile(events)
    assert profile["matches"] == len(matcher.match(events).subscription) / n
    assert {name: profile[name] for name in tiles.COUNTERS} == pytest.approx(brute_force(matcher, events))


def test_tiles_and_inner_rows_save_verifying() -> None:
    table = uniform_table(200, 6, 3, 0.7)
    profile = tiles.build(table, tile=70, fewest=4).profile(single_valued(table, 70))
    assert profile["verified"] < 0.7 * profile["candidates"]
    assert profile["matches"] > 0.9 * (profile["candidates"] - profile["verified"]) > 0
    table = uniform_table(300, 4, 3, 0.02)
    profile = tiles.build(table, tile=8, fewest=1).profile(single_valued(table, 64))
    assert profile["tiles passed"] < 0.3 * profile["tiles tested"]


@pytest.mark.parametrize("n", [70, 200])  # by tiles, by events
def test_threads_share_the_work_and_change_nothing(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "BY_EVENTS", 100)
    table = random_table(np.random.default_rng(8), 200, 6)
    one, two = (tiles.build(table, tile=4, fewest=1, threads=threads) for threads in (1, 2))
    events = single_valued(table, n)
    agrees(two, table, events)
    expected, found = one.profile(events), two.profile(events)
    if n == 200:  # a parent is tested for as many as are laid out together
        del expected["tiles tested"], found["tiles tested"]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("threads", [1, 3])
def test_build_threads_change_nothing(threads: int) -> None:
    table = random_table(np.random.default_rng(9), 200, 6)
    expected, found = (tiles.build(table, tile=8, fewest=1, build_threads=k).arrays for k in (1, threads))
    for name, array in expected._asdict().items():
        assert array.tolist() == getattr(found, name).tolist(), name
        assert array.dtype == getattr(found, name).dtype


ODD: dict[str, SubscriptionTable] = {
    "no subscription": table_of(0, 3, []),
    "no column": table_of(3, 0, []),
    "nothing at all": table_of(0, 0, []),
    "all match all": table_of(70, 3, []),
    "one": table_of(1, 3, [(0, 1, 0.0, 1.0)]),
    "one that matches all": table_of(1, 3, []),
    "contradictions only": table_of(5, 3, [(s, s % 3, 1.0, 0.0) for s in range(5)]),
    "all the same": table_of(90, 3, [(s, c, 0.0, c + 0.5) for s in range(90) for c in (0, 2)]),
    "all the same but one": table_of(90, 3, [(s, 1, float(s == 40), 2.0) for s in range(90)]),
    "zeros of both signs": table_of(4, 2, [(s, 0, z, z) for s, z in enumerate([0.0, -0.0, 5e-324, -5e-324])]),
    "points and the greatest": table_of(
        6, 2, [(s, 0, v, v) for s, v in enumerate([-INF, -GREATEST, GREATEST, INF, 2.0**53, 2.0**53 + 2])]
    ),
    "infinite ends": table_of(4, 2, [(0, 0, -INF, INF), (1, 0, -INF, 0.0), (2, 0, 0.0, INF), (3, 0, INF, INF)]),
    "lists": table_of(40, 2, [(s, c, float(s % 7 + 3 * k), s % 7 + 3 * k + 0.5) for s in range(40)
                              for c in (0, 1) for k in range(3)]),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("options", [{}, {"tile": 2, "fewest": 1}, {"tile": 3, "fewest": 1, "threads": 2}])
def test_odd_tables_match_as_scan_does(name: str, options: dict[str, Any]) -> None:
    table = ODD[name]
    matcher = tiles.build(table, **options)
    values = [-INF, -GREATEST, -5e-324, -0.0, 0.0, 5e-324, 0.5, 1.0, 2.0, 2.0**53, 2.0**53 + 2, GREATEST, INF, np.nan]
    pairs = [(a, b) for a in values for b in (0.0, 0.3, 2.0, np.nan)]
    dense = EventBatch.from_dense([[a, b, a, 7.0] for a, b in pairs])
    assert dense.n_columns == 4 > table.n_columns
    agrees(matcher, table, dense)
    for n in (0, 1, 2, 5):
        agrees(
            matcher, table, EventBatch.from_dense(np.array([[a, b, b, a] for a, b in pairs[7 : 7 + n]]).reshape(n, 4))
        )
        agrees(matcher, table, random_batch(np.random.default_rng(n), n, 5))
    agrees(matcher, table, EventBatch.from_values([], [], [], n_events=3, n_columns=0))


def test_subscriptions_that_match_all_share_a_slot() -> None:
    arrays = tiles.build(ODD["all match all"]).arrays
    assert arrays.id_start.tolist() == [0, 70]
    assert arrays.id.tolist() == list(range(70))


def test_an_event_alone_matches_numbers_above_the_count_of_those_that_can_match() -> None:
    """Many matches are sorted by marking them in a map of all numbers; contradictions have a number, and no place."""
    table = table_of(700, 2, [(s, 0, 1.0, 0.0) if s < 500 else (s, s % 2, 0.5, 0.5) for s in range(700)])
    agrees(tiles.build(table), table, EventBatch.from_dense(np.full((1, 2), 0.5)))


def test_an_array_hits_different_columns_with_different_values() -> None:
    """Local rows know the cells of the tile's hull only; values beyond it exclude nobody and admit nobody."""
    rows = [(s, c, s / 50, s / 50 + 0.2) for s in range(50) for c in (0, 1)]
    table = table_of(50, 2, rows)
    r = np.random.default_rng(1)
    event, column = np.repeat(np.arange(40), 6), np.tile([0, 0, 0, 1, 1, 1], 40)
    events = EventBatch.from_values(event, column, r.random(240) * 3 - 1, n_events=40, n_columns=2)
    for options in ({}, {"tile": 8, "fewest": 1}, {"tile": 8, "fewest": 9}):
        matcher = tiles.build(table, **options)
        agrees(matcher, table, events)
        assert len(matcher.match(events).subscription)


@pytest.mark.parametrize("n", [1, 2, 3, 64, 65, 130])
@pytest.mark.parametrize("room", [1, 100])
def test_results_that_overflow_their_room_are_complete(n: int, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "ROOM", room)
    monkeypatch.setattr(tiles, "SETS", room)
    table = table_of(60, 2, [(s, s % 2, s % 7 / 10, 1.0) for s in range(50)])
    for options in ({"tile": 4, "fewest": 1}, {"tile": 4, "fewest": 9}, {}):
        matcher = tiles.build(table, **options)
        r = np.random.default_rng(n)
        agrees(matcher, table, EventBatch.from_dense(r.random((n, 2)) + 0.3))
        event, column = np.repeat(np.arange(n), 3), np.tile([0, 1, 1], n)
        agrees(matcher, table, EventBatch.from_values(event, column, r.random(3 * n), n_events=n, n_columns=2))


@pytest.mark.parametrize("n", [1, 64])
def test_more_matches_than_expected_find_room(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All events lie where half of the subscriptions lie, which are the same, and few of those that it could sample."""
    given: list[int] = []

    def watched(matches: int, runs: int, sets: int) -> Any:
        given.append(matches)
        return make(matches, runs, sets)

    make = room_for
    monkeypatch.setattr(tiles, "room_for", watched)
    same = [(s, 0, 0.5, 0.5005) for s in range(200)]
    table = table_of(400, 1, [*same, *((s, 0, s / 400, s / 400 + 0.0005) for s in range(200, 400))])
    matcher = tiles.build(table, tile=8)
    events = EventBatch.from_dense(np.full((n, 1), 0.5))
    agrees(matcher, table, events)
    assert n * 200 > given[0]
    assert given[1] > given[0]


@pytest.mark.parametrize("n", [63, 64, 65, 200])
def test_batches_of_several_chunks_are_complete(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table, matcher = shape("many tests")
    events = single_valued(table, n)
    at_once = matcher.profile(events)
    monkeypatch.setattr(tiles, "MOST_EVENTS", 64)
    agrees(matcher, table, events)
    in_chunks = matcher.profile(events)  # nothing is left of the chunk before
    assert all(in_chunks[name] == at_once[name] for name in at_once if name != "tiles tested")
    table, matcher = shape("random")
    agrees(matcher, table, single_valued(table, n))
    agrees(matcher, table, random_batch(np.random.default_rng(n), n, table.n_columns + 1))


def test_candidates_are_verified_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than are collected at once, of tiles with rows and without."""
    table = table_of(500, 2, [(s, s % 2, s / 1e6, 0.9 + s / 1e5) for s in range(500)])
    events = EventBatch.from_dense(np.random.default_rng(1).random((8, 2)))
    for fewest in (1, 501):
        matcher = tiles.build(table, fewest=fewest)
        assert matcher.profile(events)["candidates"] * 8 > 2 * 1024
        agrees(matcher, table, events)


def test_more_columns_than_a_tile_has_rows() -> None:
    table = uniform_table(40, 180, 170, 0.98)
    matcher = tiles.build(table, fewest=1)
    assert np.diff(matcher.arrays.row).max() <= 128
    values = 0.4 + 0.2 * np.random.default_rng(1).random((5, 180))
    values[0, 3] = values[1, 177] = np.nan
    values[2, :] = 0.01
    agrees(matcher, table, EventBatch.from_dense(values))


def test_memory_is_in_proportion_to_predicates() -> None:
    """A row of all 10,000 columns in every tile would take 64 * 10,000 bytes a cell."""
    n, d, psi = 600, 10_000, 6
    r = np.random.default_rng(3)
    low = r.random(n * psi) * 0.5
    table = SubscriptionTable.from_intervals(
        np.repeat(np.arange(n), psi), r.integers(0, d, n * psi), low, low + 0.4, n_subscriptions=n, n_columns=d
    )
    matcher = tiles.build(table)
    assert matcher.memory_bytes() < 200 * n * psi + 100 * d
    agrees(matcher, table, single_valued(table, 3))


def runs_of(r: np.random.Generator, lengths: list[list[int]], n_ids: int) -> Any:
    """Events' matches in ascending pieces of these lengths, as tiles list them: piece by piece, all events each."""
    pieces = [np.split(r.choice(n_ids, sum(own), replace=False), np.cumsum(own)[:-1]) for own in lengths]
    listed = [
        (e, np.sort(own[k])) for k in range(max(map(len, pieces))) for e, own in enumerate(pieces) if k < len(own)
    ]
    event, begin = np.array([e for e, _ in listed], np.int32), offsets_of([len(ids) for _, ids in listed])
    ids = np.concatenate([ids for _, ids in listed]).astype(np.int32)
    used = np.array([len(listed), len(ids), 0])
    no_sets = (np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint64))
    return MatchRuns(event, begin[:-1], np.append(ids, np.int32(-1)), *no_sets, used)


@pytest.mark.parametrize("n_ids", [2_000, 100_000])
@pytest.mark.parametrize(
    "lengths",
    [
        [[1]],
        [[5], [0], [7]],
        [[2, 2], [1, 40, 3]],
        [[100, 20]],  # a long beginning in order, and some to merge
        [[100, 60], [30, 1]],
        [[20, 100]],
        [[10] * 40, [400], [1] * 90],
        [[300, 300, 300], [900, 60, 3], [0, 0]],
    ],
)
def test_runs_are_arranged_ascending_event_by_event(lengths: list[list[int]], n_ids: int) -> None:
    for seed in range(3):
        runs = runs_of(np.random.default_rng(seed), lengths, n_ids)
        offsets = np.zeros(len(lengths) + 1, np.int64)
        no_ids = np.empty(0, np.int32)
        count_matches(runs, no_ids, offsets)
        out = np.empty(offsets[-1], np.int32)
        arrange(runs, no_ids, no_ids, n_ids, offsets, out)
        assert offsets.tolist() == offsets_of([sum(own) for own in lengths]).tolist()
        end = [*runs.begin[1:].tolist(), int(runs.used[1])]
        for e in range(len(lengths)):
            own = [runs.id[b:x] for v, b, x in zip(runs.event, runs.begin, end, strict=True) if v == e]
            assert out[offsets[e] : offsets[e + 1]].tolist() == np.sort(np.concatenate(own)).tolist()


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_what_was_pickled_answers_as_before_from_aligned_arrays_that_nobody_writes(protocol: int) -> None:
    """Kernels are compiled once for arrays that are read-only, so others would take a minute at their first batch."""
    table, matcher = shape("narrow")
    for again in (pickle.loads(pickle.dumps(matcher, protocol)), copy.deepcopy(matcher)):
        assert again.arrays.words.ctypes.data % 64 == 0
        for name, array in again.arrays._asdict().items():
            assert array.tolist() == getattr(matcher.arrays, name).tolist()
            assert not array.flags.writeable, name
        agrees(again, table, single_valued(table, 3))


@pytest.mark.parametrize("options", [{}, {"tile": 3, "fewest": 1}])
def test_the_words_begin_at_a_cache_line(options: dict[str, Any]) -> None:
    arrays = tiles.build(uniform_table(100, 4, 2, 0.3), **options).arrays
    assert arrays.words.ctypes.data % 64 == 0
    assert (arrays.row_at % WORDS == 0).all()


@pytest.mark.parametrize(
    "options",
    [{"threads": 0}, {"threads": -1}, {"build_threads": -1}, {"tile": 0}, {"tile": TILE + 1}, {"fewest": 0}],
)
def test_options_that_make_no_sense_are_rejected(options: dict[str, int]) -> None:
    ((name, value),) = options.items()
    with pytest.raises(MatchingError, match=rf"threads and fewest must be 1 or more, .*, not .*{name} = {value}"):
        tiles.build(ODD["one"], **options)
