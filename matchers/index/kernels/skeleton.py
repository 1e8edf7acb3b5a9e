"""Separate the shape of a JSON document from its values.

    {"symbol": ["IBM"], "price": [{"numeric": [">", 100]}]}       the document
    {"symbol":[S],"price":[{"numeric":[">",N]}]}                   its skeleton
    IBM, 100                                                       its values

The skeleton keeps names and texts that compare (`>`, `<=` ...), since these are part of a pattern's meaning. Tokens are
checked, their order is not: documents of one skeleton are JSON all of them, or none is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.index.kernels.json import NUMBER, TEXT, UNKNOWN, nearest_double, scan_number, skip_plain_text
from matchers.kernels.jit import kernel

UNREADABLE = -1


@kernel
def skeletons(
    blob: Any,
    begins: Any,
    ends: Any,
    shape: Any,
    text: Any,
    shape_end: Any,
    table: Any,
    counts: Any,
    kind: Any,
    number_bits: Any,
    start: Any,
    length: Any,
) -> Any:
    """Fill shape[d] with the number of document d's skeleton or UNREADABLE, and its counts[d] values.

    Skeleton s is text[shape_end[s] : shape_end[s + 1]], s from 0 up in the order of appearance; `table` finds them by
    hash. Documents that write a text with escapes, an integer that a double may not hold, or what would not fit into
    `text` or `table`, are UNREADABLE. Says how many skeletons and values there are.
    """
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
                    kind[m] = TEXT
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
                if bits == UNKNOWN:
                    good = False
                    break
                kind[m] = NUMBER
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
        counts[d] = m - first
    return n_shapes, m
