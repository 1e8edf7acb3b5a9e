"""Count the columns in which an event has yet to hit a subscription: the parts that counting kernels share.

    needed:     2  1  3        an event hits 0, 0, 2        left:   0  1  2     -> subscription 0 matches

A counter has the least type that holds `needed`: a byte for up to 255 columns, so a million of them stay in the second
cache. Counters are padded to whole words, with 1 where there is no subscription.

Several values of one column may hit one subscription. They are one group, and `stamp` remembers the last group that
counted for a subscription. A value that is alone in its column has group 0 and needs no stamp:

    column:  2  2  5  7       of a batch's values 8 9 10 11
    group:   9  9  0  0       1 + the place of the column's first value, so no two events share a group
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.jit import inlined, kernel
from matchers.kernels.rows import has_several_values

BLOCK = 8  # counters are padded to a multiple of it, so that they are whole words


def padded(needed: Any) -> Any:
    """`needed` as counters: [S, padded to blocks], of the least type that holds it."""
    counters = np.ones(-(-len(needed) // BLOCK) * BLOCK, np.min_scalar_type(int(needed.max(initial=1))))
    counters[: len(needed)] = needed
    return counters


@inlined
def restart(left: Any, needed: Any) -> None:
    """Set all counters to what is needed. A loop: `left[:] = needed` copies byte by byte, 30 times slower."""
    for s in range(needed.shape[0]):
        left[s] = needed[s]


@inlined
def group_of(column: Any, k: int, begin: int, end: int, group: int) -> int:
    """The group of value k of an event with values begin .. end; `group` is that of the value before."""
    if k == begin or column[k - 1] != column[k]:
        group = k + 1 if k + 1 < end and column[k + 1] == column[k] else 0
    return group


@inlined
def count_hit(s: Any, group: int, stamp: Any, left: Any) -> None:
    """Count a hit of subscription s, once for each group."""
    if group == 0:
        left[s] -= 1
    elif stamp[s] != group:
        stamp[s] = group
        left[s] -= 1


@inlined
def list_complete(left: Any, out: Any, m: int) -> int:
    """Write the subscriptions with nothing left to hit into `out` from m on; returns where they end.

    Eight bytes of counters at a time: subtracting 1 from a counter x sets its highest bit, where it was clear, only if
    x is 0. So (x - 1) & ~x & highest, for the counters of a word at once, is not 0 if and only if one of them is 0.
    """
    lanes = np.uint64(0xFFFFFFFFFFFFFFFF) // np.uint64((1 << 8 * left.itemsize) - 1)  # 1 in each counter
    highest = lanes << np.uint64(8 * left.itemsize - 1)
    words = left.view(np.uint64)
    per_word = 8 // left.itemsize
    for w in range(words.shape[0]):
        x = words[w]
        if (x - lanes) & ~x & highest:
            for s in range(w * per_word, (w + 1) * per_word):
                if left[s] == 0:
                    out[m] = s
                    m += 1
    return m


@kernel
def stamps(event: int, offsets: Any, column: Any, n_columns: int, n_counters: int) -> Any:
    """A stamp for each counter, or none where no event from `event` on has several values in one column."""
    for e in range(event, offsets.shape[0] - 1):
        if has_several_values(column, offsets[e], offsets[e + 1], n_columns):
            return np.zeros(n_counters, np.int64)
    return np.zeros(0, np.int64)
