"""Draw distinct attributes for each row, one after the other, by weight.

The attributes lie side by side on a line, each as long as its weight. Those drawn before are cut out of it:

    start:   0    1    2    3    4        drawn: 1       x = 1.4 of 3: 1 lies at or below, so 2.4, attribute 2

Cost: O(k * k + k log d) per row of k, but of all attributes there is nothing to draw. No row of d numbers is ever made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.contract.tables import Float64, Int32, Int64
from matchers.kernels.jit import kernel


def line(weights: Float64) -> Float64:
    """[A + 1]: the point where each attribute begins on the line of their weights."""
    return np.concatenate(([0.0], np.cumsum(weights)))


def drawn(rng: np.random.Generator, offsets: Int64, start: Float64) -> Int32:
    """Distinct attributes: those of row r lie at offsets[r] - offsets[0], ascending."""
    n = offsets[-1] - offsets[0]
    out = np.empty(n, np.int32)
    draw_attributes(offsets - offsets[0], rng.random(n), start, out)
    return out


@kernel
def draw_attributes(offsets: Any, uniform: Any, start: Any, out: Any) -> None:
    """out[offsets[r] : offsets[r + 1]] becomes ascending; `uniform` holds a number in [0, 1) for each place."""
    n_attributes = start.shape[0] - 1
    for r in range(offsets.shape[0] - 1):
        begin = offsets[r]
        if offsets[r + 1] - begin == n_attributes:
            out[begin : offsets[r + 1]] = np.arange(n_attributes)
            continue
        left = start[n_attributes]
        for end in range(begin, offsets[r + 1]):
            x = uniform[end] * max(left, 0.0)
            for i in range(begin, end):
                if x < start[out[i]]:
                    break
                x += start[out[i] + 1] - start[out[i]]
            a = min(np.searchsorted(start, x, side="right") - 1, n_attributes - 1)
            i = begin
            while i < end:  # sums are rounded, so x may lie just within one that is cut out: the next free one then
                if out[i] == a:
                    a = (a + 1) % n_attributes
                    i = begin
                else:
                    i += 1
            i = end
            while i > begin and out[i - 1] > a:
                out[i] = out[i - 1]
                i -= 1
            out[i] = a
            left -= start[a + 1] - start[a]
