"""Subscriptions with equal intervals are kept once."""

from __future__ import annotations

import numpy as np
import pytest

from matchers import SubscriptionTable
from matchers.algorithms.unique import Unique, rows
from matchers.kernels import unique as kernels
from tests.unit.matchers.agreement import random_table

pytestmark = pytest.mark.kernels

INF = np.inf
Rows = list[tuple[int, int, float, float]]


def table_of(n: int, given: Rows) -> SubscriptionTable:
    subscription, column, low, high = ([row[i] for row in given] for i in range(4))
    return SubscriptionTable.from_intervals(subscription, column, low, high, n_subscriptions=n, n_columns=3)


def groups(unique: Unique) -> list[list[int]]:
    bounds = zip(unique.id_start[:-1], unique.id_start[1:], strict=True)
    return sorted(unique.id[a:b].tolist() for a, b in bounds)


CASES: dict[str, tuple[int, Rows, list[list[int]]]] = {
    "no subscription": (0, [], []),
    "all match all": (3, [], [[0, 1, 2]]),
    "identical ones": (3, [(0, 1, 2.0, 3.0), (1, 1, 2.0, 4.0), (2, 1, 2.0, 3.0)], [[0, 2], [1]]),
    "both zeros": (2, [(0, 0, -0.0, 0.0), (1, 0, 0.0, -0.0)], [[0, 1]]),
    "another column": (2, [(0, 0, 1.0, 2.0), (1, 1, 1.0, 2.0)], [[0], [1]]),
    "another low end": (2, [(0, 0, 1.0, 2.0), (1, 0, 1.5, 2.0)], [[0], [1]]),
    "one is the beginning of the other": (2, [(0, 0, 1.0, 2.0), (1, 0, 1.0, 2.0), (1, 2, 0.0, 1.0)], [[0], [1]]),
    "other intervals of one column": (2, [(0, 0, 1.0, 2.0), (0, 0, 4.0, 5.0), (1, 0, 1.0, 5.0)], [[0], [1]]),
    "a contradiction": (3, [(0, 0, 2.0, 1.0), (1, 0, 1.0, 2.0), (2, 0, 1.0, 2.0)], [[1, 2]]),
    "a contradiction beside what can be met": (2, [(0, 0, 2.0, 1.0), (0, 1, 0.0, 1.0), (1, 1, 0.0, 1.0)], [[1]]),
    "contradictions only": (2, [(0, 0, 2.0, 1.0), (1, 0, INF, -INF)], []),
}


@pytest.mark.parametrize("name", CASES)
def test_who_shares_a_slot(name: str) -> None:
    n, given, expected = CASES[name]
    unique = Unique.of(table_of(n, given), 1)
    assert groups(unique) == expected
    assert sorted(unique.one.tolist()) == [group[0] for group in expected]


@pytest.mark.parametrize("seed", range(3))
def test_every_subscription_is_in_the_slot_of_what_it_asks_for(seed: int) -> None:
    r = np.random.default_rng(seed)
    table = random_table(r, 150, 5)
    expected: dict[object, list[int]] = {}
    for s in range(150):
        of = slice(table.start[s], table.start[s + 1])
        if (table.low[of] <= table.high[of]).all():
            asks = zip(table.column[of].tolist(), table.low[of].tolist(), table.high[of].tolist(), strict=True)
            expected.setdefault(tuple(asks), []).append(s)
    unique = Unique.of(table, 2)
    assert groups(unique) == sorted(expected.values())
    assert (np.diff(unique.id_start) > 1).any()


def test_slots_are_in_an_order_that_ids_do_not_change() -> None:
    r = np.random.default_rng(3)
    table = random_table(r, 120, 5)
    new = r.permutation(120)
    turned = SubscriptionTable.from_intervals(
        new[table.subscription], table.column, table.low, table.high, n_subscriptions=120, n_columns=5
    )
    one, other = (
        rows(unique.one, t.start, t.column, t.low, t.high, 2) for t in (table, turned) for unique in [Unique.of(t, 1)]
    )
    for a, b in zip(one, other, strict=True):
        assert a.tolist() == b.tolist()


def test_a_hash_that_several_share_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(first: int, last: int, *arrays: np.ndarray) -> None:
        arrays[-1][first:last] = 7

    monkeypatch.setattr(kernels, "hash_rows", same)
    given = [(0, 0, 1.0, 9.0), (1, 0, 1.0, 8.0), (2, 0, 2.0, 8.0), (3, 1, 2.0, 8.0)]
    given += [(s, c, 2.0, 8.0) for s in (4, 5) for c in (1, 2)]
    assert groups(Unique.of(table_of(6, given), 1)) == [[0], [1], [2], [3], [4, 5]]
