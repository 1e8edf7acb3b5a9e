"""Grow a BE-tree over a set of subscriptions, and walk it for an event.

A c-node is a record of `nodes`, 0 the root, and its l-node the places begin .. end. Its p-directory is p_begin .. p_end
of p_column and p_root: an attribute each, and the c-node at the top of its c-directory. A c-directory halves the domain
of its attribute (`column`) at `split`; left and right are c-nodes again, 0 where there is none:

    c-node 0   l-node: those that have neither price nor volume
      price    c-node 1   all of the domain   [--------------|--------------]
                          left: high < split  [----|-----]     right: low >= split    l-node: what contains the split
      volume   c-node 2   ...

`low` and `high` are the hull of the predicates on `column` of what is in the l-node or below the p-directory: an event
beyond it passes on to left or right alone. Records lie in the order of growth, so left and right are neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.ascending import first_from
from matchers.kernels.groups import group_size
from matchers.kernels.growing import twice
from matchers.kernels.jit import inlined, kernel
from matchers.kernels.places import GROUP, check_places, clear_group, list_group, list_members, read_group, room_for

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


@kernel
def shares(column: Any, low: Any, high: Any, begin: Any, end: Any, share: Any) -> None:
    """How much of the domain the deepest bucket takes that contains a predicate."""
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
def _on(s: int, c: int, start: Any, column: Any) -> int:
    """Which predicate subscription s has on column c: -1 if none."""
    at = first_from(column, start[s], start[s + 1], c)
    return at if at < start[s + 1] and column[at] == c else -1


@kernel
def _split_at(low: float, high: float, a: float, b: float) -> Any:
    """Where to halve the deepest bucket within a .. b that contains the hull low .. high; a if it is atomic.

    Halvings that would leave one side empty, and nothing on the border, make no node.
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
def grow(
    ids: Any,
    start: Any,
    column: Any,
    low: Any,
    high: Any,
    score: Any,
    begin: Any,
    end: Any,
    max_cap: int,
    min_size: int,
) -> Any:
    """Of the predicates of each subscription, one a column, ascending. Puts `ids` in the order of the l-nodes."""
    n_columns = begin.shape[0]
    nodes = np.zeros(64, NODE)
    p_column = np.zeros(64, np.int32)
    p_root = np.zeros(64, np.int32)
    scratch = np.empty_like(ids)
    total = np.zeros(n_columns)  # score of a column within the l-node at hand
    count = np.zeros(n_columns, np.int64)  # subscriptions of it that have the column
    used = np.zeros(n_columns, np.bool_)  # on the path
    seen = np.empty(n_columns, np.int32)  # columns that have a count
    nodes[0]["column"] = -1
    nodes[0]["end"] = ids.shape[0]
    n_nodes = 1
    n_p = 0
    i = 0
    while i < n_nodes:
        c = nodes[i]["column"]
        first = nodes[i]["begin"]
        last = nodes[i]["end"]
        if c >= 0:
            least, greatest = _hull(ids, first, last, c, start, column, low, high)
            a = nodes[i]["low"]  # of the bucket, until the node is done
            b = nodes[i]["high"]
            if last - first > max_cap and least < greatest:  # clustering
                split, a, b = _split_at(least, greatest, a, b)
                if a < split:
                    rest = first
                    lefts = 0
                    rights = 0
                    for at in range(first, last):
                        s = ids[at]
                        p = _on(s, c, start, column)
                        if high[p] < split:
                            scratch[first + lefts] = s
                            lefts += 1
                        elif low[p] >= split:
                            rights += 1
                            scratch[last - rights] = s
                        else:
                            ids[rest] = s
                            rest += 1
                    ids[rest : rest + lefts] = scratch[first : first + lefts]
                    for k in range(rights):
                        ids[rest + lefts + k] = scratch[last - 1 - k]
                    if n_nodes + 2 > nodes.shape[0]:
                        nodes = twice(nodes)
                    nodes[i]["split"] = split
                    if lefts > 0:
                        nodes[i]["left"] = n_nodes
                        _open(nodes, n_nodes, c, rest, rest + lefts, a, split, nodes[i]["above"])
                        n_nodes += 1
                    if rights > 0:
                        nodes[i]["right"] = n_nodes
                        _open(nodes, n_nodes, c, rest + lefts, last, split, b, nodes[i]["above"])
                        n_nodes += 1
                    last = rest
                    least, greatest = _hull(ids, first, last, c, start, column, low, high)
            nodes[i]["low"] = least
            nodes[i]["high"] = greatest
        nodes[i]["p_begin"] = n_p
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
                rest = first
                moved = 0
                for at in range(first, last):
                    s = ids[at]
                    if _on(s, best, start, column) < 0:
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
                ids[rest:last] = scratch[:moved]
                if n_nodes == nodes.shape[0]:
                    nodes = twice(nodes)
                if n_p == p_column.shape[0]:
                    p_column = twice(p_column)
                    p_root = twice(p_root)
                p_column[n_p] = best
                p_root[n_p] = n_nodes
                n_p += 1
                _open(nodes, n_nodes, best, rest, last, begin[best], end[best], i)
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
        i += 1
    return nodes[:n_nodes].copy(), p_column[:n_p].copy(), p_root[:n_p].copy()


@inlined
def _open(nodes: Any, i: int, column: int, begin: int, end: int, low: float, high: float, above: int) -> None:
    nodes[i]["column"] = column
    nodes[i]["begin"] = begin
    nodes[i]["end"] = end
    nodes[i]["low"] = low
    nodes[i]["high"] = high
    nodes[i]["above"] = above


@kernel
def _hull(ids: Any, first: int, last: int, c: int, start: Any, column: Any, low: Any, high: Any) -> Any:
    least = np.inf
    greatest = -np.inf
    for at in range(first, last):
        p = _on(ids[at], c, start, column)
        least = min(least, low[p])
        greatest = max(greatest, high[p])
    return least, greatest


@kernel
def walk(nodes: Any, p_column: Any, p_root: Any, n: int, stack: Any, masks: Any, places: Any, group: Any) -> None:
    """Bring n events to the l-nodes they visit: a mask of these is all that goes down from a node to the next."""
    stack[0] = 0
    masks[0] = ~np.uint64(0) >> np.uint64(64 - n)
    top = 1
    while top > 0:
        top -= 1
        i = stack[top]
        mask = masks[top]
        c = nodes[i]["column"]
        if c >= 0:
            left = np.uint64(0)
            right = np.uint64(0)
            own = np.uint64(0)
            for j in range(list_members(mask, group.members)):
                e = group.members[j]
                least = group.least[c, e]
                greatest = group.greatest[c, e]
                left |= np.uint64(least < nodes[i]["split"]) << np.uint64(e)
                right |= np.uint64(greatest >= nodes[i]["split"]) << np.uint64(e)
                own |= np.uint64(greatest >= nodes[i]["low"] and least <= nodes[i]["high"]) << np.uint64(e)
            if nodes[i]["left"] > 0 and left != np.uint64(0):
                stack[top] = nodes[i]["left"]
                masks[top] = left
                top += 1
            if nodes[i]["right"] > 0 and right != np.uint64(0):
                stack[top] = nodes[i]["right"]
                masks[top] = right
                top += 1
            mask = own
        if mask == np.uint64(0):
            continue
        check_places(nodes[i]["begin"], nodes[i]["end"], mask, places, group)
        for p in range(nodes[i]["p_begin"], nodes[i]["p_end"]):
            having = mask & group.has[p_column[p]]
            if having != np.uint64(0):
                stack[top] = p_root[p]
                masks[top] = having
                top += 1


@kernel
def be_tree(
    event: int,
    offsets: Any,
    e_column: Any,
    e_value: Any,
    nodes: Any,
    p_column: Any,
    p_root: Any,
    places: Any,
    n_columns: int,
    out: Any,
    counts: Any,
) -> int:
    n_events = offsets.shape[0] - 1
    n_subscriptions = places.several.shape[0]
    group = room_for(n_events - event, n_columns, n_subscriptions)
    stack = np.empty(nodes.shape[0], np.int32)
    masks = np.empty(nodes.shape[0], np.uint64)
    begun = event
    m = 0
    while event < n_events and out.shape[0] - m >= n_subscriptions:
        n = min(n_events - event, group_size(event - begun, m, out.shape[0] - m, GROUP))
        read_group(event, n, offsets, e_column, e_value, group)
        walk(nodes, p_column, p_root, n, stack, masks, places, group)
        clear_group(event, n, offsets, e_column, group)
        event, m = list_group(event, n, offsets, e_column, e_value, places, group, out, m, counts)
    return event
