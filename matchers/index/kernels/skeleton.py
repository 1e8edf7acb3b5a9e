"""Separate the shape of a JSON document from its values.

    {"symbol": ["IBM"], "price": [{"numeric": [">", 100]}]}       the document
    {"symbol":[S],"price":[{"numeric":[">",N]}]}                   its skeleton
    IBM, 100                                                       its values

The skeleton keeps names and texts that compare (`>`, `<=` ...), since these are part of a pattern's meaning. Tokens are
checked, their order is not: documents of one skeleton are JSON all of them, or none is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.index.kernels.json import UNKNOWN, Documents, nearest_double, scan_number, skip_plain_text
from matchers.kernels.jit import kernel

UNREADABLE = -1


class Shapes(NamedTuple):
    """Different skeletons in the order of appearance: skeleton s is text[end[s] : end[s + 1]]."""

    text: Any  # uint8
    end: Any  # int64, the first of them 0
    table: Any  # int32: the skeletons by hash, a power of two long; -1: free


class SkeletonSlots(NamedTuple):
    """The V values of N documents; document d owns offsets[d] .. offsets[d + 1]."""

    offsets: Any  # [N + 1] int64, the first of them 0
    number: Any  # [V] float64, of a number
    start: Any  # [V] int64, of a text: where it begins in the text of the documents
    length: Any  # [V] int32, of a text


@kernel
def skeletons(documents: Documents, shapes: Shapes, slots: SkeletonSlots, shape: Any) -> Any:
    """Fill `shapes`, `slots` and shape [N] int32, the number of each document's skeleton or UNREADABLE.

    Documents that write a text with escapes, an integer that a double may not hold, or whose skeleton would not fit
    into `shapes`, are UNREADABLE. Returns how many skeletons and values there are.
    """
    blob, begins, ends = documents
    text, shape_end, table = shapes
    offsets, number, start, length = slots
    number_bits = number.view(np.uint64)
    n_shapes = 0
    m = 0
    mask = table.shape[0] - 1
    for d in range(begins.shape[0]):
        i = begins[d]
        end = ends[d]
        first = m
        base = shape_end[n_shapes]
        t = base
        h = np.uint64(14695981039346656037)
        good = i < end
        while i < end:
            if t + (end - i) + 8 > text.shape[0]:
                good = False
                break
            c = blob[i]
            if c == 0x20 or c == 0x0A or c == 0x0D or c == 0x09:
                i += 1
                continue
            put = c
            if c == 0x22:
                begin = i + 1
                i = skip_plain_text(blob, begin, end)
                if i < 0:
                    good = False
                    break
                n = i - begin
                i += 1
                after = i
                while after < end and (
                    blob[after] == 0x20 or blob[after] == 0x0A or blob[after] == 0x0D or blob[after] == 0x09
                ):
                    after += 1
                compares = 0 < n <= 2 and 0x3C <= blob[begin] <= 0x3E
                if compares or (after < end and blob[after] == 0x3A):
                    for k in range(begin - 1, i - 1):
                        text[t] = blob[k]
                        h = (h ^ np.uint64(blob[k])) * np.uint64(1099511628211)
                        t += 1
                else:
                    if m == start.shape[0]:  # more than any JSON has, since its values are separated
                        good = False
                        break
                    start[m] = begin
                    length[m] = n
                    m += 1
                    put = 0x53  # S
            elif c == 0x2D or 0x30 <= c <= 0x39:
                begin = i
                i, mantissa, exponent, integer = scan_number(blob, i, end)
                if i < 0 or (integer and i - begin > 15):
                    good = False
                    break
                bits = nearest_double(mantissa, exponent)
                if bits == UNKNOWN or m == start.shape[0]:
                    good = False
                    break
                number_bits[m] = bits | (np.uint64(c == 0x2D) << np.uint64(63))
                m += 1
                put = 0x4E  # N
            elif c == 0x74 or c == 0x66 or c == 0x6E:
                n = 5 if c == 0x66 else 4
                word = 0
                if i + n <= end:
                    for k in range(i + 1, i + n):
                        word = word * 256 + int(blob[k])
                if not (
                    (c == 0x74 and word == 0x727565)
                    or (c == 0x66 and word == 0x616C7365)
                    or (c == 0x6E and word == 0x756C6C)
                ):
                    good = False
                    break
                i += n
            elif c == 0x7B or c == 0x7D or c == 0x5B or c == 0x5D or c == 0x2C or c == 0x3A:
                i += 1
            else:
                good = False
                break
            text[t] = put
            h = (h ^ np.uint64(put)) * np.uint64(1099511628211)
            t += 1
        slot = np.int64(h >> np.uint64(1)) & mask
        found = UNREADABLE
        if good:
            while table[slot] >= 0:
                s = table[slot]
                if shape_end[s + 1] - shape_end[s] == t - base:
                    same = True
                    for k in range(t - base):
                        if text[shape_end[s] + k] != text[base + k]:
                            same = False
                            break
                    if same:
                        found = s
                        break
                slot = (slot + 1) & mask
            if found < 0 and 2 * n_shapes < table.shape[0] and n_shapes + 2 < shape_end.shape[0]:
                found = n_shapes
                table[slot] = n_shapes
                n_shapes += 1
                shape_end[n_shapes] = t
        if found < 0:
            m = first
        shape[d] = found
        offsets[d + 1] = m
    return n_shapes, m
