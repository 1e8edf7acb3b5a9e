"""Grow a BE-tree over a set of subscriptions, and walk it for an event.

A c-node is a record of `nodes`, 0 the root. Its l-node is the places begin .. end. Its p-directory is the p-nodes
p_begin .. p_end, each with an attribute (p_column) and the c-node at the top of its c-directory (p_root). A c-directory
halves the domain of its attribute (`column`) at `split`; left and right are c-nodes too, 0 where there is none:

    c-node 0   l-node: subscriptions with neither price nor volume
      price    c-node 1   the whole domain    [--------------|--------------]
                          left: high < split  [----|-----]     right: low >= split    l-node: low < split <= high
      volume   c-node 2   ...

low .. high is the hull of the predicates on `column` of the subscriptions in the l-node and below the p-directory. An
event outside of it visits left and right only. Nodes lie in the order of growth, so left and right are neighbours.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.ascending import first_from
from matchers.kernels.events import Events
from matchers.kernels.groups import group_size
from matchers.kernels.growing import twice
from matchers.kernels.jit import inlined, inner, kernel
from matchers.kernels.places import (
    GROUP,
    Group,
    Hulls,
    PlacedHulls,
    Stack,
    all_events,
    check_places,
    clear_group,
    list_group,
    list_members,
    push,
    read_group,
    room_for,
    stack_for,
)
from matchers.kernels.rows import Rows

NODE = np.dtype(
    [
        ("low", np.float64),
        ("high", np.float64),
        ("split", np.float64),
        ("column", np.int32),  # -1: the root, which lies in no c-directory
        ("begin", np.int32),
        ("end", np.int32),
        ("p_begin", np.int32),
        ("p_end", np.int32),
        ("left", np.int32),
        ("right", np.int32),
        ("above", np.int32),  # the c-node in whose p-directory the attribute is
    ]
)


class Tree(NamedTuple):
    """C c-nodes and P p-nodes."""

    nodes: Any  # [C] records of NODE
    p_column: Any  # [P] int32: the attribute
    p_root: Any  # [P] int32: the c-node at the top of its c-directory


class DivisionRules(NamedTuple):
    """The rules by which l-nodes are divided: P predicates, A attributes."""

    hulls: Hulls
    score: Any  # [P] float64: of each predicate
    begin: Any  # [A] float64: the domain
    end: Any  # [A] float64
    max_cap: int
    min_size: int


@kernel
def shares(hulls: Hulls, begin: Any, end: Any, share: Any) -> None:
    """Fill share [P]: the share of its attribute's domain that the deepest bucket around each predicate takes."""
    _, column, low, high = hulls
    for p in range(column.shape[0]):
        a = begin[column[p]]
        b = end[column[p]]
        share[p] = 1.0
        while share[p] > 1e-6:
            split = 0.5 * a + 0.5 * b
            if high[p] < split:
                b = split
            elif low[p] >= split and a < split:
                a = split
            else:
                break
            share[p] *= 0.5


@inlined
def predicate_on(s: int, c: int, start: Any, column: Any) -> int:
    """The predicate of subscription s on column c; -1 if it has none."""
    at = first_from(column, start[s], start[s + 1], c)
    return at if at < start[s + 1] and column[at] == c else -1


@inner
def _split_at(low: float, high: float, a: float, b: float) -> Any:
    """Find the deepest bucket within a .. b that contains the hull low .. high.

    Returns where to halve it, and its two ends; if it is atomic, its lower end instead of a split. Halvings that leave
    one side and the border empty make no node, and are passed over.
    """
    split = 0.5 * a + 0.5 * b
    while a < split < b:
        if high < split:
            b = split
        elif low >= split:
            a = split
        else:
            return split, a, b
        split = 0.5 * a + 0.5 * b
    return a, a, b


@kernel
def sapling(n: int) -> Any:
    """A Tree with room, of one c-node, the root, with n subscriptions; and room for the scores of p-nodes."""
    nodes = np.zeros(64, NODE)
    nodes[0]["column"] = -1
    nodes[0]["end"] = n
    return Tree(nodes, np.zeros(64, np.int32), np.zeros(64, np.int32)), np.zeros(64)


@kernel
def grow(ids: Any, rules: DivisionRules) -> Any:
    """The Tree of the subscriptions `ids`, which are put in the order of the l-nodes."""
    tree, p_score = sapling(ids.shape[0])
    n_nodes, n_p, tree, _ = divide(0, 1, 0, tree, p_score, ids, rules)
    nodes, p_column, p_root = tree
    return Tree(nodes[:n_nodes].copy(), p_column[:n_p].copy(), p_root[:n_p].copy())


@kernel
def divide(i: int, n_nodes: int, n_p: int, tree: Tree, p_score: Any, ids: Any, rules: DivisionRules) -> Any:
    """Divide the l-node of c-node i, and those that come of it, as far as they are above max_cap.

    Of the tree, which has room, n_nodes c-nodes and n_p p-nodes are in use; others follow them. low .. high of c-node i
    is its bucket. `ids` of the l-node are put in the order of the new l-nodes. Returns the numbers of nodes, the tree
    and the scores of p-nodes, in larger arrays where they were full.
    """
    nodes, p_column, p_root = tree
    start, column, low, high = rules.hulls
    score, begin, end, max_cap, min_size = rules.score, rules.begin, rules.end, rules.max_cap, rules.min_size
    hulls = rules.hulls
    n_columns = begin.shape[0]
    origin = nodes[i]["begin"]
    scratch = np.empty(nodes[i]["end"] - origin, ids.dtype)
    total = np.zeros(n_columns)  # score of a column within the current l-node
    count = np.zeros(n_columns, np.int64)  # subscriptions of the l-node that have the column
    used = np.zeros(n_columns, np.bool_)  # on the path
    seen = np.empty(n_columns, np.int32)  # columns whose count is not 0
    following = n_nodes
    while i < n_nodes:
        c = nodes[i]["column"]
        first = nodes[i]["begin"]
        last = nodes[i]["end"]
        if c >= 0:
            least, greatest = hull_on(ids, first, last, c, hulls)
            a = nodes[i]["low"]  # of the bucket, until the node is done
            b = nodes[i]["high"]
            whole = nodes[i]["left"] == 0 and nodes[i]["right"] == 0
            if last - first > max_cap and whole and least < greatest:  # clustering
                split, a, b = _split_at(least, greatest, a, b)
                if a < split:
                    rest = first
                    lefts = 0
                    rights = 0
                    for at in range(first, last):
                        s = ids[at]
                        p = predicate_on(s, c, start, column)
                        if high[p] < split:
                            scratch[first - origin + lefts] = s
                            lefts += 1
                        elif low[p] >= split:
                            rights += 1
                            scratch[last - origin - rights] = s
                        else:
                            ids[rest] = s
                            rest += 1
                    for k in range(lefts):
                        ids[rest + k] = scratch[first - origin + k]
                    for k in range(rights):
                        ids[rest + lefts + k] = scratch[last - origin - 1 - k]
                    if n_nodes + 2 > nodes.shape[0]:
                        nodes = twice(nodes)
                    nodes[i]["split"] = split
                    if lefts > 0:
                        nodes[i]["left"] = n_nodes
                        open_node(nodes, n_nodes, c, rest, rest + lefts, a, split, nodes[i]["above"])
                        n_nodes += 1
                    if rights > 0:
                        nodes[i]["right"] = n_nodes
                        open_node(nodes, n_nodes, c, rest + lefts, last, split, b, nodes[i]["above"])
                        n_nodes += 1
                    last = rest
                    least, greatest = hull_on(ids, first, last, c, hulls)
            nodes[i]["low"] = least
            nodes[i]["high"] = greatest
        old_p, old_p_end = nodes[i]["p_begin"], nodes[i]["p_end"]
        nodes[i]["p_begin"] = n_p
        for p in range(old_p, old_p_end):  # p-nodes that an l-node in use has already
            if n_p == p_column.shape[0]:
                p_column, p_root, p_score = twice(p_column), twice(p_root), twice(p_score)
            p_column[n_p] = p_column[p]
            p_root[n_p] = p_root[p]
            p_score[n_p] = p_score[p]
            n_p += 1
        if last - first > max_cap:  # partitioning
            above = i
            while nodes[above]["column"] >= 0:
                used[nodes[above]["column"]] = True
                above = nodes[above]["above"]
            n_seen = 0
            for at in range(first, last):
                for p in range(start[ids[at]], start[ids[at] + 1]):
                    k = column[p]
                    if not used[k]:
                        if count[k] == 0:
                            seen[n_seen] = k
                            n_seen += 1
                            total[k] = 0.0
                        count[k] += 1
                        total[k] += score[p]
            while last - first > max_cap:
                best = -1
                for j in range(n_seen):
                    k = seen[j]
                    if count[k] >= min_size and (
                        best < 0 or total[k] > total[best] or (total[k] == total[best] and k < best)
                    ):
                        best = k
                if best < 0:
                    break
                of_best = total[best]
                rest = first
                moved = 0
                for at in range(first, last):
                    s = ids[at]
                    if predicate_on(s, best, start, column) < 0:
                        ids[rest] = s
                        rest += 1
                    else:
                        scratch[moved] = s
                        moved += 1
                        for p in range(start[s], start[s + 1]):
                            k = column[p]
                            if not used[k]:
                                count[k] -= 1
                                total[k] -= score[p]
                for k in range(moved):
                    ids[rest + k] = scratch[k]
                if n_nodes == nodes.shape[0]:
                    nodes = twice(nodes)
                if n_p == p_column.shape[0]:
                    p_column, p_root, p_score = twice(p_column), twice(p_root), twice(p_score)
                p_column[n_p] = best
                p_root[n_p] = n_nodes
                p_score[n_p] = of_best
                n_p += 1
                open_node(nodes, n_nodes, best, rest, last, begin[best], end[best], i)
                n_nodes += 1
                last = rest
            for j in range(n_seen):
                count[seen[j]] = 0
            above = i
            while nodes[above]["column"] >= 0:
                used[nodes[above]["column"]] = False
                above = nodes[above]["above"]
        nodes[i]["p_end"] = n_p
        nodes[i]["end"] = last
        i = max(i + 1, following)
    return n_nodes, n_p, Tree(nodes, p_column, p_root), p_score


@inlined
def open_node(nodes: Any, i: int, column: int, begin: int, end: int, low: float, high: float, above: int) -> None:
    nodes[i]["column"] = column
    nodes[i]["begin"] = begin
    nodes[i]["end"] = end
    nodes[i]["low"] = low
    nodes[i]["high"] = high
    nodes[i]["above"] = above


@inner
def hull_on(ids: Any, first: int, last: int, c: int, hulls: Hulls) -> Any:
    """The hull of the predicates on column c of the subscriptions ids[first : last], which all have one."""
    start, column, low, high = hulls
    least = np.inf
    greatest = -np.inf
    for at in range(first, last):
        p = predicate_on(ids[at], c, start, column)
        least = min(least, low[p])
        greatest = max(greatest, high[p])
    return least, greatest


@kernel
def walk(tree: Tree, n: int, group: Group, stack: Stack) -> int:
    """Bring n events to the l-nodes that they visit; returns how many these are."""
    nodes, p_column, p_root = tree
    least, greatest, has, _, _, members, _, _ = group
    to_visit, masks = stack
    n_visited = 0
    top = push(to_visit, masks, 0, 0, all_events(n))
    while top > 0:
        top -= 1
        i = to_visit[top]
        mask = masks[top]
        c = nodes[i]["column"]
        if c >= 0:
            left = np.uint64(0)
            right = np.uint64(0)
            inside = np.uint64(0)
            for j in range(list_members(mask, members)):
                e = members[j]
                left |= np.uint64(least[c, e] < nodes[i]["split"]) << np.uint64(e)
                right |= np.uint64(greatest[c, e] >= nodes[i]["split"]) << np.uint64(e)
                within = greatest[c, e] >= nodes[i]["low"] and least[c, e] <= nodes[i]["high"]
                inside |= np.uint64(within) << np.uint64(e)
            if nodes[i]["left"] > 0:
                top = push(to_visit, masks, top, nodes[i]["left"], left)
            if nodes[i]["right"] > 0:
                top = push(to_visit, masks, top, nodes[i]["right"], right)
            mask = inside
        if mask == np.uint64(0):
            continue
        n_visited += 1
        to_visit[nodes.shape[0] - n_visited] = i
        masks[nodes.shape[0] - n_visited] = mask
        for p in range(nodes[i]["p_begin"], nodes[i]["p_end"]):
            top = push(to_visit, masks, top, p_root[p], mask & has[p_column[p]])
    return n_visited


@kernel
def be_tree(
    event: int, events: Events, tree: Tree, places: PlacedHulls, rows: Rows, n_columns: int, out: Any, counts: Any
) -> int:
    n_events = events.offsets.shape[0] - 1
    n_subscriptions = rows.start.shape[0] - 1
    group = room_for(n_events - event, n_columns, n_subscriptions)
    stack = stack_for(tree.nodes.shape[0])
    begun = event
    m = 0
    while event < n_events and out.shape[0] - m >= n_subscriptions:
        n = min(n_events - event, group_size(event - begun, m, out.shape[0] - m, GROUP))
        read_group(event, n, events, group)
        check_places(tree.nodes, walk(tree, n, group, stack), stack, places, group)
        clear_group(event, n, events, group)
        event, m = list_group(event, n, events, rows, group, out, m, counts)
    return event
