"""Insert subscriptions into the l-nodes of a BE-tree, and delete them.

The tree is that of the algorithm, with room behind its nodes. An l-node has room for more places than it uses; a full
one moves behind all others, with room for twice as many. `below` counts the subscriptions of a c-node's l-node,
p-directory and children.

    insert   down: a child, if the predicate lies within its half; else the p-node with the best score; else the l-node
             an l-node above its capacity is divided as in a build
    delete   up: a c-node with nothing below is left by its parent; one with at most half of max_cap becomes a leaf

Nodes that are left stay in the arrays until all is built anew.

Cost: the depth of the tree, with a search for a predicate in each node; a division costs what building the l-node does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.algorithms.be_tree.kernel import DivisionRules, Tree, divide, hull_on, open_node, predicate_on
from matchers.kernels.growing import twice
from matchers.kernels.jit import kernel
from matchers.kernels.places import PlacedHulls, is_possible

FEWEST_PLACES = 4  # of an l-node that has moved


class GrowingTree(NamedTuple):
    """C c-nodes, P p-nodes, n places, S subscriptions; all with room."""

    tree: Tree
    p_score: Any  # [P] float64: the scores of all predicates below each p-node
    parent: Any  # [C] int32: the c-node whose child it is, or in whose p-directory
    below: Any  # [C] int32
    room: Any  # [C] int32: places of an l-node from its begin on
    capacity: Any  # [C] int32: subscriptions of an l-node, above which it is divided
    places: PlacedHulls
    node_of: Any  # [S] int32
    n_nodes: int
    n_p: int
    n_places: int


@kernel
def plant(ids: Any, n_subscriptions: int, rules: DivisionRules, tree: Tree, p_score: Any) -> GrowingTree:
    """The tree of the subscriptions `ids`, grown from the root of `tree`."""
    n_nodes, n_p, tree, p_score = divide(0, 1, 0, tree, p_score, ids, rules)
    n = tree.nodes.shape[0]
    _, column, low, high = rules.hulls
    room = max(ids.shape[0], FEWEST_PLACES)
    places = PlacedHulls(
        np.zeros(room, np.int32), np.zeros(room, np.int64), np.zeros(room, np.int64), column, low, high
    )
    places.ids[: ids.shape[0]] = ids
    own = np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(n, np.int32)
    parent, below, rooms, capacity = own
    node_of = np.zeros(n_subscriptions, np.int32)
    growing = GrowingTree(tree, p_score, parent, below, rooms, capacity, places, node_of, n_nodes, n_p, ids.shape[0])
    settle_nodes(0, 0, growing, rules)
    return growing


@kernel
def settle_nodes(i: int, first: int, growing: GrowingTree, rules: DivisionRules) -> None:
    """Fill what is noted of c-node i and of those from `first` on, which follow from dividing it."""
    nodes, _, p_root = growing.tree
    places, start = growing.places, rules.hulls.start
    for j in range(growing.n_nodes - 1, first - 2, -1):
        if j < first:
            if i >= first:
                break
            j = i
        begin, end = nodes[j]["begin"], nodes[j]["end"]
        size = end - begin
        growing.room[j] = size
        growing.capacity[j] = rules.max_cap if size <= rules.max_cap else 2 * size
        for at in range(begin, end):
            s = places.ids[at]
            places.start[at] = start[s]
            places.end[at] = start[s + 1]
            growing.node_of[s] = j
        below = size
        for child in (nodes[j]["left"], nodes[j]["right"]):
            if child > 0:
                growing.parent[child] = j
                below += growing.below[child]
        for p in range(nodes[j]["p_begin"], nodes[j]["p_end"]):
            growing.parent[p_root[p]] = j
            below += growing.below[p_root[p]]
        growing.below[j] = below


@kernel
def insert(first: int, last: int, growing: GrowingTree, rules: DivisionRules) -> GrowingTree:
    """Insert the subscriptions first .. last."""
    start = rules.hulls.start
    column, low, high = rules.hulls.column, rules.hulls.low, rules.hulls.high
    for s in range(first, last):
        if not is_possible(s, rules.hulls):
            continue
        growing = with_a_node(growing)
        nodes, p_column, p_root = growing.tree
        i = 0
        a, b = 0.0, 0.0
        while True:
            growing.below[i] += 1
            c = nodes[i]["column"]
            if c >= 0:
                p = predicate_on(s, c, start, column)
                divided = nodes[i]["left"] > 0 or nodes[i]["right"] > 0
                if divided and high[p] < nodes[i]["split"]:
                    b = nodes[i]["split"]
                    if nodes[i]["left"] == 0:
                        nodes[i]["left"] = growing.n_nodes
                        growing = with_child(i, growing, rules)
                    i = nodes[i]["left"]
                    continue
                if divided and low[p] >= nodes[i]["split"]:
                    a = nodes[i]["split"]
                    if nodes[i]["right"] == 0:
                        nodes[i]["right"] = growing.n_nodes
                        growing = with_child(i, growing, rules)
                    i = nodes[i]["right"]
                    continue
                nodes[i]["low"] = min(nodes[i]["low"], low[p])
                nodes[i]["high"] = max(nodes[i]["high"], high[p])
            best = -1
            for k in range(nodes[i]["p_begin"], nodes[i]["p_end"]):
                better = best < 0 or growing.p_score[k] > growing.p_score[best]
                if better and predicate_on(s, p_column[k], start, column) >= 0:
                    best = k
            if best < 0:
                break
            c = p_column[best]
            growing.p_score[best] += rules.score[predicate_on(s, c, start, column)]
            a, b = rules.begin[c], rules.end[c]
            i = p_root[best]
        growing = put(s, i, growing, rules)
        if nodes[i]["end"] - nodes[i]["begin"] > growing.capacity[i]:
            growing = overflow(i, a, b, growing, rules)
    return growing


@kernel
def with_a_node(growing: GrowingTree) -> GrowingTree:
    """The tree, with room for a c-node more."""
    nodes, p_column, p_root = growing.tree
    if growing.n_nodes < nodes.shape[0]:
        return growing
    return with_notes(growing, Tree(twice(nodes), p_column, p_root), growing.p_score, growing.n_nodes, growing.n_p)


@kernel
def with_notes(growing: GrowingTree, tree: Tree, p_score: Any, n_nodes: int, n_p: int) -> GrowingTree:
    """The growing tree with another tree, and notes for as many c-nodes as this has room for."""
    _, _, parent, below, room, capacity, places, node_of, _, _, n_places = growing
    while parent.shape[0] < tree.nodes.shape[0]:
        parent, below, room, capacity = twice(parent), twice(below), twice(room), twice(capacity)
    return GrowingTree(tree, p_score, parent, below, room, capacity, places, node_of, n_nodes, n_p, n_places)


@kernel
def with_child(i: int, growing: GrowingTree, rules: DivisionRules) -> GrowingTree:
    """Open an empty child of c-node i as the next node."""
    nodes = growing.tree.nodes
    j = growing.n_nodes
    open_node(nodes, j, nodes[i]["column"], 0, 0, np.inf, -np.inf, nodes[i]["above"])
    growing.parent[j] = i
    growing.below[j] = 0
    growing.room[j] = 0
    growing.capacity[j] = rules.max_cap
    return with_notes(growing, growing.tree, growing.p_score, j + 1, growing.n_p)


@kernel
def put(s: int, i: int, growing: GrowingTree, rules: DivisionRules) -> GrowingTree:
    """Give a subscription a place in the l-node of c-node i."""
    nodes = growing.tree.nodes
    tree, p_score, parent, below, room, capacity, places, node_of, n_nodes, n_p, n_places = growing
    ids, start, end, _, _, _ = places
    begin = nodes[i]["begin"]
    size = nodes[i]["end"] - begin
    if size == room[i]:
        room[i] = max(FEWEST_PLACES, 2 * size)
        while n_places + room[i] > ids.shape[0]:
            ids, start, end = twice(ids), twice(start), twice(end)
        for k in range(size):
            ids[n_places + k] = ids[begin + k]
            start[n_places + k] = start[begin + k]
            end[n_places + k] = end[begin + k]
        begin = n_places
        nodes[i]["begin"] = begin
        n_places += room[i]
    ids[begin + size] = s
    start[begin + size] = rules.hulls.start[s]
    end[begin + size] = rules.hulls.start[s + 1]
    nodes[i]["end"] = begin + size + 1
    node_of[s] = i
    places = PlacedHulls(ids, start, end, places.column, places.low, places.high)
    return GrowingTree(tree, p_score, parent, below, room, capacity, places, node_of, n_nodes, n_p, n_places)


@kernel
def overflow(i: int, a: float, b: float, growing: GrowingTree, rules: DivisionRules) -> GrowingTree:
    """Divide the l-node of c-node i, whose bucket is a .. b."""
    first = growing.n_nodes
    nodes = growing.tree.nodes
    low, high = nodes[i]["low"], nodes[i]["high"]
    in_a_directory = nodes[i]["column"] >= 0
    has_p_nodes = nodes[i]["p_begin"] < nodes[i]["p_end"]
    if in_a_directory:
        nodes[i]["low"] = a
        nodes[i]["high"] = b
    n_nodes, n_p, tree, p_score = divide(
        i, first, growing.n_p, growing.tree, growing.p_score, growing.places.ids, rules
    )
    growing = with_notes(growing, tree, p_score, n_nodes, n_p)
    if in_a_directory and has_p_nodes:
        tree.nodes[i]["low"] = min(tree.nodes[i]["low"], low)
        tree.nodes[i]["high"] = max(tree.nodes[i]["high"], high)
    settle_nodes(i, first, growing, rules)
    return growing


@kernel
def delete(numbers: Any, growing: GrowingTree, rules: DivisionRules) -> GrowingTree:
    for s in numbers:
        if not is_possible(s, rules.hulls):
            continue
        nodes = growing.tree.nodes
        ids, start, end, _, _, _ = growing.places
        i = growing.node_of[s]
        last = nodes[i]["end"] - 1
        at = nodes[i]["begin"]
        while ids[at] != s:
            at += 1
        ids[at], start[at], end[at] = ids[last], start[last], end[last]
        nodes[i]["end"] = last
        empty = -1
        small = -1
        while True:
            growing.below[i] -= 1
            if growing.below[i] == 0:
                empty = i
            elif growing.below[i] <= rules.max_cap // 2 and child_of(i, growing.tree) > 0:
                small = i
            if i == 0:
                break
            p = p_node_of(i, growing)
            if p >= 0:
                on = predicate_on(s, growing.tree.p_column[p], rules.hulls.start, rules.hulls.column)
                growing.p_score[p] -= rules.score[on]
            i = growing.parent[i]
        if empty > 0:
            leave(empty, growing)
        elif empty == 0:
            while child_of(0, growing.tree) > 0:
                leave(child_of(0, growing.tree), growing)
        if small >= 0:
            growing = collapse(small, growing, rules)
    return growing


@kernel
def child_of(i: int, tree: Tree) -> int:
    """A child of c-node i, or the top of a c-directory there; 0 if it is a leaf."""
    nodes, _, p_root = tree
    if nodes[i]["left"] > 0:
        return int(nodes[i]["left"])
    if nodes[i]["right"] > 0:
        return int(nodes[i]["right"])
    return int(p_root[nodes[i]["p_begin"]]) if nodes[i]["p_begin"] < nodes[i]["p_end"] else 0


@kernel
def p_node_of(i: int, growing: GrowingTree) -> int:
    """The p-node whose c-directory has c-node i at its top; -1 if i is a child."""
    nodes, _, p_root = growing.tree
    j = growing.parent[i]
    if nodes[j]["left"] == i or nodes[j]["right"] == i:
        return -1
    p = nodes[j]["p_begin"]
    while p_root[p] != i:
        p += 1
    return int(p)


@kernel
def leave(i: int, growing: GrowingTree) -> None:
    """Take c-node i from its parent."""
    nodes, p_column, p_root = growing.tree
    j = growing.parent[i]
    p = p_node_of(i, growing)
    if p >= 0:
        last = nodes[j]["p_end"] - 1
        p_column[p], p_root[p], growing.p_score[p] = p_column[last], p_root[last], growing.p_score[last]
        nodes[j]["p_end"] = last
    elif nodes[j]["left"] == i:
        nodes[j]["left"] = 0
    else:
        nodes[j]["right"] = 0


@kernel
def collapse(i: int, growing: GrowingTree, rules: DivisionRules) -> GrowingTree:
    """Bring all subscriptions below c-node i into its l-node."""
    nodes = growing.tree.nodes
    while child_of(i, growing.tree) > 0:
        j = child_of(i, growing.tree)
        while child_of(j, growing.tree) > 0:
            j = child_of(j, growing.tree)
        for at in range(nodes[j]["begin"], nodes[j]["end"]):
            growing = put(growing.places.ids[at], i, growing, rules)
        leave(j, growing)
    growing.capacity[i] = rules.max_cap
    if nodes[i]["column"] >= 0:
        begin, end = nodes[i]["begin"], nodes[i]["end"]
        low, high = hull_on(growing.places.ids, begin, end, nodes[i]["column"], rules.hulls)
        nodes[i]["low"] = low
        nodes[i]["high"] = high
    return growing
