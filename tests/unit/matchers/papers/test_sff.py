"""`sff` combines identical constraints, and skips an interface once it is settled."""

from __future__ import annotations

import numpy as np
import pytest
from numpy import inf

from matchers import EventBatch, Interfaces, SubscriptionTable
from matchers.papers import sff
from tests.unit.matchers.agreement import agrees, random_batch, random_table

pytestmark = pytest.mark.kernels


def table(*rows: tuple[int, int, float, float]) -> SubscriptionTable:
    subscription, column, low, high = zip(*rows, strict=True)
    return SubscriptionTable.from_intervals(
        subscription, column, low, high, n_subscriptions=max(subscription) + 1, n_columns=max(column) + 1
    )


def test_a_constraint_that_filters_share_is_kept_once() -> None:
    built = sff.build(table((0, 0, 1, 1), (1, 0, 1, 1), (2, 0, 2, 2), (2, 1, 1, inf), (0, 1, 1, inf))).constraints
    assert list(zip(built.low, built.high, strict=True)) == [(1, 1), (2, 2), (1, inf)]
    assert [built.filters[a:b].tolist() for a, b in zip(built.begin, built.begin[1:], strict=False)] == [
        [0, 1],
        [2],
        [0, 2],
    ]


def test_each_operator_has_its_run() -> None:
    rows = ((0, 2, 2), (1, 5, inf), (2, -inf, 3), (3, 1, 2), (4, -inf, inf), (5, -inf, 1))
    built = sff.build(table(*((s, 0, low, high) for s, low, high in rows))).constraints
    runs = [
        list(zip(built.low[a:b], built.high[a:b], strict=True)) for a, b in zip(built.run, built.run[1:], strict=False)
    ]
    assert runs == [[(2, 2)], [(-inf, inf), (5, inf)], [(-inf, 1), (-inf, 3)], [(1, 2)]]


def test_a_contradiction_is_no_constraint() -> None:
    assert len(sff.build(table((0, 0, inf, -inf))).constraints.filters) == 0


def test_an_event_is_forwarded_once_to_each_interface() -> None:
    built = sff.build(table((0, 0, 1, inf), (1, 0, 2, inf), (2, 0, 1, inf), (3, 0, 1, inf), (3, 1, 0, 1)))
    interfaces = Interfaces.from_ids([1, 1, 0, 2], 3)
    found = built.forward(EventBatch.from_dense([[5, 0], [5, 2], [0, 0]]), interfaces)
    assert [found.of(e).tolist() for e in range(3)] == [[0, 1, 2], [0, 1], []]


@pytest.mark.parametrize("seed", range(6))
def test_it_lists_what_scan_lists(seed: int) -> None:
    r = np.random.default_rng(seed)
    d = int(r.integers(1, 12))
    subscriptions, events = random_table(r, 300, d), random_batch(r, 40, d)
    agrees(sff.build(subscriptions), subscriptions, events)
