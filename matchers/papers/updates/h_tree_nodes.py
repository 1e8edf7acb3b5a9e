"""Insert subscriptions into the buckets of an H-Tree, and delete them.

The tree is that of the algorithm, with room behind its nodes. A bucket has room for more places than it uses, and a
node for more children; what is full moves behind all others, with room for twice as many. New children are last in
their node, so cells do not ascend there. Both kinds of updates go the same way, down from the root:

    node      the child of the subscription's cell on its attribute, or of `any`; an insertion opens it if it is missing
    bucket    insert: a place at the end; above `bucket`, the bucket is divided as in a build
              delete: the last place moves to that of the subscription

Cost: for each node on the way, a search for the predicate and one for the child; to delete, a search through the
bucket. A division costs what building the bucket does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.growing import twice
from matchers.kernels.jit import kernel
from matchers.kernels.places import Hulls, PlacedHulls, is_possible
from matchers.papers.h_tree.kernel import ChainOrder, Entries, HTreeNodes, cell_on, chain, place

FEWEST_PLACES = 4  # of a bucket that has moved
FEWEST_CHILDREN = 2  # that a node which has moved them has room for


class Chaining(NamedTuple):
    """The rules by which a subscription gets its bucket."""

    hulls: Hulls  # of all subscriptions, with room
    order: ChainOrder
    bucket: int  # subscriptions that are not divided further


class GrowingHTree(NamedTuple):
    """N nodes, n places; with room."""

    tree: HTreeNodes
    room: Any  # [N] int32: places of a bucket from its begin on
    child_room: Any  # [N] int32: children of a node from its child_begin on
    places: PlacedHulls
    n_nodes: int
    n_places: int


@kernel
def with_rooms(ids: Any, tree: HTreeNodes, hulls: Hulls) -> GrowingHTree:
    """A tree as it was built, whose places are `ids`."""
    nodes = tree.nodes
    start, column, low, high = hulls
    n_places = max(ids.shape[0], FEWEST_PLACES)
    places = PlacedHulls(
        np.zeros(n_places, np.int32), np.zeros(n_places, np.int64), np.zeros(n_places, np.int64), column, low, high
    )
    for k in range(ids.shape[0]):
        places.ids[k] = ids[k]
        places.start[k] = start[ids[k]]
        places.end[k] = start[ids[k] + 1]
    room, child_room = np.zeros(nodes.shape[0], np.int32), np.zeros(nodes.shape[0], np.int32)
    for i in range(nodes.shape[0]):
        room[i] = nodes[i]["end"] - nodes[i]["begin"] if nodes[i]["column"] < 0 else 0
        child_room[i] = nodes[i]["child_end"] - nodes[i]["child_begin"]
    return GrowingHTree(tree, room, child_room, places, nodes.shape[0], ids.shape[0])


@kernel
def insert(first: int, last: int, growing: GrowingHTree, chaining: Chaining) -> GrowingHTree:
    """Insert the subscriptions first .. last."""
    hulls, order, _ = chaining
    for s in range(first, last):
        if not is_possible(s, hulls):
            continue
        i = 0
        passed = -1
        while growing.tree.nodes[i]["column"] >= 0:
            c = growing.tree.nodes[i]["column"]
            passed = order.rank[c]
            cell = cell_of_subscription(s, c, chaining)
            child = child_at(i, cell, growing.tree)
            if child < 0:
                growing = with_child(i, cell, growing, order.cells.c)
                child = growing.tree.nodes[i]["child_end"] - 1
            i = child
        growing = put(s, i, passed, growing, chaining)
    return growing


@kernel
def delete(numbers: Any, growing: GrowingHTree, chaining: Chaining) -> None:
    nodes = growing.tree.nodes
    ids, start, end, _, _, _ = growing.places
    for s in numbers:
        if not is_possible(s, chaining.hulls):
            continue
        i = 0
        while nodes[i]["column"] >= 0:
            i = child_at(i, cell_of_subscription(s, nodes[i]["column"], chaining), growing.tree)
        last = nodes[i]["end"] - 1
        at = nodes[i]["begin"]
        while ids[at] != s:
            at += 1
        ids[at], start[at], end[at] = ids[last], start[last], end[last]
        nodes[i]["end"] = last


@kernel
def cell_of_subscription(s: int, c: int, chaining: Chaining) -> int:
    """The cell of a subscription on an indexed attribute, which may be `any`."""
    start, column, low, high = chaining.hulls
    cells = chaining.order.cells
    for p in range(start[s], start[s + 1]):
        if column[p] == c:
            cell = cell_on(low[p], high[p], c, cells)
            return cell if cell >= 0 else cells.c
    return cells.c


@kernel
def child_at(i: int, cell: int, tree: HTreeNodes) -> int:
    """The child of node i for a cell; -1 if there is none."""
    nodes, label = tree
    for child in range(nodes[i]["child_begin"], nodes[i]["child_end"]):
        if label[child] == cell:
            return child
    return -1


@kernel
def with_nodes(more: int, growing: GrowingHTree) -> GrowingHTree:
    """The tree with so many more nodes, which are not filled."""
    (nodes, label), room, child_room, places, n_nodes, n_places = growing
    n_nodes += more
    while n_nodes > nodes.shape[0]:
        nodes, label, room, child_room = twice(nodes), twice(label), twice(room), twice(child_room)
    return GrowingHTree(HTreeNodes(nodes, label), room, child_room, places, n_nodes, n_places)


@kernel
def with_child(i: int, cell: int, growing: GrowingHTree, n_cells: int) -> GrowingHTree:
    """Open an empty bucket as the last child of node i."""
    begin, end = growing.tree.nodes[i]["child_begin"], growing.tree.nodes[i]["child_end"]
    size = end - begin
    if size == growing.child_room[i]:
        to = growing.n_nodes
        more = min(max(FEWEST_CHILDREN, 2 * size), n_cells + 1)
        growing = with_nodes(more, growing)
        (nodes, label), room, child_room, _, _, _ = growing
        for k in range(size):
            nodes[to + k], label[to + k] = nodes[begin + k], label[begin + k]
            room[to + k], child_room[to + k] = room[begin + k], child_room[begin + k]
        nodes[i]["child_begin"] = to
        child_room[i] = more
        end = to + size
    nodes, label = growing.tree
    nodes[end]["column"] = -1
    nodes[end]["begin"] = nodes[end]["end"] = 0
    nodes[end]["child_begin"] = nodes[end]["child_end"] = 0
    label[end] = cell
    growing.room[end] = growing.child_room[end] = 0
    nodes[i]["child_end"] = end + 1
    return growing


@kernel
def with_places(more: int, growing: GrowingHTree) -> GrowingHTree:
    """The tree with so many more places, which are not filled."""
    tree, room, child_room, (ids, start, end, column, low, high), n_nodes, n_places = growing
    n_places += more
    while n_places > ids.shape[0]:
        ids, start, end = twice(ids), twice(start), twice(end)
    return GrowingHTree(tree, room, child_room, PlacedHulls(ids, start, end, column, low, high), n_nodes, n_places)


@kernel
def put(s: int, i: int, passed: int, growing: GrowingHTree, chaining: Chaining) -> GrowingHTree:
    """Give a subscription a place in bucket i, below nodes of the attributes up to rank `passed`."""
    begin, end = growing.tree.nodes[i]["begin"], growing.tree.nodes[i]["end"]
    size = end - begin
    if size == growing.room[i]:
        to = growing.n_places
        members = np.empty(size + 1, np.int32)
        members[:size] = growing.places.ids[begin:end]
        members[size] = s
        if size >= chaining.bucket:
            tree, members = chained(members, passed, chaining)
            if tree.nodes.shape[0] > 1:
                growing = with_places(size + 1, growing)
                fill(to, members, growing.places, chaining.hulls)
                return graft(i, to, tree, growing)
        more = 2 * size if size >= chaining.bucket else min(max(FEWEST_PLACES, 2 * size), chaining.bucket)
        growing = with_places(more, growing)
        fill(to, members, growing.places, chaining.hulls)
        growing.tree.nodes[i]["begin"] = to
        growing.room[i] = more
        end = to + size
    ids, start, place_end, _, _, _ = growing.places
    ids[end] = s
    start[end] = chaining.hulls.start[s]
    place_end[end] = chaining.hulls.start[s + 1]
    growing.tree.nodes[i]["end"] = end + 1
    return growing


@kernel
def fill(to: int, members: Any, places: PlacedHulls, hulls: Hulls) -> None:
    """Give subscriptions the places from `to` on."""
    for k in range(members.shape[0]):
        places.ids[to + k] = members[k]
        places.start[to + k] = hulls.start[members[k]]
        places.end[to + k] = hulls.start[members[k] + 1]


@kernel
def chained(members: Any, passed: int, chaining: Chaining) -> Any:
    """The tree of some subscriptions by their attributes above rank `passed`, and these in the order of its buckets."""
    hulls, (cells, indexed, rank), bucket = chaining
    n = 0
    for s in members:
        n += hulls.start[s + 1] - hulls.start[s]
    own = Hulls(np.zeros(members.shape[0] + 1, np.int64), np.empty(n, np.int32), np.empty(n), np.empty(n))
    n = 0
    for k in range(members.shape[0]):
        for p in range(hulls.start[members[k]], hulls.start[members[k] + 1]):
            if rank[hulls.column[p]] > passed:
                own.column[n], own.low[n], own.high[n] = hulls.column[p], hulls.low[p], hulls.high[p]
                n += 1
        own.start[k + 1] = n
    entries = Entries(np.zeros(members.shape[0] + 1, np.int64), np.empty(n, np.int32), np.empty(n, np.int32))
    place(own, rank, cells, entries)
    order = np.arange(members.shape[0]).astype(np.int32)
    tree = chain(order, entries, indexed, cells.c, bucket)
    return tree, members[order]


@kernel
def graft(i: int, to: int, tree: HTreeNodes, growing: GrowingHTree) -> GrowingHTree:
    """Make bucket i the root of a tree, whose places are those from `to` on."""
    shift = growing.n_nodes - 1  # of all its nodes but the root
    growing = with_nodes(tree.nodes.shape[0] - 1, growing)
    (nodes, label), room, child_room, _, _, _ = growing
    for k in range(tree.nodes.shape[0]):
        node = i if k == 0 else shift + k
        nodes[node] = tree.nodes[k]
        nodes[node]["begin"] += to
        nodes[node]["end"] += to
        nodes[node]["child_begin"] += shift
        nodes[node]["child_end"] += shift
        room[node] = nodes[node]["end"] - nodes[node]["begin"] if nodes[node]["column"] < 0 else 0
        child_room[node] = nodes[node]["child_end"] - nodes[node]["child_begin"]
        if k > 0:
            label[node] = tree.label[k]
    return growing
