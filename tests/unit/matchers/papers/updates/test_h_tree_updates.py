"""An H-Tree that changes in place: the buckets where subscriptions come and go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from matchers import SubscriptionTable
from matchers.papers import h_tree
from matchers.papers.h_tree import HTree
from matchers.papers.h_tree.kernel import HTreeNodes
from matchers.papers.updates.h_tree import UpdatableHTree
from tests.unit.matchers.agreement import random_table, uniform_table

pytestmark = pytest.mark.kernels

Path = tuple[tuple[int, int], ...]  # the attribute and the cell of each step down from the root


def points(*values: float) -> SubscriptionTable:
    n = len(values)
    return SubscriptionTable.from_intervals(
        np.arange(n), np.zeros(n, int), values, values, n_subscriptions=n, n_columns=1
    )


def leaves(tree: HTreeNodes, i: int = 0, path: Path = ()) -> Iterator[tuple[Path, int]]:
    node = tree.nodes[i]
    if node["column"] < 0:
        yield path, i
    for child in range(node["child_begin"], node["child_end"]):
        yield from leaves(tree, child, (*path, (int(node["column"]), int(tree.label[child]))))


def buckets(index: HTree | UpdatableHTree) -> dict[Path, list[int]]:
    """The subscriptions of each bucket."""
    arrays = index if isinstance(index, HTree) else index._growing
    tree, ids = arrays.tree, arrays.places.ids
    return {path: sorted(ids[tree.nodes[i]["begin"] : tree.nodes[i]["end"]].tolist()) for path, i in leaves(tree)}


def members(index: UpdatableHTree) -> list[int]:
    return sorted(s for ids in buckets(index).values() for s in ids)


def joined(*tables: SubscriptionTable) -> SubscriptionTable:
    first = np.cumsum([0, *(table.n_subscriptions for table in tables)])
    return SubscriptionTable.from_intervals(
        np.concatenate([table.subscription + n for table, n in zip(tables, first, strict=False)]),
        *(np.concatenate([getattr(table, of) for table in tables]) for of in ("column", "low", "high")),
        n_subscriptions=int(first[-1]),
        n_columns=tables[0].n_columns,
    )


@pytest.mark.parametrize("options", [{}, {"bucket": 1}, {"c": 3, "bucket": 5}, {"l": 1, "bucket": 2}, {"delta": 0.1}])
@pytest.mark.parametrize("kind", ["narrow", "wide", "of all kinds"])
def test_insertions_land_in_the_buckets_that_a_build_would_choose(kind: str, options: dict[str, Any]) -> None:
    """Twice a table has the attributes, deltas and cells of the table."""
    if kind == "of all kinds":
        table = random_table(np.random.default_rng(1), 100, 5)
    else:
        table = uniform_table(100, 5, 3, 0.1 if kind == "narrow" else 0.6)
    index = UpdatableHTree(table, **options)
    for s in range(100):
        index.insert(index._table.rows_of(np.array([s])))
    assert buckets(index) == buckets(h_tree.build(joined(table, table), **options))


@pytest.mark.parametrize("options", [{}, {"bucket": 1}, {"c": 3, "bucket": 5}])
def test_all_places_are_as_they_should_be_whatever_came_and_went(options: dict[str, Any]) -> None:
    index = UpdatableHTree(uniform_table(100, 5, 3, 0.1), **options)
    live = [*range(100)]
    r = np.random.default_rng(2)
    for seed in range(4):
        live += range(index._table.n, index._table.n + 20)
        index.insert(uniform_table(20, 5, 3, 0.2, seed))
        gone = r.choice(live, 25, replace=False)
        index.delete(gone)
        live = sorted(set(live) - set(gone.tolist()))
        assert members(index) == live
        growing, start = index._growing, index._chaining.hulls.start
        nodes, ids = growing.tree.nodes, growing.places.ids
        for _, i in leaves(index._growing.tree):
            assert nodes[i]["end"] - nodes[i]["begin"] <= growing.room[i]
            for at in range(nodes[i]["begin"], nodes[i]["end"]):
                assert (growing.places.start[at], growing.places.end[at]) == (start[ids[at]], start[ids[at] + 1])
    reserved = [
        at
        for _, i in leaves(index._growing.tree)
        for at in range(nodes[i]["begin"], nodes[i]["begin"] + growing.room[i])
    ]
    assert len(set(reserved)) == len(reserved)  # no place is that of two buckets


def test_a_bucket_that_is_full_is_divided_when_one_more_comes() -> None:
    index = UpdatableHTree(points(0.0, 1.0, 2.0, 3.0), c=4, bucket=4)
    assert list(buckets(index)) == [()]
    index.insert(points(3.0))
    assert buckets(index) == {((0, 0),): [0], ((0, 1),): [1], ((0, 2),): [2], ((0, 3),): [3, 4]}


def test_a_cell_without_a_child_gets_one() -> None:
    index = UpdatableHTree(points(0.0, 0.0, 3.0), c=4, bucket=1)
    assert buckets(index) == {((0, 0),): [0, 1], ((0, 3),): [2]}
    index.insert(points(1.0, 2.0))
    assert buckets(index) == {((0, 0),): [0, 1], ((0, 1),): [3], ((0, 2),): [4], ((0, 3),): [2]}


def test_a_deleted_place_is_free_again() -> None:
    index = UpdatableHTree(points(1.0, 2.0, 3.0), bucket=1)
    index.insert(points(2.0))
    used = index._growing.n_places
    for number in range(3, 40):
        index.delete(number)
        index.insert(points(2.0))
    assert index._growing.n_places == used
    assert members(index) == [0, 1, 2, 40]


def test_after_all_are_deleted_nothing_is_left() -> None:
    index = UpdatableHTree(uniform_table(60, 4, 3, 0.2), bucket=2)
    assert len(buckets(index)) > 20
    index.delete(np.random.default_rng(1).permutation(60))
    assert members(index) == []


def test_a_bucket_that_cannot_be_divided_doubles_its_room() -> None:
    index = UpdatableHTree(points(*[1.0] * 5), bucket=4)
    (leaf,) = (i for _, i in leaves(index._growing.tree))
    rooms = []
    for _ in range(40):
        index.insert(points(1.0))
        rooms.append(int(index._growing.room[leaf]))
    assert rooms == [10] * 5 + [20] * 10 + [40] * 20 + [80] * 5
    assert members(index) == [*range(45)]


def test_arrays_grow_as_they_must() -> None:
    index = UpdatableHTree(points(0.0, 63.0), c=64, bucket=1)
    for value in range(64):
        index.insert(points(float(value), float(value)))
    assert len(buckets(index)) == 64
    assert len(index._growing.tree.nodes) == len(index._growing.tree.label) == len(index._growing.room)
    assert len(index._growing.places.ids) == len(index._growing.places.start) == len(index._growing.places.end)
    assert members(index) == [*range(130)]
