"""List all subscriptions that are the same as those that an event matches."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.algorithms.tiles.kernels.runs_kernel import sort_each
from matchers.kernels.bitsets import mark
from matchers.kernels.jit import inlined, kernel
from matchers.kernels.vectors import lowest

FEW = 48  # subscriptions of an event that are copied and sorted
RARE = 2_048  # one in so many of all: up to it, too
DENSE = 3  # one in so many of all: from it on, all are looked at


class Same(NamedTuple):
    """U different subscriptions, and the S that are the same as one of them."""

    id_start: Any  # [U + 1] int64: those that are the same as u are id[id_start[u]] .. id[id_start[u + 1]]
    id: Any  # int32, ascending for each u
    unique_of: Any  # [S] int32: the u that each one is the same as; U: none


@kernel
def expanded_alone(unique: Any, held: Any) -> Any:
    """The subscriptions of one event, from its different ones; `held` has a `Same`."""
    id_start, id, unique_of = held.arrays
    offsets = np.zeros(2, np.int64)
    offsets[1] = unique.shape[0]
    return expanded(offsets, unique, id_start, id, unique_of, unique_of.shape[0])[1]


@kernel
def expanded(offsets: Any, unique: Any, id_start: Any, id: Any, unique_of: Any, n_ids: int) -> Any:
    """The offsets and subscriptions of a MatchBatch, ascending within an event, from one of different subscriptions.

    Those of one are copied, and few of several are sorted. More are marked in a map of bits, which is then read in
    order. Where a third of all match, all subscriptions are looked at in order instead, each with a byte of its
    different one, without a branch.
    """
    n = offsets.shape[0] - 1
    to = np.zeros(n + 1, np.int64)
    for e in range(n):
        to[e + 1] = to[e]
        for k in range(offsets[e], offsets[e + 1]):
            to[e + 1] += id_start[unique[k] + 1] - id_start[unique[k]]
    out = np.empty(to[-1], np.int32)
    bits = np.zeros(0, np.uint64)
    matched = np.zeros(0, np.uint8)
    sorted_up_to = 0
    for e in range(n + 1):
        found = to[e + 1] - to[e] if e < n else 0
        in_order = e < n and offsets[e + 1] - offsets[e] > 1 and found > FEW and found * RARE >= n_ids
        if e < n and not in_order:
            _copy(offsets[e], offsets[e + 1], unique, id_start, id, out, to[e])
            continue
        if sorted_up_to < e:
            sort_each(to[sorted_up_to : e + 1], n_ids, out)
        sorted_up_to = e + 1
        if not in_order:
            break
        if found * DENSE >= n_ids:
            if matched.shape[0] == 0:
                matched = np.zeros(id_start.shape[0], np.uint8)
            _look_at_all(offsets[e], offsets[e + 1], unique, unique_of, matched, out, to[e], to[e + 1])
        else:
            if bits.shape[0] == 0:
                bits = np.zeros((n_ids + 63) >> 6, np.uint64)
            _mark(offsets[e], offsets[e + 1], unique, id_start, id, bits, out, to[e])
    return to, out


@inlined
def _copy(begin: int, end: int, unique: Any, id_start: Any, id: Any, out: Any, m: int) -> None:
    for k in range(begin, end):
        for i in range(id_start[unique[k]], id_start[unique[k] + 1]):
            out[m] = id[i]
            m += 1


@inlined
def _mark(begin: int, end: int, unique: Any, id_start: Any, id: Any, bits: Any, out: Any, m: int) -> None:
    """List them by a map of bits, which must be empty and is left so."""
    for k in range(begin, end):
        for i in range(id_start[unique[k]], id_start[unique[k] + 1]):
            mark(bits, id[i])
    for w in range(bits.shape[0]):
        word = bits[w]
        bits[w] = np.uint64(0)
        while word != np.uint64(0):
            out[m] = (w << 6) + np.int64(lowest(word))
            m += 1
            word &= word - np.uint64(1)


@inlined
def _look_at_all(
    begin: int, end: int, unique: Any, unique_of: Any, matched: Any, out: Any, m: Any, out_end: int
) -> None:
    """List them up to out_end. `matched` must be 0 and is left so."""
    for k in range(begin, end):
        matched[unique[k]] = 1
    s = 0
    while m < out_end:
        out[m] = s
        m += np.int64(matched[np.uint64(unique_of[s])])
        s += 1
    for k in range(begin, end):
        matched[unique[k]] = 0
