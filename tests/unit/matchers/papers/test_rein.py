"""The marking of `rein` on the example of its paper, and the content of its buckets."""

from __future__ import annotations

import numpy as np
import pytest

from matchers import EventBatch, MatchingError, SubscriptionTable
from matchers.papers import rein
from matchers.papers.rein.kernel import BLOCK, WHOLE, mark_row

pytestmark = pytest.mark.kernels
inf = float("inf")

# Table I: the ranges of s0 .. s9 on a1 and on a2
PAPER = [
    ((0, 1), (7, 9)),
    ((2, 6), (4, 6)),
    ((3, 5), (8, 10)),
    ((1, 3), (3, 5)),
    ((4, 8), (1, 2)),
    ((6, 9), (4, 8)),
    ((5, 7), (6, 7)),
    ((8, 9), (3, 5)),
    ((7, 9), (2, 3)),
    ((9, 10), (0, 1)),
]


def paper() -> SubscriptionTable:
    low, high = np.array(PAPER, float).reshape(-1, 2).T
    subscription, column = np.divmod(np.arange(20), 2)
    return SubscriptionTable.from_intervals(subscription, column, low, high, n_subscriptions=10, n_columns=2)


@pytest.mark.parametrize("buckets", [1, 4, 11, 1000])
@pytest.mark.parametrize("blocks", [True, False])
def test_the_example_of_the_paper(buckets: int, blocks: bool) -> None:
    built = rein.build(paper(), buckets, blocks)
    found = [np.zeros(16, np.uint8), np.zeros(16, np.uint8)]
    for a, value in enumerate((3.0, 5.0)):
        mark_row(built.lists, a, a, True, value, value, found[a])
    bits = np.zeros((2, 1), np.uint64)
    for a, value in enumerate((3.0, 5.0)):
        mark_row(built.lists, a, a, True, value, value, bits[a : a + 1])
    assert [bin(word)[2:] for word in bits[:, 0].tolist()] == ["1111110001", "1101010101"]  # from the right
    assert np.flatnonzero(found[0]).tolist() == [0, 4, 5, 6, 7, 8, 9]  # left of the cube, and right of it
    assert np.flatnonzero(found[1]).tolist() == [0, 2, 4, 6, 8, 9]  # above and below
    assert built.match(EventBatch.from_dense([[3.0, 5.0]])).of(0).tolist() == [1, 3]


def test_open_ends_are_in_no_bucket_and_an_absent_column_finds_them_all() -> None:
    table = SubscriptionTable.from_intervals(
        [0, 1, 2, 3], [0, 0, 0, 0], [-inf, 2, -inf, 5], [3, inf, inf, 1], n_subscriptions=4, n_columns=1
    )
    lists = rein.build(table, buckets=3).lists
    assert np.diff(lists.low_start).tolist() == [2, 1, 0, 1]  # two without low end; 2; inf of the empty interval
    assert np.diff(lists.high_start).tolist() == [1, 0, 1]  # -inf of the empty interval; 3
    marks = np.zeros(8, np.uint8)
    mark_row(lists, 0, 0, False, 0.0, 0.0, marks)
    assert marks.tolist() == [1, 1, 1, 1, 0, 0, 0, 0]


@pytest.mark.large
@pytest.mark.parametrize("blocks", [True, False])
def test_more_subscriptions_than_a_block(blocks: bool) -> None:
    n = 2 * BLOCK + 77
    rng = np.random.default_rng(7)
    low = rng.random((n, 2)) * 0.5
    table = SubscriptionTable.from_intervals(
        np.repeat(np.arange(n), 2), np.tile([0, 1], n), low.ravel(), low.ravel() + 0.4, n_subscriptions=n, n_columns=2
    )
    events = rng.random((5, 2))
    built = rein.build(table, blocks=blocks)
    assert built.lists.block == (BLOCK if blocks else WHOLE)
    found = built.match(EventBatch.from_dense(events))
    for e, value in enumerate(events):
        expected = np.flatnonzero(((value >= low) & (value <= low + 0.4)).all(axis=1))
        assert (found.of(e) == expected).all()


def test_the_number_of_buckets_is_that_of_the_paper_where_it_measured() -> None:
    assert rein.best_buckets(predicates=20_000_000, columns=20, blocks=1) == 1000
    assert rein.best_buckets(0, 0, 0) == 1
    with pytest.raises(MatchingError, match="buckets must be 1 or more, not 0"):
        rein.build(paper(), buckets=0)


def test_the_cost_is_that_of_lemma_2() -> None:
    built = rein.build(paper(), buckets=4)
    # z = 10 / 4 in each of two columns: 5 pairs in all, times 2 beta + 4 gamma; 2 * 4 delta; 10 epsilon
    assert built.cost(compare=1.0, traverse=0.0, switch=0.0, check=0.0) == 10.0
    assert built.cost(compare=0.0, traverse=1.0, switch=0.0, check=0.0) == 20.0
    assert built.cost(compare=0.0, traverse=0.0, switch=1.0, check=0.0) == 8.0
    assert built.cost(compare=0.0, traverse=0.0, switch=0.0, check=1.0) == 10.0


@pytest.mark.parametrize(
    ("n", "columns", "predicates", "blocks"),
    [
        (BLOCK, 1_000, 10 * BLOCK, True),  # as many rows either way
        (1_000_000, 20, 10_000_000, True),  # figure 7
        (1_000_000, 500, 5_000_000, False),  # EEM's figure 3a
        (BLOCK + 1, 1_000, 0, False),
        (0, 0, 0, True),
    ],
)
def test_many_columns_have_one_block(n: int, columns: int, predicates: int, blocks: bool) -> None:
    assert rein.in_blocks(predicates, columns, n) is blocks
