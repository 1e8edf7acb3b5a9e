"""AWB+-Tree: the class of a predicate, what is counted without its high end, what is marked, and the borders."""

from __future__ import annotations

from itertools import pairwise
from math import nextafter
from typing import Any

import numpy as np
import pytest

from matchers import EventBatch, MatchingError, SubscriptionTable
from matchers.papers import awb_tree
from matchers.papers.awb_tree.kernel import BLOCK
from tests.unit.matchers.agreement import agrees, random_batch, random_table, uniform_table

pytestmark = pytest.mark.kernels
inf = float("inf")

# the example of kernel.py: low .. high, all of a width from 2 to 3
NARROW = [(1, 4), (3, 5), (4, 6), (4, 7), (5, 7), (6, 9), (7, 9), (8, 10), (9, 12)]
WIDE = [(1, 8), (2, 12), (3, 12), (4, 12), (5, 12)]


def table(*hulls: tuple[float, float]) -> SubscriptionTable:
    """A subscription with one predicate each, all on column 0."""
    low, high = zip(*hulls, strict=True)
    n = len(hulls)
    return SubscriptionTable.from_intervals(range(n), [0] * n, low, high, n_subscriptions=n, n_columns=1)


def alone(matcher: Any, *values: float) -> list[list[int]]:
    """The matches of an event with each value on column 0."""
    found = matcher.match(EventBatch.from_dense([[value] for value in values]))
    return [found.of(e).tolist() for e in range(len(values))]


def parts(ids: np.ndarray, begins: np.ndarray) -> list[list[int]]:
    return [ids[begin:end].tolist() for begin, end in pairwise(begins.tolist())]


def test_predicates_lie_in_classes_by_their_share_of_the_domain() -> None:
    of = table((0, 100), (0, 9), (91, 100), (30, 40), (30, 49.9), (50, 50), (10, 60))
    index = awb_tree.build(of, width_classes=10, split=0.5).index
    narrow, wide = index.narrow, index.wide
    assert parts(narrow.subscription, narrow.begin) == [[1, 5, 2], [3, 4]]  # below 0.1 and 0.2 of the domain, by low
    assert narrow.row.tolist() == [0, 2]
    assert parts(wide.low_subscription, wide.begin) == [[0, 6]]
    assert parts(wide.high_subscription, wide.begin) == [[6, 0]]
    assert index.needed[:7].tolist() == [0, 1, 1, 1, 1, 1, 0]


def test_widths_of_a_class_are_bounded_by_its_own_predicates() -> None:
    narrow = awb_tree.build(table(*NARROW, (1, 12)), width_classes=2, split=0.5).index.narrow
    assert narrow.least_width.tolist() == [np.nextafter(2.0, 0)]
    assert narrow.greatest_width.tolist() == [np.nextafter(3.0, 4)]


@pytest.mark.parametrize("split", [0.0, 0.5, 1.0])
def test_the_worked_example_counts_and_marks_what_its_definition_says(split: float) -> None:
    hulls = [*NARROW, *WIDE]
    matcher = awb_tree.build(table(*hulls), width_classes=2, split=split)
    values = [7.0, 3.0, 0.0, 1.0, 12.0, 13.0]
    assert alone(matcher, *values) == [[i for i, (low, high) in enumerate(hulls) if low <= v <= high] for v in values]


def test_predicates_of_one_width_are_counted_without_their_high_ends() -> None:
    matcher = awb_tree.build(table(*[(low, low + 8) for low in range(100)]), split=1.0)
    matcher.index.narrow.high[:] = -inf  # whatever is compared is missed
    assert alone(matcher, 50.0, 50.5) == [list(range(43, 51)), list(range(43, 51))]  # 42 .. 50 is on the border


@pytest.mark.parametrize("scale", [1e-300, 1e-3, 1.0, 1e15, 1e307])
@pytest.mark.parametrize("split", [0.0, 1.0])
def test_no_rounding_of_widths_and_differences_changes_a_match(scale: float, split: float) -> None:
    r = np.random.default_rng(3)
    low = (r.random(300) - 0.5) * scale
    high = low + 0.1 * scale
    ends = np.concatenate([low[:40], high[:40], np.nextafter(low[:40], -inf), np.nextafter(high[:40], inf)])
    of = table(*zip(low.tolist(), high.tolist(), strict=True))
    agrees(awb_tree.build(of, width_classes=3, split=split), of, EventBatch.from_dense(ends[:, None]))


@pytest.mark.parametrize("split", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("greatest", [5.0, 1.7e308, float(np.finfo(float).max)])
def test_values_beyond_the_domain_reach_infinite_ends_alone(greatest: float, split: float) -> None:
    hulls = [
        *[(-inf, 1.0), (0.0, inf), (-inf, inf), (inf, inf), (-inf, -inf), (2.0, 2.0), (-greatest, greatest)],
        *[(-inf, -greatest), (greatest, inf), (greatest, greatest)],
    ]
    near = [nextafter(greatest, 0), nextafter(greatest, inf)]
    values = [0.0, 1.0, 2.0, greatest, *near, inf]
    matcher = awb_tree.build(table(*hulls), width_classes=4, split=split)
    for v in [*values, *[-v for v in values]]:
        assert alone(matcher, v) == [[i for i, (low, high) in enumerate(hulls) if low <= v <= high]], v


@pytest.mark.parametrize("split", [0.0, 0.2, 1.0])
def test_an_absent_column_is_a_miss_and_a_contradiction_too(split: float) -> None:
    of = SubscriptionTable.from_intervals(
        [0, 0, 1, 1, 2, 4, 4],
        [0, 1, 0, 1, 0, 0, 1],
        [0, 0, 0, 0, 0, inf, 0],
        [1, 1, 9, 9, 9, -inf, 9],
        n_subscriptions=5,
        n_columns=2,
    )
    matcher = awb_tree.build(of, split=split)
    found = matcher.match(EventBatch.from_dense([[0.5, 0.5], [0.5, np.nan], [np.nan, 0.5], [np.nan, np.nan]]))
    assert [found.of(e).tolist() for e in range(4)] == [[0, 1, 2, 3], [2, 3], [3], [3]]


def test_a_mark_stays_though_a_later_column_is_counted() -> None:
    of = SubscriptionTable.from_intervals(
        [0, 0, 1, 1], [0, 1, 0, 1], [5, 0, 0, 90], [100, 1, 10, 91], n_subscriptions=2, n_columns=2
    )
    found = awb_tree.build(of).match(EventBatch.from_dense([[4.0, 0.5], [4.0, 90.5]]))
    assert [found.of(e).tolist() for e in range(2)] == [[], [1]]


def test_hulls_and_arrays_are_checked_where_they_leave_doubt() -> None:
    of = SubscriptionTable.from_intervals(
        [0, 0, 1, 2], [0, 0, 0, 0], [0, 8, 4, 0], [1, 9, 5, 9], n_subscriptions=3, n_columns=1
    )
    events = EventBatch.from_values([0, 1, 1, 2, 2], [0] * 5, [4.5, 1, 9, 2, 7], n_events=3, n_columns=1)
    for split in (0.0, 0.3, 1.0):
        found = awb_tree.build(of, split=split).match(events)
        assert [found.of(e).tolist() for e in range(3)] == [[1, 2], [0, 2], [2]]


@pytest.mark.parametrize(("count", "itemsize"), [(255, 1), (256, 2), (600, 2)])
def test_a_subscription_may_have_more_predicates_than_a_byte_counts(count: int, itemsize: int) -> None:
    columns = [*range(count), 0, 0]
    of = SubscriptionTable.from_intervals(
        [0] * count + [1, 2],
        columns,
        [1] * (count + 1) + [0],
        [2] * (count + 1) + [9],
        n_subscriptions=3,
        n_columns=count,
    )
    matcher = awb_tree.build(of, split=1.0)
    assert matcher.index.needed.itemsize == itemsize
    values = np.full((2, count), 1.5)
    values[1, -1] = 3.0
    found = matcher.match(EventBatch.from_dense(values))
    assert [found.of(e).tolist() for e in (0, 1)] == [[0, 1, 2], [1, 2]]


@pytest.mark.parametrize("width", [0.05, 0.6])
def test_subscriptions_of_several_blocks_keep_their_numbers(width: float) -> None:
    of = uniform_table(BLOCK + 70, 3, 1, width)
    events = EventBatch.from_dense(np.random.default_rng(2).random((3, 3)))
    matcher = awb_tree.build(of)
    assert len(matcher.index.narrow.row) == 2 * 3 + 1
    agrees(matcher, of, events)


@pytest.mark.parametrize("seed", range(6))
def test_it_lists_what_a_scan_lists(seed: int) -> None:
    r = np.random.default_rng(seed)
    of, events = random_table(r, int(r.choice([0, 1, 300, 900])), 6), random_batch(r, 40, 7)
    agrees(awb_tree.build(of), of, events)
    agrees(awb_tree.build(of, width_classes=int(r.choice([1, 5, 40, 1024])), split=float(r.random())), of, events)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width_classes": 0}, r"width_classes must be an integer within 1 \.\. 1024, not 0"),
        ({"width_classes": 1025}, r"width_classes must be an integer within 1 \.\. 1024, not 1025"),
        ({"width_classes": 4.0}, r"width_classes must be an integer within 1 \.\. 1024, not 4.0"),
        ({"split": -0.1}, r"split must lie within 0 \.\. 1, not -0.1"),
        ({"split": float("nan")}, r"split must lie within 0 \.\. 1, not nan"),
    ],
)
def test_options_that_make_no_classes_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MatchingError, match=message):
        awb_tree.build(table((0, 1)), **options)
