"""A BE-tree that changes in place: the nodes that divide and go, and what is noted of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from matchers import SubscriptionTable
from matchers.papers.updates.be_tree import UpdatableBeTree
from tests.unit.matchers.agreement import random_table, uniform_table

pytestmark = pytest.mark.kernels


def points(*values: float, column: int = 0, columns: int = 2) -> SubscriptionTable:
    n = len(values)
    return SubscriptionTable.from_intervals(
        np.arange(n), np.full(n, column), values, values, n_subscriptions=n, n_columns=columns
    )


def children(index: UpdatableBeTree, i: int) -> list[int]:
    node = index._growing.tree.nodes[i]
    tops = index._growing.tree.p_root[node["p_begin"] : node["p_end"]].tolist()
    return [int(child) for child in (node["left"], node["right"], *tops) if child]


def subtree(index: UpdatableBeTree, i: int = 0) -> Iterator[int]:
    yield i
    for child in children(index, i):
        yield from subtree(index, child)


def l_node(index: UpdatableBeTree, i: int) -> list[int]:
    node = index._growing.tree.nodes[i]
    ids: list[int] = index._growing.places.ids[node["begin"] : node["end"]].tolist()
    return ids


def members(index: UpdatableBeTree, i: int = 0) -> list[int]:
    return sorted(s for j in subtree(index, i) for s in l_node(index, j))


def bounds(index: UpdatableBeTree, s: int, column: int) -> tuple[float, float, float]:
    """Low, high and score of a predicate."""
    start, columns, low, high = index._rules.hulls
    p = next(p for p in range(start[s], start[s + 1]) if columns[p] == column)
    return float(low[p]), float(high[p]), float(index._rules.score[p])


def check(index: UpdatableBeTree, expected: list[int]) -> None:
    """Each subscription is where an event that satisfies it comes, and all notes are right."""
    growing = index._growing
    nodes, p_column, p_root = growing.tree
    assert members(index) == sorted(expected)
    for i in subtree(index):
        own, node = l_node(index, i), nodes[i]
        assert growing.below[i] == len(members(index, i))
        assert i == 0 or growing.below[i] > 0
        assert len(own) <= growing.room[i]
        assert len(own) <= growing.capacity[i]
        assert all(growing.node_of[s] == i for s in own)
        assert all(growing.parent[child] == i for child in children(index, i))
        column = int(node["column"])
        own_directory = range(node["p_begin"], node["p_end"])
        stay = own + [s for p in own_directory for s in members(index, int(p_root[p]))]
        if column >= 0:
            hulls = {s: bounds(index, s, column) for s in members(index, i)}
            assert all(node["low"] <= hulls[s][0] and hulls[s][1] <= node["high"] for s in stay)
            assert all(hulls[s][1] < node["split"] for s in members(index, int(node["left"])) if node["left"])
            assert all(hulls[s][0] >= node["split"] for s in members(index, int(node["right"])) if node["right"])
        for p in own_directory:
            assert nodes[p_root[p]]["above"] == i
            below = [bounds(index, s, int(p_column[p])) for s in members(index, int(p_root[p]))]
            assert growing.p_score[p] == pytest.approx(sum(of[2] for of in below))
    at = [growing.places.start[k] for i in subtree(index) for k in range(nodes[i]["begin"], nodes[i]["end"])]
    assert at == [index._rules.hulls.start[s] for i in subtree(index) for s in l_node(index, i)]


@pytest.mark.parametrize("max_cap", [1, 4, 20])
@pytest.mark.parametrize("kind", ["narrow", "wide", "of all kinds"])
def test_all_nodes_are_as_they_should_be_whatever_came_and_went(kind: str, max_cap: int) -> None:
    def tables(n: int, seed: int) -> SubscriptionTable:
        if kind == "of all kinds":
            return random_table(np.random.default_rng(seed), n, 5)
        return uniform_table(n, 5, 3, 0.1 if kind == "narrow" else 0.6, seed)

    index = UpdatableBeTree(tables(100, 1), max_cap=max_cap)
    live = [*range(100)]
    r = np.random.default_rng(2)
    for seed in range(4):
        live += range(n := index._table.n, n + 20)
        index.insert(tables(20, seed))
        gone = r.choice(live, 25, replace=False)
        index.delete(gone)
        live = sorted(set(live) - set(gone.tolist()))
        contradictory = set(index._table.subscription[index._table.low > index._table.high].tolist())
        check(index, sorted(set(live) - contradictory))


def test_an_l_node_above_max_cap_is_divided_and_one_of_few_becomes_whole_again() -> None:
    index = UpdatableBeTree(points(0.0, 1.0, 2.0, 3.0), max_cap=4)
    assert [*subtree(index)] == [0]
    index.insert(points(4.0))
    assert l_node(index, 0) == []
    assert len([*subtree(index)]) == 4  # the top of a c-directory, and its halves
    index.delete([0, 4])
    assert len([*subtree(index)]) == 4
    index.delete(1)
    assert [*subtree(index)] == [0]
    assert sorted(l_node(index, 0)) == [2, 3]


def test_a_predicate_that_begins_at_the_split_goes_to_the_right() -> None:
    index = UpdatableBeTree(points(0.0, 1.0, 2.0, 3.0, 4.0), max_cap=4)
    top = index._growing.tree.nodes[children(index, 0)[0]]
    index.insert(points(float(top["split"])))
    check(index, [*range(6)])
    assert 5 in members(index, int(top["right"]))


def test_after_all_are_deleted_only_the_root_is_left() -> None:
    index = UpdatableBeTree(uniform_table(60, 4, 3, 0.2), max_cap=2)
    assert len([*subtree(index)]) > 20
    index.delete(np.random.default_rng(1).permutation(60))
    assert [*subtree(index)] == [0]
    assert members(index) == []


def test_a_place_that_is_free_again_is_taken_by_the_next() -> None:
    index = UpdatableBeTree(points(1.0, 2.0, 3.0), max_cap=8)
    index.insert(points(5.0))
    used = index._growing.n_places
    for number in range(3, 40):
        index.delete(number)
        index.insert(points(5.0))
    assert index._growing.n_places == used


def test_what_cannot_be_divided_is_tried_again_only_when_it_has_doubled() -> None:
    index = UpdatableBeTree(points(*[1.0] * 5), max_cap=4)
    top = children(index, 0)[0]
    assert index._growing.capacity[top] == 10
    for _ in range(5):
        index.insert(points(1.0))
    assert index._growing.capacity[top] == 10
    index.insert(points(1.0))
    assert index._growing.capacity[top] == 22
    assert len(l_node(index, top)) == 11


def test_a_subscription_goes_to_the_p_node_with_the_best_score() -> None:
    both = SubscriptionTable.from_intervals([0, 0], [0, 1], [0.0, 0.0], [0.0, 0.0], n_subscriptions=1, n_columns=2)
    of_columns = SubscriptionTable.from_intervals(
        np.arange(9), [0] * 4 + [1] * 5, np.zeros(9), np.zeros(9), n_subscriptions=9, n_columns=2
    )
    index = UpdatableBeTree(of_columns, max_cap=1, alpha=0.0)
    index.insert(both)
    tops = dict(zip(index._growing.tree.p_column.tolist(), index._growing.tree.p_root.tolist(), strict=True))
    assert 9 in members(index, tops[1])
    index.delete([4, 5, 6])
    index.insert(both)
    assert 10 in members(index, tops[0])
