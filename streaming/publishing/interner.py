"""Number texts, such as the names of subscribers, for as long as a process lives.

The table is a hash table with open addressing. A cell, int64, holds 31 bits of the text's hash and, below them, its
number; -1 is free.

    cell:  ... | 0x1f3a_0000_0002 | -1 | 0x0021_0000_0000 | ...    number 2 is text[start[2] : start[3]]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.contract.tables import Int64
from matchers.index.texts import Texts
from matchers.kernels.jit import inlined, kernel
from streaming.publishing.contract import Bytes
from streaming.publishing.wire import load

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_FOLD, _TAG = np.uint64(32), np.uint64(33)
_NUMBER = (1 << 32) - 1


class Table(NamedTuple):
    """The names that have numbers, and room for more."""

    text: Any  # uint8
    start: Any  # int64: name i is text[start[i] : start[i + 1]]
    cells: Any  # int64, a power of two long


class Interner:
    """Each text that was ever seen has a number, from 0 without gaps. Numbers and names stay as they are."""

    def __init__(self) -> None:
        self._n = 0
        self._table = Table(np.zeros(1 << 10, np.uint8), np.zeros(1 << 7, np.int64), np.full(1 << 8, -1, np.int64))

    def __len__(self) -> int:
        return self._n

    @property
    def names(self) -> Texts:
        """The text of each number."""
        text, start, _ = self._table
        return Texts(text[: start[self._n]], start[: self._n + 1])

    def numbers(self, texts: Texts) -> Int64:
        """The number of each text; a new one gets the next."""
        numbers = np.empty(len(texts), np.int64)
        done = 0
        while True:
            done, self._n = _number(done, texts.text, texts.start, self._table, self._n, numbers)
            if done == len(texts):
                return numbers
            self._grow(int(texts.start[done + 1] - texts.start[done]))

    def _grow(self, length: int) -> None:
        """Make room for a name of this length."""
        text, start, cells = self._table
        if start[self._n] + length > len(text):
            text = _longer(text, length)
        if self._n + 1 >= len(start):
            start = _longer(start, 1)
        if 2 * self._n >= len(cells):
            cells = np.full(2 * len(cells), -1, np.int64)
            _enter(text, start, self._n, cells)
        self._table = Table(text, start, cells)


def _longer(array: Any, n: int) -> Any:
    """A copy of twice the length and n more."""
    larger = np.zeros(2 * len(array) + n, array.dtype)
    larger[: len(array)] = array
    return larger


@inlined
def _hash(text: Bytes, begin: int, end: int) -> Any:
    h = np.uint64(end - begin)
    i = begin
    while i + 8 <= end:
        h = (h ^ load(text, i)) * _PRIME
        h ^= h >> _FOLD
        i += 8
    while i < end:
        h = (h ^ np.uint64(text[i])) * _PRIME
        i += 1
    return h ^ (h >> _FOLD)


@inlined
def _same(text: Bytes, begin: int, other: Bytes, other_begin: int, length: int) -> bool:
    i = 0
    while i < length and text[begin + i] == other[other_begin + i]:
        i += 1
    return i == length


@kernel
def _number(done: int, text: Bytes, start: Int64, table: Table, n: int, numbers: Int64) -> tuple[int, int]:
    """Number the texts from `done` on; stops before a new one for which the table has no room. Returns how many are
    done, and the number of names."""
    names, name_start, cells = table
    mask = cells.shape[0] - 1
    while done < start.shape[0] - 1:
        begin = start[done]
        length = start[done + 1] - begin
        h = _hash(text, begin, begin + length)
        tag = np.int64(h >> _TAG)
        cell = np.int64(h & np.uint64(mask))
        number = -1
        while number < 0 and cells[cell] >= 0:
            if cells[cell] >> 32 == tag:
                i = cells[cell] & _NUMBER
                if name_start[i + 1] - name_start[i] == length and _same(names, name_start[i], text, begin, length):
                    number = i
            cell = (cell + 1) & mask
        if number < 0:
            at = name_start[n]
            if at + length > names.shape[0] or n + 1 >= name_start.shape[0] or 2 * n >= cells.shape[0]:
                return done, n
            for i in range(length):
                names[at + i] = text[begin + i]
            name_start[n + 1] = at + length
            cells[cell] = (tag << 32) | n
            number = n
            n += 1
        numbers[done] = number
        done += 1
    return done, n


@kernel
def _enter(text: Bytes, start: Int64, n: int, cells: Int64) -> None:
    """Enter the first n names, which differ, into free cells."""
    mask = cells.shape[0] - 1
    for i in range(n):
        h = _hash(text, start[i], start[i + 1])
        cell = np.int64(h & np.uint64(mask))
        while cells[cell] >= 0:
            cell = (cell + 1) & mask
        cells[cell] = (np.int64(h >> _TAG) << 32) | i
