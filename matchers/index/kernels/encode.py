"""Turn the values of events into places on the columns of a vocabulary.

    column c owns cuts zone[c, 0] .. zone[c, 6], ascending; those with tag t are zone[c, t] .. zone[c, t + 1]
    the code of a value: how many cuts of the column lie at or below it

A cut is its tag and the bytes after it; the first eight of these stand beside each other as one integer (`head`), so
that a search touches the rest only where they are equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.index.kernels.json import NUMBER, TEXT
from matchers.kernels.jit import kernel

_SIGN = np.uint64(1 << 63)
_EIGHT = np.int64(8)


@kernel
def encode(
    offsets: Any,
    path: Any,
    kind: Any,
    number: Any,
    number_bits: Any,
    starts: Any,
    lengths: Any,
    text: Any,
    first: Any,
    columns: Any,
    facet: Any,
    zone: Any,
    simple: Any,
    head: Any,
    cut_start: Any,
    cut_length: Any,
    cut_text: Any,
    absent: Any,
    out_offsets: Any,
    out_column: Any,
    out_value: Any,
) -> int:
    """facet[c] is -1 for the doubles themselves, else the row of starts and lengths, [F, V], that holds the texts as
    the column's facet has them. A path's columns are columns[first[path] : first[path + 1]]. `absent` are the columns
    that want to know of an event that lacks the field. Says how many places were filled.
    """
    seen = np.full(zone.shape[0], -1, np.int64)
    m = 0
    for e in range(offsets.shape[0] - 1):
        begin = m
        for v in range(offsets[e], offsets[e + 1]):
            what = kind[v]
            for k in range(first[path[v]], first[path[v] + 1]):
                c = columns[k]
                f = facet[c]
                if f < 0:
                    if what != NUMBER or number[v] != number[v]:
                        continue
                    out_value[m] = number[v]
                elif what == TEXT:
                    s, n = starts[f, v], lengths[f, v]
                    out_value[m] = _at_or_below(
                        text, s, n, head, cut_start, cut_length, cut_text, zone[c, 5], zone[c, 6]
                    )
                    out_value[m] -= zone[c, 0]
                elif what == NUMBER:
                    at = _numbers_at_or_below(number[v], number_bits[v], head, cut_length, zone[c, 4], zone[c, 5])
                    out_value[m] = at - zone[c, 0]
                else:
                    out_value[m] = simple[c, what]
                out_column[m] = c
                seen[c] = e
                m += 1
        for k in range(absent.shape[0]):
            if seen[absent[k]] != e:
                out_column[m] = absent[k]
                out_value[m] = simple[absent[k], 0]
                m += 1
        _sort(out_column, out_value, begin, m)
        out_offsets[e + 1] = m
    return m


@kernel
def _at_or_below(
    text: Any, s: int, n: int, head: Any, cut_start: Any, cut_length: Any, cut_text: Any, low: int, high: int
) -> int:
    """The first of the cuts low .. high that lies above a text."""
    if low == high:
        return low
    mine = np.uint64(0)
    for k in range(8):
        mine <<= np.uint64(8)
        if k < n:
            mine |= np.uint64(text[s + k])
    while low < high:
        middle = (low + high) >> 1
        other = head[middle]
        above = other > mine
        if other == mine:
            length = cut_length[middle]
            above = length > n
            t = cut_start[middle]
            for k in range(8, min(length, n)):
                if cut_text[t + k] != text[s + k]:
                    above = cut_text[t + k] > text[s + k]
                    break
        if above:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def _numbers_at_or_below(value: float, bits: Any, head: Any, cut_length: Any, low: int, high: int) -> int:
    """The same for a number, whose bits are turned so that they ascend with it (`facets.number_token`)."""
    if value != value:
        mine = ~np.uint64(0)
    elif value == 0.0:
        mine = _SIGN
    elif bits & _SIGN:
        mine = ~bits
    else:
        mine = bits | _SIGN
    while low < high:
        middle = (low + high) >> 1
        if head[middle] > mine or (head[middle] == mine and cut_length[middle] > _EIGHT):
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def _sort(column: Any, value: Any, begin: int, end: int) -> None:
    """Ascending by column, in place. Shell's sort: events are short, and often in order already."""
    gap = 1
    while gap < (end - begin) // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(begin + gap, end):
            c, v = column[i], value[i]
            j = i
            while j >= begin + gap and column[j - gap] > c:
                column[j] = column[j - gap]
                value[j] = value[j - gap]
                j -= gap
            column[j] = c
            value[j] = v
        gap //= 3
