"""Texts as bytes side by side: text i is text[start[i] : start[i + 1]].

The table of a set of texts is open addressing: `slots`, a power of two long, holds positions, -1 where it is free.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.jit import inlined, kernel

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


@inlined
def _hash(text: Any, begin: int, end: int) -> Any:
    h = np.uint64(end - begin)
    for i in range(begin, end):
        h = (h ^ np.uint64(text[i])) * _PRIME
        h ^= h >> _SHIFT
    return h


@inlined
def _same(text: Any, begin: int, end: int, other: Any, other_begin: int, other_end: int) -> Any:
    if end - begin != other_end - other_begin:
        return False
    i = 0
    while i < end - begin and text[begin + i] == other[other_begin + i]:
        i += 1
    return i == end - begin


@kernel
def fill(text: Any, start: Any, slots: Any, last: Any) -> int:
    """Enter all texts into free slots; of equal ones the last stays. `last[i]` says whether text i did.

    Returns how many different ones there are.
    """
    mask = np.uint64(slots.shape[0] - 1)
    n = 0
    for i in range(start.shape[0] - 1):
        slot = np.int64(_hash(text, start[i], start[i + 1]) & mask)
        last[i] = True
        while slots[slot] >= 0:
            other = slots[slot]
            if _same(text, start[i], start[i + 1], text, start[other], start[other + 1]):
                last[other] = False
                break
            slot = (slot + 1) & np.int64(mask)
        if slots[slot] < 0:
            n += 1
        slots[slot] = i
    return n


@kernel
def find(text: Any, start: Any, slots: Any, wanted: Any, wanted_start: Any, position: Any) -> None:
    """Where each of the wanted texts is, -1 if nowhere."""
    mask = np.uint64(slots.shape[0] - 1)
    for i in range(wanted_start.shape[0] - 1):
        slot = np.int64(_hash(wanted, wanted_start[i], wanted_start[i + 1]) & mask)
        position[i] = -1
        while slots[slot] >= 0:
            other = slots[slot]
            if _same(wanted, wanted_start[i], wanted_start[i + 1], text, start[other], start[other + 1]):
                position[i] = other
                break
            slot = (slot + 1) & np.int64(mask)


@kernel
def take(text: Any, start: Any, positions: Any, to: Any, to_start: Any) -> None:
    """Copy the texts at some positions one behind the other; `to_start` says where each goes."""
    for i in range(positions.shape[0]):
        begin = start[positions[i]]
        for j in range(to_start[i + 1] - to_start[i]):
            to[to_start[i] + j] = text[begin + j]
