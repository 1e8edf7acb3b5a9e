"""OpIndex that changes in place: the lists and places of its partitions."""

from __future__ import annotations

import numpy as np
import pytest

from matchers import EventBatch, SubscriptionTable
from matchers.papers.opindex.kernel import GE, LE, OPERATORS
from matchers.papers.updates.opindex import UpdatableOpIndex
from tests.unit.matchers.agreement import uniform_table

pytestmark = pytest.mark.kernels


def table(*rows: tuple[int, int, float, float], columns: int) -> SubscriptionTable:
    subscription, column, low, high = zip(*rows, strict=True)
    n = max(subscription) + 1
    return SubscriptionTable.from_intervals(subscription, column, low, high, n_subscriptions=n, n_columns=columns)


def lists(index: UpdatableOpIndex) -> dict[tuple[int, int, int], list[tuple[float, int]]]:
    """(pivot, operator, attribute): the operands and whose they are."""
    p = index._index.partitions
    found = {}
    for segment, (first, last) in enumerate(zip(p.segment, p.segment_end, strict=True)):
        pivot, operator = divmod(segment, OPERATORS)
        for i in range(first, last):
            own = slice(p.start[i], p.end[i])
            subscriptions = p.subscription[p.place[pivot] + p.of[own]].tolist()
            found[pivot, operator, int(p.attribute[i])] = list(zip(p.operand[own].tolist(), subscriptions, strict=True))
    return found


def places(index: UpdatableOpIndex, pivot: int) -> list[int]:
    p = index._index.partitions
    return [max(s, -1) for s in p.subscription[p.place[pivot] : p.place_end[pivot]].tolist()]


def test_predicates_go_where_a_fresh_build_has_them() -> None:
    whole = uniform_table(60, 4, 2, 0.3)
    part = uniform_table(60, 4, 2, 0.3)
    index = UpdatableOpIndex(whole)
    index._frequency[:] = 0  # of the inserted table alone, so that its pivots are those of a fresh build
    index.insert(part)
    index.delete(np.arange(60))
    fresh = {key: [(x, s + 60) for x, s in own] for key, own in lists(UpdatableOpIndex(part)).items()}
    assert {key: sorted(own) for key, own in lists(index).items()} == {key: sorted(own) for key, own in fresh.items()}
    assert all(own == sorted(own, key=lambda pair: pair[0]) for own in lists(index).values())


def test_after_all_are_deleted_no_list_and_no_place_is_taken() -> None:
    index = UpdatableOpIndex(table((0, 0, 1, 2), (0, 1, 5, 5), (1, 1, 3, 4), columns=2))
    index.insert(table((0, 0, 1, 7), (1, 0, 2, 2), (1, 1, 2, 9), columns=2))
    index.delete([0, 1, 2, 3])
    assert lists(index) == {}
    assert not index._index.partitions.signature.any()
    assert not index._frequency.any()
    assert {s for pivot in (0, 1) for s in places(index, pivot)} == {-1}


def test_a_place_that_is_free_again_goes_to_the_next_subscription() -> None:
    one = table((0, 0, 1, 2), columns=1)
    index = UpdatableOpIndex(table(*[(s, 0, s, s + 1) for s in range(8)], columns=1))
    assert places(index, 0) == [*range(8)]
    index.delete([2, 5])
    index.insert(one)
    index.insert(one)
    assert sorted(places(index, 0)) == [0, 1, 3, 4, 6, 7, 8, 9]
    index.insert(one)  # the partition is full, and moves
    assert places(index, 0).count(-1) == 7


def test_a_new_subscription_takes_the_attribute_that_is_the_rarest_when_it_comes() -> None:
    index = UpdatableOpIndex(table((0, 0, 1, 2), (1, 0, 1, 2), (2, 1, 1, 2), columns=2))
    both = table((0, 0, 3, 4), (0, 1, 3, 4), columns=2)
    index.insert(both)
    assert (1, GE, 0) in lists(index)
    index.delete([0, 1])
    index.insert(both)
    assert lists(index)[0, GE, 1] == [(3, 4)]


def test_a_list_that_goes_leaves_the_bit_that_another_list_has() -> None:
    index = UpdatableOpIndex(table((0, 0, 1, 2), (0, 64, 1, 2), (1, 0, 1, 2), (2, 64, 1, 2), (3, 64, 1, 2), columns=65))
    assert sorted(lists(index)) == [(0, GE, 0), (0, GE, 64), (0, LE, 0), (0, LE, 64), (64, GE, 64), (64, LE, 64)]
    index.delete(0)
    assert sorted(lists(index)) == [(0, GE, 0), (0, LE, 0), (64, GE, 64), (64, LE, 64)]
    assert index._index.partitions.signature[0 * OPERATORS + GE] == 1
    assert index.match(EventBatch.from_dense(np.full((1, 65), 1.5))).of(0).tolist() == [1, 2, 3]
