"""The bucket of a subscription in an H-tree, the end of chaining, and the buckets that an event visits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from matchers import EventBatch, MatchingError, SubscriptionTable
from matchers.papers import h_tree
from matchers.papers.h_tree import HTree
from matchers.papers.h_tree.kernel import visit_cells
from tests.unit.matchers.agreement import agrees, random_batch, random_table, uniform_table

pytestmark = pytest.mark.kernels


def buckets(tree: HTree, i: int = 0, path: tuple[tuple[int, int], ...] = ()) -> Iterator[tuple[Any, list[int]]]:
    """The (attribute, cell) on the way, and the subscriptions."""
    node = tree.tree.nodes[i]
    if node["column"] < 0:
        yield dict(path), tree.places.ids[node["begin"] : node["end"]].tolist()
    for child in range(node["child_begin"], node["child_end"]):
        yield from buckets(tree, child, (*path, (int(node["column"]), int(tree.tree.label[child]))))


def visited(tree: HTree, events: EventBatch) -> list[list[int]]:
    """The subscriptions that are checked: without predicates all of them match."""
    places = tree.places._replace(start=np.zeros_like(tree.places.start))
    found = replace(tree, places=places, rows=tree.rows._replace(any_several=False)).match(events)
    return [found.of(e).tolist() for e in range(len(events))]


def bounds(of: SubscriptionTable) -> dict[tuple[int, int], tuple[float, float]]:
    """Return the bounds of tables with one interval per (subscription, column)."""
    rows = (of.subscription.tolist(), of.column.tolist(), of.low.tolist(), of.high.tolist())
    return {(s, c): (low, high) for s, c, low, high in zip(*rows, strict=True)}


def test_a_subscription_is_stored_once_in_the_cells_of_its_low_ends() -> None:
    of = uniform_table(800, 5, 3, 0.1)
    tree, has, found = h_tree.build(of, c=6, delta=0.125), bounds(of), []
    for path, ids in buckets(tree):
        assert ids  # no bucket is empty
        for s in ids:
            found.append(s)
            for c, cell in path.items():
                if cell == tree.cells.c:
                    assert (s, c) not in has
                else:
                    width = tree.cells.end[c] - tree.cells.begin[c]
                    assert int((has[s, c][0] - tree.cells.begin[c]) / width * 6) == cell
    assert sorted(found) == list(range(800))


def test_a_predicate_wider_than_delta_has_the_cell_for_any_value() -> None:
    low, high = [0.0, 0.0, 0.0, 0.5, 10.0], [2.0, 2.5, 1.0, 2.5, 10.0]
    of = SubscriptionTable.from_intervals(range(5), [0] * 5, low, high, n_subscriptions=5, n_columns=1)
    tree = h_tree.build(of, c=5, delta=0.2, bucket=1)  # 2 of a domain of 10
    assert {path[0]: ids for path, ids in buckets(tree)} == {0: [0, 2, 3], 4: [4], 5: [1]}


@pytest.mark.parametrize(("c", "delta", "most"), [(6, 1 / 6, 2), (6, 0.0, 1), (8, 0.3, 4)])
def test_a_value_lies_in_two_cells_at_most_where_delta_is_up_to_a_cell(c: int, delta: float, most: int) -> None:
    tree = h_tree.build(uniform_table(500, 1, 1, 0.05), c=c, delta=delta)
    values = np.linspace(-0.5, 1.5, 63)
    events = EventBatch.from_dense(values[:, None])
    visits = np.zeros((1, c + 1), np.uint64)
    visit_cells(0, 63, events.arrays, tree.cells, visits, True)
    cells = [sum(int(visits[0, i]) >> e & 1 for i in range(c)) for e in range(63)]
    assert (min(cells), max(cells)) == (1, most)
    visit_cells(0, 63, events.arrays, tree.cells, visits, False)
    assert not visits.any()


def test_chaining_ends_at_a_small_bucket_or_where_no_attribute_is_left() -> None:
    of = uniform_table(800, 6, 2, 0.2)
    has = bounds(of)
    for path, ids in buckets(h_tree.build(of, bucket=10)):
        if len(ids) > 10:
            assert not {c for s, c in has if s in set(ids)} - path.keys()
    assert all(len(path) <= 2 for path, _ in buckets(h_tree.build(of, l=2, bucket=1)))
    assert [ids for _, ids in buckets(h_tree.build(of, l=0))] == [list(range(800))]


def test_attributes_that_most_constrain_narrowly_come_first() -> None:
    r = np.random.default_rng(2)
    n, width = 1000, np.array([0.9, 0.05, 0.05, 0.3])
    rows = [(s, c, v) for c, most in enumerate((1000, 500, 900, 900)) for s in range(most) for v in [r.random()]]
    subscription, column, low = (np.array(x) for x in zip(*rows, strict=True))
    of = SubscriptionTable.from_intervals(
        subscription, column, low, low + width[column], n_subscriptions=n, n_columns=4
    )
    tree = h_tree.build(of)
    chained = [int(tree.tree.nodes[0]["column"])]
    i = 0
    while tree.tree.nodes[i]["column"] >= 0 and len(chained) < 3:
        i = int(tree.tree.nodes[i]["child_end"]) - 1
        chained.append(int(tree.tree.nodes[i]["column"]))
    assert chained[0] == 2
    assert tree.cells.reach[2] / (tree.cells.end - tree.cells.begin)[2] == pytest.approx(0.05, abs=1 / 64)
    assert tree.cells.reach[3] / (tree.cells.end - tree.cells.begin)[3] == pytest.approx(0.23, abs=2 / 64)


def test_an_event_looks_at_a_small_part_where_predicates_are_narrow() -> None:
    of = uniform_table(5_000, 10, 5, 0.05)
    checked = visited(h_tree.build(of), EventBatch.from_dense(np.random.default_rng(1).random((20, 10))))
    assert 0 < sum(map(len, checked)) / 20 < 300


def test_an_event_without_an_attribute_goes_on_with_those_that_do_not_constrain_it() -> None:
    of = uniform_table(4_000, 50, 3, 0.1)
    events = EventBatch.from_values([0, 0, 0], [3, 17, 40], [0.2, 0.5, 0.9], n_events=2, n_columns=50)
    few, none = visited(h_tree.build(of), events)
    assert len(few) < 100
    assert len(none) <= 16


@pytest.mark.parametrize("seed", range(6))
def test_it_lists_what_a_scan_lists(seed: int) -> None:
    r = np.random.default_rng(seed)
    of, events = random_table(r, 500, 6), random_batch(r, 100, 7)
    agrees(h_tree.build(of, c=int(r.integers(1, 20)), bucket=int(r.integers(1, 20))), of, events)
    agrees(h_tree.build(of, delta=float(r.random())), of, events)


def test_a_predicate_of_just_delta_is_found_however_its_ends_are_rounded() -> None:
    r = np.random.default_rng(4)
    low = r.random(1000)
    of = SubscriptionTable.from_intervals(range(1000), [0] * 1000, low, low + 0.1, n_subscriptions=1000, n_columns=1)
    tree = h_tree.build(of, c=64, delta=0.1 / float(np.ptp([*low, *(low + 0.1)])))
    agrees(tree, of, EventBatch.from_dense(np.concatenate([low[:100], low[:100] + 0.1])[:, None]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"c": 0}, r"c must lie within 1 \.\. 1024, not 0"),
        ({"c": 1025}, r"c must lie within 1 \.\. 1024, not 1025"),
        ({"l": -1}, "l must be 0 or more, not -1"),
        ({"delta": 1.5}, r"delta must lie within 0 \.\. 1, not 1.5"),
        ({"bucket": 0}, "bucket must be 1 or more, not 0"),
    ],
)
def test_options_that_make_no_tree_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MatchingError, match=message):
        h_tree.build(uniform_table(1, 1, 1, 0.1), **options)
