"""Turn the values of events into places on the columns of a vocabulary.

    column c owns cuts zone[c, 0] .. zone[c, 6], ascending; those with tag t are zone[c, t] .. zone[c, t + 1]
    the code of a value: how many cuts of the column lie at or below it

A cut is its tag and the bytes after it; the first eight of these stand beside each other as one integer (`head`), so
that a search touches the rest only where they are equal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.index.kernels.json import NUMBER, TEXT
from matchers.kernels.jit import inner, kernel

_SIGN = np.uint64(1 << 63)
_EIGHT = np.int64(8)


class Cuts(NamedTuple):
    """The C cuts of A columns, column by column."""

    zone: Any  # [A, 7] int64: where a column's cuts with a tag begin
    simple: Any  # [A, 4] int64: the codes of null, false and other values that are all of their tag
    head: Any  # [C] uint64: the first 8 bytes after the tag
    start: Any  # [C] int64: where the bytes after the tag are
    length: Any  # [C] int32
    text: Any  # uint8


class Columns(NamedTuple):
    """The A columns of P fields: field p has the columns [first[p] : first[p + 1]]."""

    first: Any  # [P + 1] int32
    column: Any  # [A] int32
    facet: Any  # [A] int32: -1: the doubles themselves; else the row in `Events` of the texts as its facet has them
    absent: Any  # int32: the columns that mark an event without the field


class Events(NamedTuple):
    """N events with V values, of texts one for each of F facets. Event e owns offsets[e] .. offsets[e + 1]."""

    offsets: Any  # [N + 1] int64
    path: Any  # [V] int32: the field
    kind: Any  # [V] uint8
    number: Any  # [V] float64
    start: Any  # [F, V] int64: a text is text[start : start + length]
    length: Any  # [F, V] int32
    text: Any  # uint8


@kernel
def encode(events: Events, columns: Columns, cuts: Cuts, out_offsets: Any, out_column: Any, out_value: Any) -> int:
    """Fill out_offsets [N + 1] int64, whose first is 0, out_column [M] int32 and out_value [M] float64 with the M
    places of the events, ascending by column; returns M.
    """
    seen = np.zeros(cuts.zone.shape[0] + 1, np.int64)
    return encode_into(events, columns, cuts, seen, out_offsets, out_column, out_value)


@inner
def encode_into(
    events: Events, columns: Columns, cuts: Cuts, seen: Any, out_offsets: Any, out_column: Any, out_value: Any
) -> int:
    """`encode`, in memory that may be kept from call to call: `seen`, [A + 1] int64, at first 0."""
    offsets, path, kind, number, starts, lengths, text = events
    first, columns_of, facet, absent = columns
    zone, simple, head, cut_start, cut_length, cut_text = cuts
    number_bits = number.view(np.uint64)
    serial = seen[zone.shape[0]]  # of the event: the columns that have it were seen
    m = 0
    for e in range(offsets.shape[0] - 1):
        serial += 1
        begin = m
        for v in range(offsets[e], offsets[e + 1]):
            what = kind[v]
            for k in range(first[path[v]], first[path[v] + 1]):
                c = columns_of[k]
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
                seen[c] = serial
                m += 1
        for k in range(absent.shape[0]):
            if seen[absent[k]] != serial:
                out_column[m] = absent[k]
                out_value[m] = simple[absent[k], 0]
                m += 1
        _sort(out_column, out_value, begin, m)
        out_offsets[e + 1] = m
    seen[zone.shape[0]] = serial
    return m


@inner
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


@inner
def _numbers_at_or_below(value: float, bits: Any, head: Any, cut_length: Any, low: int, high: int) -> int:
    """The first of the cuts low .. high that lies above a number, whose bits are turned to ascend with it
    (`facets.number_token`)."""
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


@inner
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
