"""Indexes that change in place: blocks, counters and sides that only larger tables have, and the cost of an update."""

from __future__ import annotations

import numpy as np
import pytest

from matchers import ALGORITHMS, EventBatch, MatchBatch, MatchingError, SubscriptionTable
from matchers.kernels.growing import with_room
from matchers.papers import rein
from matchers.papers.rein.kernel import BLOCK
from matchers.papers.updates import UPDATABLE
from matchers.papers.updates.growing_table import GrowingTable
from matchers.papers.updates.pem import UpdatablePem
from matchers.papers.updates.rein import UpdatableRein
from matchers.papers.updates.updatable import Updatable

pytestmark = pytest.mark.kernels


def listed(result: MatchBatch) -> list[list[int]]:
    return [result.of(e).tolist() for e in range(len(result))]


def uniform(n: int, seed: int, columns: int = 3, width: float = 0.1) -> SubscriptionTable:
    """Each subscription has one interval, on any column."""
    rng = np.random.default_rng(seed)
    low = rng.random(n)
    return SubscriptionTable.from_intervals(
        np.arange(n), rng.integers(0, columns, n), low, low + width, n_subscriptions=n, n_columns=columns
    )


def full_events(n: int, columns: int = 3) -> EventBatch:
    return EventBatch.from_dense(np.random.default_rng(9).random((n, columns)))


def built(name: str, table: SubscriptionTable) -> Updatable:
    build = UPDATABLE[name]
    return build(table)


def joined(*tables: SubscriptionTable) -> GrowingTable:
    whole = GrowingTable(tables[0])
    for table in tables[1:]:
        whole.append(table)
    return whole


@pytest.mark.large
@pytest.mark.parametrize("name", UPDATABLE)
def test_subscriptions_come_and_go_in_all_blocks(name: str) -> None:
    tables = [uniform(n, seed) for seed, n in enumerate((BLOCK - 5, 40, 2, BLOCK // 2, 10))]
    index = built(name, tables[0])
    for table in tables[1:]:
        index.insert(table)
    gone = np.random.default_rng(5).permutation(BLOCK + BLOCK // 2)[: BLOCK // 4]
    index.delete(gone)
    index.insert(tables[1])
    whole = joined(*tables)
    whole.delete(gone)
    whole.append(tables[1])
    live = np.flatnonzero(~whole.gone)
    events = full_events(3)
    expected = ALGORITHMS["scan"](whole.rows_of(live)).match(events)
    assert listed(index.match(events)) == [live[expected.of(e)].tolist() for e in range(3)]


@pytest.mark.parametrize("name", UPDATABLE)
def test_a_value_between_two_inserted_intervals_is_on_neither(name: str) -> None:
    two = SubscriptionTable.from_intervals([0, 0], [0, 0], [0.0, 3.0], [1.0, 4.0], n_subscriptions=1, n_columns=1)
    index = built(name, SubscriptionTable.from_intervals([], [], [], [], n_subscriptions=1, n_columns=1))
    index.insert(two)
    assert listed(index.match(EventBatch.from_dense([[0.5], [2.0], [3.5]]))) == [[0, 1], [0], [0, 1]]


@pytest.mark.parametrize("name", UPDATABLE)
def test_a_subscription_may_have_more_columns_than_all_before(name: str) -> None:
    few = SubscriptionTable.from_intervals([0], [0], [0.0], [1.0], n_subscriptions=1, n_columns=300)
    all_columns = SubscriptionTable.from_intervals(
        np.zeros(300, int), np.arange(300), np.zeros(300), np.ones(300), n_subscriptions=1, n_columns=300
    )
    index = built(name, few)
    index.insert(all_columns)
    index.insert(few)
    index.delete(0)
    values = np.full((2, 300), 0.5)
    values[1, 299] = 2.0
    assert listed(index.match(EventBatch.from_dense(values))) == [[1, 2], [2]]


@pytest.mark.large
@pytest.mark.parametrize("name", UPDATABLE)
def test_the_memory_follows_what_is_left(name: str) -> None:
    index = built(name, uniform(20_000, 1))
    for begin in range(0, 19_000, 1_000):
        index.delete(np.arange(begin, begin + 1_000))
    assert index.memory_bytes() < built(name, uniform(20_000, 1)).memory_bytes() / 2


def test_arrays_grow_to_at_least_twice_their_length() -> None:
    array = np.arange(4)
    assert with_room(array, 4) is array
    assert with_room(array, 5, fill=-1).tolist() == [0, 1, 2, 3, -1, -1, -1, -1]
    assert len(with_room(array, 20)) == 20


def test_a_whole_build_follows_only_after_the_intervals_have_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    build = rein.build

    def counted(table: SubscriptionTable, buckets: int | None, blocks: bool) -> rein.Rein:
        sizes.append(len(table.low))
        return build(table, buckets, blocks)

    monkeypatch.setattr(rein, "build", counted)
    index = UpdatableRein(uniform(1_000, 1))
    for seed in range(100):
        index.insert(uniform(40, seed))
    assert sizes == [1_000, 2_040, 4_120]


def test_a_deleted_constraint_leaves_its_buckets() -> None:
    index = UpdatableRein(uniform(1_000, 1))
    pairs = [int(size.sum()) for size in (index._low_size, index._high_size)]
    index.insert(uniform(300, 2))
    index.delete(np.arange(0, 1_300, 4))
    assert [int(size.sum()) for size in (index._low_size, index._high_size)] == [p + 300 - 325 for p in pairs]


def pem_sizes(index: UpdatablePem) -> list[int]:
    return [side.n for side in index._sides]


def of_widths(*widths: float) -> SubscriptionTable:
    n = len(widths)
    return SubscriptionTable.from_intervals(
        np.arange(n), np.zeros(n, int), np.zeros(n), widths, n_subscriptions=n, n_columns=1
    )


def test_a_new_subscription_goes_to_the_side_of_its_rank() -> None:
    index = UpdatablePem(of_widths(*np.linspace(0.0, 1.0, 1_001)), split=0.25)
    assert pem_sizes(index) == [250, 751]
    for width, sizes in ((0.2, [251, 751]), (0.3, [251, 752])):
        index.insert(of_widths(width))
        assert pem_sizes(index) == sizes


def test_subscriptions_of_one_probability_go_to_both_sides() -> None:
    same = SubscriptionTable.from_intervals(
        np.arange(500), np.zeros(500, int), np.zeros(500), np.ones(500), n_subscriptions=500, n_columns=1
    )
    index = UpdatablePem(same, split=0.5)
    assert pem_sizes(index) == [250, 250]
    index.insert(same)
    assert pem_sizes(index) == [500, 500]


def test_the_split_point_of_new_subscriptions_follows_equation_3() -> None:
    index = UpdatablePem(of_widths(*np.linspace(0.0, 1.0, 101)), split=0.5, window=4)
    assert pem_sizes(index) == [50, 51]
    index._record(2, [2.0, 0.5])
    assert index.splits == (0.5,)  # the window is not full
    index._record(2, [1.0, 0.5])
    assert index.splits == pytest.approx((0.45,))  # 0.6 - 3 * 0.2 / 4
    index.insert(of_widths(0.44, 0.48))
    assert pem_sizes(index) == [51, 52]


def test_the_split_point_may_stay() -> None:
    index = UpdatablePem(uniform(100, 1), split=0.5, window=1, adjust=False)
    index.match(full_events(5))
    assert index.splits == (0.5,)


def test_with_three_algorithms_a_subscription_goes_to_the_first_whose_split_point_is_above_its_rank() -> None:
    widths = of_widths(*np.linspace(0.0, 1.0, 1_001))
    index = UpdatablePem(widths, algorithms=("tama", "hem", "rein"), split=(0.25, 0.75), window=1)
    assert pem_sizes(index) == [250, 501, 250]
    for width, sizes in ((0.2, [251, 501, 250]), (0.5, [251, 502, 250]), (0.8, [251, 502, 251])):
        index.insert(of_widths(width))
        assert pem_sizes(index) == sizes
    index._record(1, [1.0, 1.0, 1.0])
    assert index.splits == pytest.approx((0.25, 0.75))  # equal times leave them where they are
    index._record(1, [1.0, 1.0, 3.0])
    assert index.splits == pytest.approx((0.25, 0.825))  # range 0.6 .. 0.9: 0.9 - 1 * 0.3 / 4


def test_split_points_may_be_values_of_p() -> None:
    widths = of_widths(*(np.linspace(0.0, 1.0, 1_001) ** 2))  # half of them below 0.25
    assert pem_sizes(UpdatablePem(widths, split=0.25, ranked=False)) == [500, 501]


def test_algorithms_that_cannot_be_updated_are_rejected() -> None:
    with pytest.raises(
        MatchingError, match="algorithms: 'scan' cannot be one of these; known: hem, opindex, rein, tama"
    ):
        UpdatablePem(of_widths(0.5), algorithms=("scan", "rein"))
