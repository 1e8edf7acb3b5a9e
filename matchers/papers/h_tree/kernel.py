"""Chain the hash lists of indexed attributes to a tree of buckets, and search the buckets that may match.

A node is a record of `nodes`, 0 the root. It divides its subscriptions by their cell on one attribute (`column`) into
children child_begin .. child_end, ascending by cell. label[i] is the cell of node i in its parent; the last cell, c, is
`any`. A bucket is a node without an attribute (column -1), and owns the places begin .. end:

    node 0   price       cells:  0      3      4      any
             child:              1      2      3      4           cells without subscriptions have no child
    node 2   volume      cells:  1      any                       value v visits the cells of v - delta .. v, and any
             child:              9      10                        an event without volume visits any alone

visits[a, cell] is the mask of the events of a group that visit a cell; one AND gives the events that go on to a child.

The attribute of a node is the next one on which some of its subscriptions have a cell other than `any`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.cells import cell_of
from matchers.kernels.events import Events
from matchers.kernels.groups import group_size
from matchers.kernels.growing import twice
from matchers.kernels.jit import inlined, kernel
from matchers.kernels.places import (
    GROUP,
    Hulls,
    PlacedHulls,
    Stack,
    all_events,
    bit,
    check_places,
    clear_group,
    list_group,
    push,
    read_group,
    room_for,
    stack_for,
)
from matchers.kernels.rows import Rows

NODE = np.dtype(
    [
        ("column", np.int32),
        ("begin", np.int32),
        ("end", np.int32),
        ("child_begin", np.int32),
        ("child_end", np.int32),
    ]
)


class HTreeNodes(NamedTuple):
    nodes: Any  # [nodes] records of NODE
    label: Any  # [nodes] int16: the cell of each node in its parent


class Overlapping(NamedTuple):
    """The c overlapping cells of each of A attributes: cell i covers its part of the domain and the next `reach`."""

    begin: Any  # [A] float64: the domain
    end: Any  # [A] float64
    per_unit: Any  # [A] float64: cells in a unit of the attribute's values
    reach: Any  # [A] float64: delta, in that unit
    c: int


class ChainOrder(NamedTuple):
    """The l indexed of A attributes, in the order of chaining, and the cells of all."""

    cells: Overlapping
    indexed: Any  # [l] int32: the attributes by rank
    rank: Any  # [A] int32: of each attribute, -1 where it is not indexed


class Entries(NamedTuple):
    """The cells of S subscriptions on the indexed attributes, of P predicates at most."""

    start: Any  # [S + 1] int64: subscription s owns entries start[s] .. start[s + 1]
    rank: Any  # [P] int32: of the attribute, in the order of chaining; ascending within a subscription
    cell: Any  # [P] int32


@inlined
def within(value: float, begin: float, end: float) -> float:
    """The value, or the end of the domain beyond which it lies."""
    return min(max(value, begin), end)


@inlined
def cell_on(low: float, high: float, c: int, cells: Overlapping) -> int:
    """The cell of a predicate on attribute c; -1 if it is wider than each.

    A predicate fits if its high less `reach` is not above its low. Then a value v on it has v - reach <= low <= v, also
    when rounded, because rounded subtraction is monotonic; and so are cells.
    """
    begin, end, per_unit, reach, n_cells = cells
    least = within(low, begin[c], end[c])
    fits = within(high, begin[c], end[c]) - reach[c] <= least
    return cell_of(least, begin[c], per_unit[c], n_cells) if fits else -1


@kernel
def place(hulls: Hulls, rank: Any, cells: Overlapping, entries: Entries) -> None:
    """Fill `entries`; `rank` is that of an `ChainOrder`."""
    start, column, low, high = hulls
    entry_start, entry_rank, entry_cell = entries
    n = 0
    for s in range(start.shape[0] - 1):
        entry_start[s] = n
        for p in range(start[s], start[s + 1]):
            c = column[p]
            cell = cell_on(low[p], high[p], c, cells) if rank[c] >= 0 else -1
            if cell >= 0:
                at = n
                while at > entry_start[s] and entry_rank[at - 1] > rank[c]:
                    entry_rank[at] = entry_rank[at - 1]
                    entry_cell[at] = entry_cell[at - 1]
                    at -= 1
                entry_rank[at] = rank[c]
                entry_cell[at] = cell
                n += 1
    entry_start[start.shape[0] - 1] = n


@kernel
def chain(ids: Any, entries: Entries, indexed: Any, cells: int, bucket: int) -> Any:
    """The HTreeNodes of the subscriptions `ids`, which are put in the order of the buckets.

    `indexed` are the attributes by rank; `bucket` subscriptions or fewer are not divided further.
    """
    entry_start, entry_rank, entry_cell = entries
    nodes = np.zeros(64, NODE)
    label = np.zeros(64, np.int16)
    scratch = np.empty_like(ids)
    at = entry_start[:-1].copy()  # each subscription's first entry that is not used on the path
    of = np.empty(ids.shape[0], np.int16)
    size = np.zeros(cells + 2, np.int64)
    nodes[0]["end"] = ids.shape[0]
    n_nodes = 1
    i = 0
    while i < n_nodes:
        begin = nodes[i]["begin"]
        end = nodes[i]["end"]
        nodes[i]["column"] = -1
        nodes[i]["child_begin"] = n_nodes
        if end - begin > bucket:
            rank = indexed.shape[0]
            for k in range(begin, end):
                s = ids[k]
                if at[s] < entry_start[s + 1]:
                    rank = min(rank, entry_rank[at[s]])
            if rank < indexed.shape[0]:
                nodes[i]["column"] = indexed[rank]
                size[:] = 0
                for k in range(begin, end):
                    s = ids[k]
                    of[k] = cells
                    if at[s] < entry_start[s + 1] and entry_rank[at[s]] == rank:
                        of[k] = entry_cell[at[s]]
                        at[s] += 1
                    size[of[k] + 1] += 1
                    scratch[k] = s
                place = begin
                for cell in range(cells + 1):
                    if size[cell + 1] > 0:
                        if n_nodes == nodes.shape[0]:
                            nodes = twice(nodes)
                            label = twice(label)
                        label[n_nodes] = cell
                        nodes[n_nodes]["begin"] = place
                        place += size[cell + 1]
                        nodes[n_nodes]["end"] = place
                        n_nodes += 1
                    size[cell + 1] += size[cell]
                for k in range(begin, end):
                    ids[begin + size[of[k]]] = scratch[k]
                    size[of[k]] += 1
        nodes[i]["child_end"] = n_nodes
        i += 1
    return HTreeNodes(nodes[:n_nodes].copy(), label[:n_nodes].copy())


@kernel
def visit_cells(event: int, n: int, events: Events, cells: Overlapping, visits: Any, on: bool) -> None:
    """Set or clear visits[a, cell], the mask of the events among n that visit a cell of attribute a."""
    offsets, column, value = events
    begin, end, per_unit, reach, n_cells = cells
    for e in range(n):
        for k in range(offsets[event + e], offsets[event + e + 1]):
            a = column[k]
            if a < reach.shape[0]:  # the batch may know more columns than the table
                v = within(value[k], begin[a], end[a])
                first = cell_of(v - reach[a], begin[a], per_unit[a], n_cells)
                for cell in range(first, cell_of(v, begin[a], per_unit[a], n_cells) + 1):
                    visits[a, cell] = visits[a, cell] | bit(e) if on else np.uint64(0)


@kernel
def walk(tree: HTreeNodes, visits: Any, n: int, stack: Stack) -> int:
    """Bring n events to the buckets that they visit; returns how many these are."""
    nodes, label = tree
    to_visit, masks = stack
    n_visited = 0
    top = push(to_visit, masks, 0, 0, all_events(n))
    while top > 0:
        top -= 1
        i = to_visit[top]
        mask = masks[top]
        c = nodes[i]["column"]
        if c < 0:
            n_visited += 1
            to_visit[nodes.shape[0] - n_visited] = i
            masks[nodes.shape[0] - n_visited] = mask
            continue
        for child in range(nodes[i]["child_begin"], nodes[i]["child_end"]):
            top = push(to_visit, masks, top, child, mask & visits[c, label[child]])
    return n_visited


@kernel
def h_tree(
    event: int,
    events: Events,
    cells: Overlapping,
    tree: HTreeNodes,
    places: PlacedHulls,
    rows: Rows,
    out: Any,
    counts: Any,
) -> int:
    n_events = events.offsets.shape[0] - 1
    n_columns = cells.reach.shape[0]
    n_subscriptions = rows.start.shape[0] - 1
    group = room_for(n_events - event, n_columns, n_subscriptions)
    visits = np.zeros((n_columns, cells.c + 1), np.uint64)
    visits[:, cells.c] = ~np.uint64(0)
    stack = stack_for(tree.nodes.shape[0])
    begun = event
    m = 0
    while event < n_events and out.shape[0] - m >= n_subscriptions:
        n = min(n_events - event, group_size(event - begun, m, out.shape[0] - m, GROUP))
        read_group(event, n, events, group)
        visit_cells(event, n, events, cells, visits, True)
        check_places(tree.nodes, walk(tree, visits, n, stack), stack, places, group)
        visit_cells(event, n, events, cells, visits, False)
        clear_group(event, n, events, group)
        event, m = list_group(event, n, events, rows, group, out, m, counts)
    return event
