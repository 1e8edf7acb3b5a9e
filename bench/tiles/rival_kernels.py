"""The loops of a plain SIMD scan and of a bitmap index. Both take a block of subscriptions after the other.

scan      low, high [columns, subscriptions]: all columns of all subscriptions are compared, without an exit
bitmap    bits [columns, cells, words]: bit s of a cell is 0 if the subscription excludes the cell; AND of d rows
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.jit import kernel
from matchers.kernels.vectors import lowest

SCANNED = 4_096  # subscriptions of a block: with 20 columns their bounds take 1.3 MB, as much as a core's own cache
BLOCK_WORDS = 128  # of a row in a block of the bitmap index: 8,192 subscriptions


@kernel
def scan_block(begin: int, end: int, values: Any, low: Any, high: Any, hit: Any, event: Any, found: Any) -> Any:
    """Write (event, subscription) of the matches of a block, events [N, d] one after the other; returns how many."""
    m = np.int64(0)
    for e in range(values.shape[0]):
        for s in range(end - begin):
            hit[s] = 1
        for c in range(values.shape[1]):
            value = values[e, c]
            for s in range(end - begin):
                hit[s] &= np.uint8(low[c, begin + s] <= value) & np.uint8(value <= high[c, begin + s])
        for s in range(end - begin):
            event[m], found[m] = e, begin + s
            m += np.int64(hit[s])
    return m


@kernel
def fill_bits(start: Any, column: Any, first: Any, last: Any, bits: Any) -> None:
    """Clear the bits of the cells that the one interval of a subscription in a column does not reach."""
    for s in range(start.shape[0] - 1):
        word, bit = s >> 6, np.uint64(1) << np.uint64(s & 63)
        for p in range(start[s], start[s + 1]):
            for cell in range(bits.shape[1]):
                if cell < first[p] or cell > last[p]:
                    bits[column[p], cell, word] &= ~bit


@kernel
def match_bits(
    begin: int,
    end: int,
    cells: Any,
    values: Any,
    bits: Any,
    start: Any,
    column: Any,
    bounds: Any,
    event: Any,
    found: Any,
) -> Any:
    """Write (event, subscription) of the matches in the words begin .. end, events one after the other."""
    low, high = bounds
    left = np.empty(end - begin, np.uint64)
    m = np.int64(0)
    for e in range(cells.shape[0]):
        for w in range(end - begin):
            left[w] = bits[0, cells[e, 0], begin + w]
        for c in range(1, cells.shape[1]):
            cell = cells[e, c]
            for w in range(end - begin):
                left[w] &= bits[c, cell, begin + w]
        for w in range(end - begin):
            word = left[w]
            while word != np.uint64(0):
                s = ((begin + w) << 6) + np.int64(lowest(word))
                word &= word - np.uint64(1)
                hit = True
                for p in range(start[s], start[s + 1]):
                    value = values[e, column[p]]
                    if not low[p] <= value <= high[p]:
                        hit = False
                        break
                event[m], found[m] = e, s
                m += np.int64(hit)
    return m
