"""The place of a subscription in a BE-tree, the division of nodes, and the nodes that an event visits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from matchers import EventBatch, MatchingError, SubscriptionTable
from matchers.algorithms import be_tree
from matchers.algorithms.be_tree import BeTree
from matchers.algorithms.predicates import Predicates
from tests.unit.matchers.agreement import agrees, random_batch, random_table, uniform_table

pytestmark = pytest.mark.kernels
inf = float("inf")


def table(*subscriptions: dict[int, tuple[float, float]], n_columns: int = 3) -> SubscriptionTable:
    rows = [(s, c, *bounds) for s, given in enumerate(subscriptions) for c, bounds in given.items()]
    subscription, column, low, high = zip(*rows, strict=True) if rows else ((), (), (), ())
    return SubscriptionTable.from_intervals(
        subscription, column, low, high, n_subscriptions=len(subscriptions), n_columns=n_columns
    )


def hulls(of: SubscriptionTable) -> dict[tuple[int, int], tuple[float, float]]:
    p = Predicates.of(of)
    return {
        (s, c): (low, high)
        for s, c, low, high in zip(
            p.subscription.tolist(), p.column.tolist(), p.low.tolist(), p.high.tolist(), strict=True
        )
    }


def l_node(tree: BeTree, i: int) -> list[int]:
    ids: list[int] = tree.places.ids[tree.tree.nodes[i]["begin"] : tree.tree.nodes[i]["end"]].tolist()
    return ids


def p_directory(tree: BeTree, i: int) -> dict[int, int]:
    p = slice(tree.tree.nodes[i]["p_begin"], tree.tree.nodes[i]["p_end"])
    return dict(zip(tree.tree.p_column[p].tolist(), tree.tree.p_root[p].tolist(), strict=True))


def c_nodes(
    tree: BeTree, i: int = 0, path: tuple[int, ...] = (), sides: tuple[tuple[int, float, bool], ...] = ()
) -> Iterator[tuple[int, tuple[int, ...], tuple[tuple[int, float, bool], ...]]]:
    """Each with the attributes on its path, and (attribute, split, whether it is right of it)."""
    node = tree.tree.nodes[i]
    yield i, path, sides
    for name in ("left", "right"):
        if node[name]:
            side = (int(node["column"]), float(node["split"]), name == "right")
            yield from c_nodes(tree, int(node[name]), path, (*sides, side))
    for column, root in p_directory(tree, i).items():
        yield from c_nodes(tree, root, (*path, column), sides)


def visited(tree: BeTree, events: EventBatch) -> list[list[int]]:
    """The subscriptions that are checked: without predicates all of them match."""
    places = tree.places._replace(start=np.zeros_like(tree.places.start))
    found = replace(tree, places=places, rows=tree.rows._replace(any_several=False)).match(events)
    return [found.of(e).tolist() for e in range(len(events))]


TABLES = {
    "narrow": lambda: uniform_table(600, 6, 3, 0.1),
    "wide": lambda: uniform_table(600, 6, 3, 0.6),
    "of all kinds": lambda: random_table(np.random.default_rng(5), 400, 7),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("max_cap", [1, 4, 50])
def test_an_l_node_overflows_only_where_no_attribute_is_left(name: str, max_cap: int) -> None:
    of = TABLES[name]()
    tree, has = be_tree.build(of, max_cap=max_cap), hulls(of)
    for i, path, _ in c_nodes(tree):
        if len(l_node(tree, i)) > max_cap:
            left = {c for s, c in has if s in set(l_node(tree, i))} - set(path)
            assert not left


@pytest.mark.parametrize("name", TABLES)
def test_a_subscription_lies_once_below_attributes_it_has_and_in_buckets_that_contain_it(name: str) -> None:
    of = TABLES[name]()
    tree, has = be_tree.build(of, max_cap=4), hulls(of)
    found: list[int] = []
    for i, path, sides in c_nodes(tree):
        node = tree.tree.nodes[i]
        assert len(set(path)) == len(path)  # an attribute is used once on a path
        for s in l_node(tree, i):
            found.append(s)
            for c in path:
                assert (s, c) in has
            for c, split, right in sides:
                low, high = has[s, c]
                assert low >= split if right else high < split
            if path:
                low, high = has[s, path[-1]]
                assert node["low"] <= low
                assert high <= node["high"]
                if node["left"] or node["right"]:  # neither half would contain it
                    assert low < node["split"] <= high
    contradicting = set(of.subscription[of.low > of.high].tolist())
    assert sorted(found) == sorted(set(range(of.n_subscriptions)) - contradicting)


def test_the_attribute_that_most_have_is_taken_first_unless_its_buckets_are_wide() -> None:
    popular = [{0: (1.0, 99.0), 1: (float(s), float(s))} for s in range(8)] + [{0: (0.0, 100.0)}] * 2
    of = table(*popular)
    assert p_directory(be_tree.build(of, max_cap=2, alpha=0.0), 0) == {0: 1}
    assert next(iter(p_directory(be_tree.build(of, max_cap=2, alpha=0.5), 0))) == 1
    assert len(l_node(be_tree.build(of, max_cap=10), 0)) == 10  # no more than max_cap: not divided


def test_fewer_than_min_size_are_not_partitioned() -> None:
    of = table(*[{c: (0.0, 1.0)} for c in (0, 0, 0, 1, 1, 2)])
    assert p_directory(be_tree.build(of, max_cap=1, min_size=3), 0).keys() == {0}
    assert len(l_node(be_tree.build(of, max_cap=1, min_size=3), 0)) == 3
    assert p_directory(be_tree.build(of, max_cap=1), 0).keys() == {0, 1}


def test_the_tree_does_not_depend_on_the_order_of_subscriptions() -> None:
    of = uniform_table(800, 5, 2, 0.2)
    other = np.random.default_rng(1).permutation(800)
    turned = SubscriptionTable.from_intervals(
        other[of.subscription], of.column, of.low, of.high, n_subscriptions=800, n_columns=5
    )
    assert (be_tree.build(of).tree.nodes == be_tree.build(turned).tree.nodes).all()


def test_equal_predicates_are_an_atomic_bucket_that_other_values_pass_by() -> None:
    same = [{0: (3.0, 3.0)} for _ in range(100)]
    tree = be_tree.build(table({0: (0.0, 0.0)}, *same, {0: (9.0, 9.0)}), max_cap=2)
    assert len(tree.tree.nodes) < 8  # no chain of halvings
    events = EventBatch.from_dense([[3.0], [3.5], [2.5]])
    assert [len(ids) for ids in visited(tree, events)] == [100, 0, 0]


def test_an_outlier_makes_no_chain_of_buckets() -> None:
    low = np.random.default_rng(3).random(200)
    of = table(*[{0: (v, v)} for v in (*low.tolist(), 1e308, -1e308)])
    tree = be_tree.build(of, max_cap=1)
    assert len(tree.tree.nodes) < 3 * 202
    agrees(tree, of, EventBatch.from_dense(np.array([*low[:50], 1e308, -1e308, 1e200])[:, None]))


def test_an_event_visits_only_subscriptions_whose_attributes_on_the_path_it_has() -> None:
    of = uniform_table(4_000, 50, 3, 0.1)
    events = EventBatch.from_values([0, 0, 0], [3, 17, 40], [0.2, 0.5, 0.9], n_events=2, n_columns=50)
    few, none = visited(be_tree.build(of), events)
    assert len(few) < 40
    assert len(none) <= 8  # the root's l-node


def test_open_ends_lie_in_the_buckets_at_the_ends() -> None:
    values = np.arange(20.0).tolist()
    of = table(*[{0: (-inf, v)} for v in values[:10]], *[{0: (v, inf)} for v in values[10:]], {0: (-inf, inf)})
    tree = be_tree.build(of, max_cap=2)
    root = tree.tree.nodes[p_directory(tree, 0)[0]]
    assert (root["end"] - root["begin"], root["split"]) == (1, 9.5)
    agrees(tree, of, EventBatch.from_dense([[v] for v in (-inf, -1.0, 0.0, 9.5, 19.0, 1e9, inf)]))


@pytest.mark.parametrize("seed", range(6))
def test_it_lists_what_a_scan_lists(seed: int) -> None:
    r = np.random.default_rng(seed)
    of, events = random_table(r, 500, 6), random_batch(r, 100, 7)
    agrees(be_tree.build(of, max_cap=int(r.integers(1, 20))), of, events)


def test_events_that_match_everything_fill_the_list_again_and_again() -> None:
    of = table(*[{0: (0.0, 1.0)}] * 300)
    agrees(
        be_tree.build(of), of, EventBatch.from_dense(np.full((400, 1), 0.5))
    )  # more than 65,536 matches, the room there is


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_cap": 0}, "max_cap must be 1 or more, not 0"),
        ({"min_size": 0}, "min_size must be 1 or more, not 0"),
        ({"alpha": 1.5}, r"alpha must lie within 0 \.\. 1, not 1.5"),
    ],
)
def test_options_that_make_no_tree_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MatchingError, match=message):
        be_tree.build(table(), **options)
