"""Texts as bytes side by side: text i is text[start[i] : start[i + 1]]. Bytes are loaded by eight.

The table of a set of texts is open addressing: `slots`, a power of two long, holds positions, -1 where it is free.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from matchers.kernels.jit import inlined, kernel

_SETTINGS: Any = numba.config  # numba sets them when it is imported
# Whether kernels run as Python, or check the bounds of arrays.
CHECKED = bool(_SETTINGS.DISABLE_JIT) or _SETTINGS.BOUNDSCHECK == 1
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def _load_compiled(_: Any, array: Any, at: Any) -> Any:
    """Load 8 bytes as one little-endian word; numba would load each alone. The caller ensures that they exist."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        eight = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(64).as_pointer())
        word = builder.load(eight)
        word.align = 1
        return word

    return types.uint64(array, types.intp), generate


def _load_checked(array: Any, at: int) -> Any:
    word = np.uint64(0)
    for i in range(8):
        word |= np.uint64(array[at + i]) << np.uint64(8 * i)
    return word


load: Any = inlined(_load_checked) if CHECKED else intrinsic(_load_compiled)


@inlined
def _hash(text: Any, begin: int, end: int) -> Any:
    """Hash a text. Saved tables depend on it: with another hash their texts would not be found."""
    h = np.uint64(end - begin)
    for i in range(begin, end):
        h = (h ^ np.uint64(text[i])) * _PRIME
        h ^= h >> _SHIFT
    return h


@inlined
def _same(text: Any, begin: int, end: int, other: Any, other_begin: int, other_end: int) -> Any:
    if end - begin != other_end - other_begin:
        return False
    while begin + 8 <= end and load(text, begin) == load(other, other_begin):
        begin += 8
        other_begin += 8
    while begin < end and text[begin] == other[other_begin]:
        begin += 1
        other_begin += 1
    return begin == end


@inlined
def slot_of(text: Any, start: Any, slots: Any, wanted: Any, begin: int, end: int) -> Any:
    """The slot of the text wanted[begin : end] in the table, or the free slot for it."""
    mask = np.int64(slots.shape[0] - 1)
    slot = np.int64(_hash(wanted, begin, end) & np.uint64(mask))
    while slots[slot] >= 0 and not _same(wanted, begin, end, text, start[slots[slot]], start[slots[slot] + 1]):
        slot = (slot + 1) & mask
    return slot


@kernel
def fill(text: Any, start: Any, slots: Any, last: Any) -> int:
    """Enter all texts into free slots; of equal texts the last one stays. `last[i]`: whether text i stays.

    Returns how many different ones there are.
    """
    n = 0
    for i in range(start.shape[0] - 1):
        slot = slot_of(text, start, slots, text, start[i], start[i + 1])
        if slots[slot] >= 0:
            last[slots[slot]] = False
        else:
            n += 1
        slots[slot] = i
        last[i] = True
    return n


@kernel
def find(text: Any, start: Any, slots: Any, wanted: Any, wanted_start: Any, position: Any) -> None:
    """The position of each wanted text; -1 if there is none."""
    for i in range(wanted_start.shape[0] - 1):
        position[i] = slots[slot_of(text, start, slots, wanted, wanted_start[i], wanted_start[i + 1])]


@kernel
def take(text: Any, start: Any, positions: Any, to: Any, to_start: Any) -> None:
    """Copy the texts at some positions one behind the other; text i begins at `to_start[i]`."""
    for i in range(positions.shape[0]):
        begin = start[positions[i]]
        for j in range(to_start[i + 1] - to_start[i]):
            to[to_start[i] + j] = text[begin + j]
