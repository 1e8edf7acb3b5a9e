"""HEM: the claims of its paper, and our additions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from matchers import ALGORITHMS, EventBatch, MatchBatch, MatchingError, SubscriptionTable
from matchers.algorithms import hem
from matchers.algorithms.hem import kernel
from matchers.papers.updates.hem import UpdatableHem

pytestmark = pytest.mark.kernels


def uniform(n: int, d: int, psi: int, w: float, seed: int = 1) -> SubscriptionTable:
    rng = np.random.default_rng(seed)
    column = np.argsort(rng.random((n, d)), axis=1)[:, :psi].ravel()
    low = rng.random(n * psi) * (1 - w)
    return SubscriptionTable.from_intervals(
        np.repeat(np.arange(n), psi), column, low, low + w, n_subscriptions=n, n_columns=d
    )


def full_events(n: int, d: int, seed: int = 2) -> EventBatch:
    return EventBatch.from_dense(np.random.default_rng(seed).random((n, d)))


def listed(result: MatchBatch) -> list[list[int]]:
    return [result.of(e).tolist() for e in range(len(result))]


@pytest.mark.parametrize("g", [2, 4, 16, 32])
def test_theorem_1_the_sets_save_all_but_one_in_g_of_the_marks(g: int) -> None:
    table, events = uniform(6_000, 6, 4, 0.01), full_events(60, 6)  # narrow, so both ends are uniform in [0, 1]
    without = hem.build(table, g=0).marks(events)
    with_sets = hem.build(table, g=g).marks(events)
    assert 1 - with_sets / without == pytest.approx(1 - 1 / g, abs=0.02)


def test_doubling_g_halves_the_marks() -> None:
    table, events = uniform(6_000, 6, 4, 0.01), full_events(60, 6)  # narrow, so both ends are uniform in [0, 1]
    marks = [hem.build(table, g=g).marks(events) for g in (2, 4, 8, 16)]
    for more, fewer in pairwise(marks):
        assert fewer / more == pytest.approx(0.5, abs=0.06)  # lemma 2


def test_one_group_marks_as_two_do_where_events_have_all_attributes() -> None:
    table, events = uniform(6_000, 6, 4, 0.01), full_events(60, 6)
    one, two = hem.build(table, g=1), hem.build(table, g=2)
    assert one.marks(events) == two.marks(events) > 0  # sec. 5.2
    assert (one.effective_g, two.effective_g) == (1, 2)


def with_some_absent(events: EventBatch, share: float) -> EventBatch:
    rng = np.random.default_rng(5)
    values = events.value.reshape(len(events), -1).copy()
    values[rng.random(values.shape) < share] = np.nan
    return EventBatch.from_dense(values)


def alone(events: EventBatch) -> list[EventBatch]:
    ends = pairwise(events.offsets.tolist())
    values = ((events.column[i:j], events.value[i:j]) for i, j in ends)
    return [
        EventBatch.from_values(np.zeros(len(column), np.int64), column, value, n_events=1, n_columns=10)
        for column, value in values
    ]


@pytest.mark.large
@pytest.mark.parametrize("w", [0.1, 0.3, 0.7, 0.9])
@pytest.mark.parametrize("absent", [0.0, 0.1, 0.9])
def test_checking_the_few_that_the_sets_leave_changes_no_match(w: float, absent: float) -> None:
    table, events = uniform(40_000, 10, 5, w), with_some_absent(full_events(20, 10), absent)
    expected = listed(ALGORITHMS["scan"](table).match(events))
    for check in (False, True):
        index = hem.build(table, block=1 << 15, check=check)
        assert listed(index.match(events)) == expected
        assert [listed(index.match(event))[0] for event in alone(events)] == expected


@pytest.mark.large
def test_the_few_are_checked_by_the_values_of_an_array_and_by_all_their_intervals() -> None:
    rng = np.random.default_rng(6)
    n, d = 40_000, 6
    column, low = np.tile(np.repeat(np.arange(d), 2), n), rng.random(2 * d * n) * 0.2
    low[1::2] += 0.5
    subscription = np.repeat(np.arange(n), 2 * d)
    table = SubscriptionTable.from_intervals(subscription, column, low, low + 0.2, n_subscriptions=n, n_columns=d)
    event = np.repeat(np.arange(20), 2 * d)
    columns, values = np.tile(np.repeat(np.arange(d), 2), 20), rng.random(40 * d)
    events = EventBatch.from_values(event, columns, values, n_events=20, n_columns=d)
    expected = listed(ALGORITHMS["scan"](table).match(events))
    assert listed(hem.build(table).match(events)) == listed(hem.build(table, check=False).match(events)) == expected


@pytest.mark.large
def test_the_few_include_what_was_inserted_and_not_what_was_deleted() -> None:
    table, then, events = uniform(30_000, 10, 5, 0.3), uniform(5_000, 10, 5, 0.4, seed=7), full_events(20, 10)
    changing = UpdatableHem(table)
    changing.insert(then)
    changing.delete(np.arange(0, 35_000, 3))
    pairs = zip(*(listed(ALGORITHMS["scan"](t).match(events)) for t in (table, then)), strict=True)
    expected = [[s for s in [*old, *(30_000 + s for s in new)] if s % 3] for old, new in pairs]
    assert sum(map(len, expected)) > 100
    assert listed(changing.match(events)) == expected


def test_the_sets_are_those_of_the_papers_example() -> None:
    """Figure 2 and Table 1: sixteen cells, four groups. Event (a_1 = 0.64, a_2 = 0.32) matches S_4."""
    rows = [
        *((0, 0, 0.9, 0.95), (0, 1, 0.8, 0.9), (1, 0, 0.0, 0.3), (1, 1, 0.5, 0.7), (2, 0, 0.63, 0.69)),
        *((2, 1, 0.1, 0.2), (3, 0, 0.38, 0.76), (4, 1, 0.4, 0.57)),
    ]
    s, a, low, high = (list(x) for x in zip(*rows, strict=True))
    table = SubscriptionTable.from_intervals(s, a, low, high, n_subscriptions=5, n_columns=2)
    events = EventBatch.from_values([0, 0], [0, 1], [0.64, 0.32], n_events=1, n_columns=2)
    assert (
        listed(hem.build(table, c=16, g=4, block=64).match(events)) == [[3]] == listed(hem.build(table).match(events))
    )


def test_the_memory_is_that_of_the_space_model() -> None:
    """O(d c + d n g + n psi) of sec. 5.1: d (g + 1) bit sets of n bits; 2 n psi pairs of a value and an id (10 bytes),
    and the bounds kept to verify (20); 2 d c places where cells begin, of 8 bytes, in each block."""
    n, d, psi, c, g = 40_000, 10, 5, 1_000, 32
    expected = d * (g + 1) * n / 8 + n * psi * (2 * 10 + 20) + 2 * d * c * 8 * -(-n // hem.BLOCK)
    assert hem.build(uniform(n, d, psi, 0.3), c=c, g=g).memory_bytes() == pytest.approx(expected, rel=0.1)


def test_many_attributes_cost_what_their_predicates_weigh() -> None:
    """The bit sets of all groups would take 2 * 32 * 10,000 * 2,000 bits, 160 MB."""
    d = 10_000
    rng = np.random.default_rng(3)
    n, psi = 2_000, 5
    column, low = rng.integers(0, d // psi, (n, psi)) * psi + np.arange(psi), rng.random((n, psi)) * 0.5
    table = SubscriptionTable.from_intervals(
        np.repeat(np.arange(n), psi), column.ravel(), low.ravel(), low.ravel() + 0.5, n_subscriptions=n, n_columns=d
    )
    index = hem.build(table)
    assert index.memory_bytes() < 5_000_000
    values = np.full((20, d), np.nan)
    for e in range(20):  # the attributes of some subscriptions, and others
        for s in rng.integers(0, n, 4):
            values[e, column[s]] = low[s] + 0.25
        values[e, rng.integers(0, d, 20)] = 0.4
    events = EventBatch.from_dense(values)
    expected = listed(ALGORITHMS["scan"](table).match(events))
    assert sum(map(len, expected)) >= 20
    assert listed(index.match(events)) == expected
    assert index.effective_g < 32


SPOTS = np.array([-0.0, 0.25, 0.5, 0.51, 3.0])


def crowded(rng: np.random.Generator, n: int) -> np.ndarray:
    """Values in five spots; a fifth of them in one place, and some are infinite."""
    values = rng.choice(SPOTS, n) + np.where(rng.random(n) < 0.8, rng.random(n) * 1e-4, 0.0)
    values[rng.random(n) < 0.05] = np.inf
    return values


def with_hotspots(n: int, seed: int) -> SubscriptionTable:
    rng = np.random.default_rng(seed)
    low = np.where(rng.random(2 * n) < 0.1, -np.inf, crowded(rng, 2 * n))
    low[np.isposinf(low)] = 0.5
    high = np.maximum(low, crowded(rng, 2 * n))
    column = np.tile([0, 2], n) + rng.integers(0, 2, 2 * n)
    return SubscriptionTable.from_intervals(
        np.repeat(np.arange(n), 2), column, low, high, n_subscriptions=n, n_columns=5
    )


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("c", [3, 64, 1_000])
def test_cells_of_several_levels_change_no_match(levels: int, c: int) -> None:
    first, then = with_hotspots(3_000, 1), with_hotspots(1_000, 2)
    rng = np.random.default_rng(3)
    values = np.where(rng.random((40, 5)) < 0.1, rng.choice([1e300, -1e300, 1.0, 0.0], (40, 5)), 0.0)
    values = np.where(values == 0.0, crowded(rng, 200).reshape(40, 5), values)
    events = EventBatch.from_dense(np.where(np.isinf(values), np.nan, values))
    expected = listed(ALGORITHMS["scan"](first).match(events))
    assert sum(map(len, expected)) > 1_000
    assert listed(hem.build(first, c=c, levels=levels, block=1_024).match(events)) == expected
    changing = UpdatableHem(first, c=c, levels=levels, block=1_024)
    changing.insert(then)
    both = [
        of_first + [3_000 + s for s in of_then]
        for of_first, of_then in zip(expected, listed(ALGORITHMS["scan"](then).match(events)), strict=True)
    ]
    assert listed(changing.match(events)) == both


def test_leaves_ascend_with_the_value_and_follow_where_bounds_crowd() -> None:
    domain = hem.build(with_hotspots(5_000, 1), c=100, levels=3).domain
    assert domain.first[0] >= 0  # column 0 is divided
    crowd = crowded(np.random.default_rng(4), 2_000)
    column = np.zeros(2_501, np.int32)
    leaf = kernel.leaves(np.sort(np.concatenate([crowd, np.linspace(-1, 4, 500), [-np.inf]])), column, domain)
    assert (np.diff(leaf) >= 0).all()
    assert (leaf[0], leaf[-1]) == (0, domain.c[0] - 1)
    plain = hem.build(with_hotspots(5_000, 1), c=100).domain
    assert len(np.unique(kernel.leaves(crowd, column, plain))) <= 6  # of each spot, and of infinity
    assert len(np.unique(kernel.leaves(crowd, column, domain))) > 50


def test_several_levels_compare_and_mark_less_where_bounds_crowd() -> None:
    table, n = with_hotspots(20_000, 5), 50
    events = EventBatch.from_dense(0.5 + np.random.default_rng(6).random((n, 5)) * 1e-4)
    assert hem.build(table, levels=2).marks(events) < hem.build(table).marks(events) / 2


def test_what_cannot_be_built() -> None:
    with pytest.raises(MatchingError, match=r"a multiple of 64 from 64 to 65,536, not .* block = 100"):
        hem.build(uniform(10, 3, 2, 0.3), block=100)
    with pytest.raises(MatchingError, match=r"c and levels must be 1 or more, .* levels = 0"):
        hem.build(uniform(10, 3, 2, 0.3), levels=0)
