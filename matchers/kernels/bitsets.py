"""Sets of subscriptions as bits: subscription s is bit s & 63 of word s >> 6. Or as bytes, while many are marked."""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.jit import inlined, kernel


@inlined
def mark(bits: Any, s: int) -> None:
    """Unsigned: for a signed index, compiled code tests whether it counts from the end."""
    at = np.uint64(s)
    bits[at >> np.uint64(6)] |= np.uint64(1) << (at & np.uint64(63))


@inlined
def mark_if(bits: Any, s: int, condition: bool) -> None:
    """Without a branch, which would be mispredicted where the condition holds about every other time."""
    at = np.uint64(s)
    bits[at >> np.uint64(6)] |= np.uint64(condition) << (at & np.uint64(63))


@inlined
def unmark(bits: Any, s: int) -> None:
    at = np.uint64(s)
    bits[at >> np.uint64(6)] &= ~(np.uint64(1) << (at & np.uint64(63)))


@inlined
def mark_bytes(marks: Any, subscription: Any, begin: int, end: int) -> None:
    """Set marks[s] to 1 for each s of subscription[begin : end]. `marks`: [S] integers of any size."""
    whole = begin + ((end - begin) & ~3)  # four at a time: a store does not wait for the next load
    for i in range(begin, whole, 4):
        w, x = np.uint64(subscription[i]), np.uint64(subscription[i + 1])
        y, z = np.uint64(subscription[i + 2]), np.uint64(subscription[i + 3])
        marks[w] = 1
        marks[x] = 1
        marks[y] = 1
        marks[z] = 1
    for i in range(whole, end):
        marks[np.uint64(subscription[i])] = 1


@kernel
def unite(into: Any, other: Any) -> None:
    """into |= other. Contiguous words without a branch, which the compiler turns into its widest registers."""
    for w in range(into.shape[0]):
        into[w] |= other[w]


@kernel
def unmarked(bits: Any, n: int, out: Any, m: int, origin: int = 0) -> int:
    """Write the subscriptions below n whose bit is 0, counted from `origin`, into `out` from m on; returns the end.

    A word that is all ones costs one comparison; of the others each zero is found by the lowest set bit of the
    complement: x & -x isolates it, and the number of ones below it is its place.
    """
    one = np.uint64(1)
    for w in range(bits.shape[0]):
        free = ~bits[w]
        while free != np.uint64(0):
            lowest = free & (~free + one)
            s = (w << 6) + _ones_below(lowest)
            if s >= n:
                break
            out[m] = origin + s
            m += 1
            free ^= lowest
    return m


@inlined
def _ones_below(power: Any) -> int:
    """The logarithm of a power of two: the count of the bits below it, by halves."""
    at = 0
    for half in (32, 16, 8, 4, 2, 1):
        if power >> np.uint64(half):
            power >>= np.uint64(half)
            at += half
    return at


def set_bits(words: Any, numbers: Any) -> None:
    """Set the bits of these numbers, int64, in words of 64."""
    np.bitwise_or.at(words, numbers >> 6, np.uint64(1) << (numbers & 63).astype(np.uint64))


def clear_bits(words: Any, numbers: Any) -> None:
    np.bitwise_and.at(words, numbers >> 6, ~(np.uint64(1) << (numbers & 63).astype(np.uint64)))
