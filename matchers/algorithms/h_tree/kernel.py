"""Chain the hash lists of indexed attributes to a tree of buckets, and search the buckets that may match.

A node is a record of `nodes`, 0 the root, and divides its subscriptions by their cell on one attribute (`column`) into
children child_begin .. child_end, ascending by cell; label[i] is the cell of node i in its parent, the last one, c, for
any value. A bucket has no attribute, -1, and owns the places begin .. end:

    node 0   price       cells:  0      3      4      any
             child:              1      2      3      4           only cells that are somebody's have one
    node 2   volume      cells:  1      any                       a value visits the cells from v - delta to v, and any
             child:              9      10                        without volume: any alone

visits[a, cell] is the mask of the events of a group that visit a cell; one AND says who goes on to a child.

A node has the next attribute on which one of its subscriptions has a cell: those on which all have `any` are passed by.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.cells import cell_of
from matchers.kernels.groups import group_size
from matchers.kernels.growing import twice
from matchers.kernels.jit import inlined, kernel
from matchers.kernels.places import GROUP, bit, check_places, clear_group, list_group, read_group, room_for

NODE = np.dtype(
    [
        ("column", np.int32),
        ("begin", np.int32),
        ("end", np.int32),
        ("child_begin", np.int32),
        ("child_end", np.int32),
    ]
)


@inlined
def within(value: float, begin: float, end: float) -> float:
    """What lies beyond the domain lies at its end."""
    return min(max(value, begin), end)


@kernel
def place(
    start: Any,
    column: Any,
    low: Any,
    high: Any,
    rank: Any,
    begin: Any,
    end: Any,
    per_unit: Any,
    reach: Any,
    cells: int,
    entry_start: Any,
    entry_rank: Any,
    entry_cell: Any,
) -> None:
    """The cells of each subscription on indexed attributes, ascending by the rank of these.

    A predicate fits if its high less `reach` (delta in the attribute's unit) is not above its low. Then a value v on it
    has v - reach <= low <= v, rounded or not, for subtraction ascends; so do cells.
    """
    n = 0
    for s in range(start.shape[0] - 1):
        entry_start[s] = n
        for p in range(start[s], start[s + 1]):
            c = column[p]
            if rank[c] < 0:
                continue
            least = within(low[p], begin[c], end[c])
            if within(high[p], begin[c], end[c]) - reach[c] <= least:
                at = n
                while at > entry_start[s] and entry_rank[at - 1] > rank[c]:
                    entry_rank[at] = entry_rank[at - 1]
                    entry_cell[at] = entry_cell[at - 1]
                    at -= 1
                entry_rank[at] = rank[c]
                entry_cell[at] = cell_of(least, begin[c], per_unit[c], cells)
                n += 1
    entry_start[start.shape[0] - 1] = n


@kernel
def chain(ids: Any, entry_start: Any, entry_rank: Any, entry_cell: Any, indexed: Any, cells: int, bucket: int) -> Any:
    """Divide `ids` into buckets, putting them in their order."""
    nodes = np.zeros(64, NODE)
    label = np.zeros(64, np.int16)
    scratch = np.empty_like(ids)
    at = entry_start[:-1].copy()  # the first entry of each subscription that is not used on the path
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
    return nodes[:n_nodes].copy(), label[:n_nodes].copy()


@kernel
def visit_cells(
    event: int,
    n: int,
    offsets: Any,
    column: Any,
    value: Any,
    begin: Any,
    end: Any,
    per_unit: Any,
    reach: Any,
    cells: int,
    visits: Any,
    on: bool,
) -> None:
    """Set or clear visits[a, cell], the mask of those of n events that visit a cell of attribute a."""
    for e in range(n):
        for k in range(offsets[event + e], offsets[event + e + 1]):
            a = column[k]
            if a < reach.shape[0]:  # the batch may know more columns than the table
                v = within(value[k], begin[a], end[a])
                first = cell_of(v - reach[a], begin[a], per_unit[a], cells)
                for cell in range(first, cell_of(v, begin[a], per_unit[a], cells) + 1):
                    visits[a, cell] = visits[a, cell] | bit(e) if on else np.uint64(0)


@kernel
def walk(nodes: Any, label: Any, visits: Any, n: int, stack: Any, masks: Any, places: Any, group: Any) -> None:
    """Bring n events to the buckets they visit."""
    stack[0] = 0
    masks[0] = ~np.uint64(0) >> np.uint64(64 - n)
    top = 1
    while top > 0:
        top -= 1
        i = stack[top]
        mask = masks[top]
        c = nodes[i]["column"]
        if c < 0:
            check_places(nodes[i]["begin"], nodes[i]["end"], mask, places, group)
            continue
        for child in range(nodes[i]["child_begin"], nodes[i]["child_end"]):
            there = mask & visits[c, label[child]]
            if there != np.uint64(0):
                stack[top] = child
                masks[top] = there
                top += 1


@kernel
def h_tree(
    event: int,
    offsets: Any,
    e_column: Any,
    e_value: Any,
    begin: Any,
    end: Any,
    per_unit: Any,
    reach: Any,
    cells: int,
    nodes: Any,
    label: Any,
    places: Any,
    out: Any,
    counts: Any,
) -> int:
    n_events = offsets.shape[0] - 1
    n_columns = reach.shape[0]
    n_subscriptions = places.several.shape[0]
    group = room_for(n_events - event, n_columns, n_subscriptions)
    visits = np.zeros((n_columns, cells + 1), np.uint64)
    visits[:, cells] = ~np.uint64(0)
    stack = np.empty(nodes.shape[0], np.int32)
    masks = np.empty(nodes.shape[0], np.uint64)
    begun = event
    m = 0
    while event < n_events and out.shape[0] - m >= n_subscriptions:
        n = min(n_events - event, group_size(event - begun, m, out.shape[0] - m, GROUP))
        read_group(event, n, offsets, e_column, e_value, group)
        visit_cells(event, n, offsets, e_column, e_value, begin, end, per_unit, reach, cells, visits, True)
        walk(nodes, label, visits, n, stack, masks, places, group)
        visit_cells(event, n, offsets, e_column, e_value, begin, end, per_unit, reach, cells, visits, False)
        clear_group(event, n, offsets, e_column, group)
        event, m = list_group(event, n, offsets, e_column, e_value, places, group, out, m, counts)
    return event
