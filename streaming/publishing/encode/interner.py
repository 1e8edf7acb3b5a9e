"""Number strings, such as the names of subscribers."""

from __future__ import annotations

import numpy as np

from matchers.contract.tables import Int32, Int64
from matchers.index.texts import Texts
from matchers.kernels.growing import with_room
from matchers.kernels.jit import kernel
from matchers.kernels.texts import fill, slot_of
from streaming.publishing.contract import Bytes


class Interner:
    """Each string that was ever seen has a number, from 0 without gaps. Numbers change with `clear` alone."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all strings. The `names` that were given out stay as they are."""
        self._n = 0
        self._text = np.zeros(1 << 10, np.uint8)
        self._start = np.zeros(1 << 7, np.int64)  # name i is text[start[i] : start[i + 1]]
        self._slots = np.full(1 << 8, -1, np.int32)

    def __len__(self) -> int:
        return self._n

    @property
    def names(self) -> Texts:
        """The text of each number."""
        return Texts(self._text[: self._start[self._n]], self._start[: self._n + 1])

    def numbers(self, texts: Texts) -> Int64:
        """The number of each text; a new one gets the next."""
        numbers = np.empty(len(texts), np.int64)
        done = 0
        while True:
            done, self._n = _number(
                done, texts.text, texts.start, self._text, self._start, self._slots, self._n, numbers
            )
            if done == len(texts):
                return numbers
            self._grow(int(texts.start[done + 1] - texts.start[done]))

    def _grow(self, length: int) -> None:
        """Make room for a name of this length."""
        self._text = with_room(self._text, int(self._start[self._n]) + length)
        self._start = with_room(self._start, self._n + 2)
        if 2 * self._n >= len(self._slots):
            self._slots = np.full(2 * len(self._slots), -1, np.int32)
            fill(self._text, self._start[: self._n + 1], self._slots, np.empty(self._n, np.bool_))


@kernel
def _number(
    done: int, text: Bytes, start: Int64, names: Bytes, name_start: Int64, slots: Int32, n: int, numbers: Int64
) -> tuple[int, int]:
    """Number the strings from `done` on, up to a new one for which the table has no room. Return how many are done, and
    the number of names."""
    while done < start.shape[0] - 1:
        begin, end = start[done], start[done + 1]
        slot = slot_of(names, name_start, slots, text, begin, end)
        if slots[slot] < 0:
            at = name_start[n]
            name_end = at + end - begin
            if name_end > names.shape[0] or n + 1 >= name_start.shape[0] or 2 * n >= slots.shape[0]:
                return done, n
            for i in range(end - begin):
                names[at + i] = text[begin + i]
            name_start[n + 1] = name_end
            slots[slot] = n
            n += 1
        numbers[done] = slots[slot]
        done += 1
    return done, n
